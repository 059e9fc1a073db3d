"""Commands that the exchange decides, and its replies.

Commands are verbs. The caller is not part of a command: a gateway makes the `Caller` from a token. A command is also
the request of its operation, so its fields carry the types, limits and descriptions that every interface shows, and the
replies are what every interface returns. One module per subject.
"""

from typing import TypeAlias

import msgspec

from tocsin.core.commands.agents import (
    CloseSession,
    GrantCredit,
    Heartbeat,
    OpenSession,
    RegisterAgent,
    Registered,
    RetireAgent,
    SessionKind,
    SessionReady,
)
from tocsin.core.commands.approvals import (
    ApprovalDecided,
    ApprovalRequested,
    DecideApproval,
    Handoff,
    RequestApproval,
    WithdrawApproval,
)
from tocsin.core.commands.attention import (
    Attending,
    BeginWork,
    FinishWork,
    PutAside,
    ReachPausePoint,
    Resumed,
    ResumeWork,
)
from tocsin.core.commands.base import SYSTEM, Caller, CommandBase
from tocsin.core.commands.discussions import (
    CancelDiscussion,
    Consensus,
    Discussed,
    OpenDiscussion,
    Speak,
    Vote,
)
from tocsin.core.commands.escalation import (
    Escalated,
    EscalateToHuman,
    ResolveEscalation,
)
from tocsin.core.commands.frames import FrameTally, ReportShedding
from tocsin.core.commands.health import (
    HealthReported,
    ReportHealth,
)
from tocsin.core.commands.leases import (
    AcquireLease,
    ForceRelease,
    LeaseRecord,
    Released,
    ReleaseLease,
    RenewLease,
)
from tocsin.core.commands.messages import (
    Acknowledge,
    Acknowledged,
    AckStatus,
    BroadcastReceipt,
    Confirm,
    Confirmed,
    Delivery,
    Drain,
    Drained,
    MarkProcessed,
    QuotedCursors,
    Reach,
    Recall,
    RecallResult,
    Receipt,
    Redrive,
    Redriven,
    Reject,
    Rejected,
    Send,
    receipt_of,
)
from tocsin.core.commands.project import Adopted, AdoptPolicy, Done, Tick, Ticked
from tocsin.core.commands.requests import (
    CancelRequest,
    ExtendRequest,
    Requested,
    SendRequest,
    TimeoutExtended,
)
from tocsin.core.commands.topics import (
    Publish,
    Published,
    Subscribe,
    Subscriptions,
    Unsubscribe,
)
from tocsin.core.commands.wake import DeclareWakers, ReportWaker, WakerOutcome

__all__ = [
    "SYSTEM",
    "AckStatus",
    "Acknowledge",
    "Acknowledged",
    "AcquireLease",
    "AdoptPolicy",
    "Adopted",
    "ApprovalDecided",
    "ApprovalRequested",
    "Attending",
    "BeginWork",
    "BroadcastReceipt",
    "Caller",
    "CancelDiscussion",
    "CancelRequest",
    "CloseSession",
    "Command",
    "Confirm",
    "Confirmed",
    "Consensus",
    "DecideApproval",
    "DeclareWakers",
    "Delivery",
    "Discussed",
    "Done",
    "Drain",
    "Drained",
    "EscalateToHuman",
    "Escalated",
    "ExtendRequest",
    "FinishWork",
    "ForceRelease",
    "FrameTally",
    "GrantCredit",
    "Handoff",
    "HealthReported",
    "Heartbeat",
    "LeaseRecord",
    "MarkProcessed",
    "OpenDiscussion",
    "OpenSession",
    "Publish",
    "Published",
    "PutAside",
    "QuotedCursors",
    "Reach",
    "ReachPausePoint",
    "Recall",
    "RecallResult",
    "Receipt",
    "Redrive",
    "Redriven",
    "RegisterAgent",
    "Registered",
    "Reject",
    "Rejected",
    "ReleaseLease",
    "Released",
    "RenewLease",
    "Reply",
    "ReportHealth",
    "ReportShedding",
    "ReportWaker",
    "RequestApproval",
    "Requested",
    "ResolveEscalation",
    "ResumeWork",
    "Resumed",
    "RetireAgent",
    "Send",
    "SendRequest",
    "SessionKind",
    "SessionReady",
    "Speak",
    "Subscribe",
    "Subscriptions",
    "Tick",
    "Ticked",
    "TimeoutExtended",
    "Unsubscribe",
    "Vote",
    "WakerOutcome",
    "WithdrawApproval",
    "receipt_of",
]

#: Anything that the exchange decides.
Command: TypeAlias = CommandBase
#: Anything that it answers: a struct of one of these modules, or a `Problem`.
Reply: TypeAlias = msgspec.Struct
