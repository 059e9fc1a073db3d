"""What the exchange can be asked, and what it answers.

Commands are verbs. Who asks is never part of a command: that is the `Caller`, which a gateway makes out of a token.
One module per subject; this one gathers them.
"""

from typing import TypeAlias

from tocsin.core.commands.agents import (
    CloseSession,
    GrantCredit,
    Heartbeat,
    OpenSession,
    RegisterAgent,
    Registered,
    RetireAgent,
    SessionReady,
)
from tocsin.core.commands.approvals import (
    ApprovalAsked,
    ApprovalDecided,
    AskApproval,
    DecideApproval,
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
from tocsin.core.commands.base import SYSTEM, Caller
from tocsin.core.commands.discussions import (
    CancelDiscussion,
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
    HealthTaken,
    ReportHealth,
)
from tocsin.core.commands.leases import (
    AcquireLease,
    ForceRelease,
    Held,
    Queued,
    Released,
    ReleaseLease,
    RenewLease,
)
from tocsin.core.commands.messages import (
    Acknowledge,
    Acknowledged,
    BroadcastReceipt,
    Confirm,
    Confirmed,
    Delivery,
    Drain,
    Drained,
    MarkProcessed,
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
    Requested,
    SendRequest,
)
from tocsin.core.commands.topics import (
    Publish,
    Published,
    Subscribe,
    Subscriptions,
    Unsubscribe,
)
from tocsin.core.errors import Problem

__all__ = [
    "SYSTEM",
    "Acknowledge",
    "Acknowledged",
    "AcquireLease",
    "AdoptPolicy",
    "Adopted",
    "ApprovalAsked",
    "ApprovalDecided",
    "AskApproval",
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
    "DecideApproval",
    "Delivery",
    "Discussed",
    "Done",
    "Drain",
    "Drained",
    "EscalateToHuman",
    "Escalated",
    "FinishWork",
    "ForceRelease",
    "FrameTally",
    "GrantCredit",
    "HealthTaken",
    "Heartbeat",
    "Held",
    "MarkProcessed",
    "OpenDiscussion",
    "OpenSession",
    "Publish",
    "Published",
    "PutAside",
    "Queued",
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
    "Requested",
    "ResolveEscalation",
    "ResumeWork",
    "Resumed",
    "RetireAgent",
    "Send",
    "SendRequest",
    "SessionReady",
    "Speak",
    "Subscribe",
    "Subscriptions",
    "Tick",
    "Ticked",
    "Unsubscribe",
    "Vote",
    "WithdrawApproval",
    "receipt_of",
]

Command: TypeAlias = (
    AdoptPolicy
    | RegisterAgent
    | RetireAgent
    | OpenSession
    | Heartbeat
    | GrantCredit
    | CloseSession
    | Send
    | Drain
    | Confirm
    | Acknowledge
    | Reject
    | MarkProcessed
    | Recall
    | Redrive
    | ReportShedding
    | AcquireLease
    | RenewLease
    | ReleaseLease
    | ForceRelease
    | Tick
    | BeginWork
    | ReachPausePoint
    | PutAside
    | ResumeWork
    | FinishWork
    | ResolveEscalation
    | EscalateToHuman
    | SendRequest
    | CancelRequest
    | AskApproval
    | DecideApproval
    | WithdrawApproval
    | OpenDiscussion
    | Speak
    | Vote
    | CancelDiscussion
    | Subscribe
    | Unsubscribe
    | Publish
    | ReportHealth
)

Reply: TypeAlias = (
    Receipt
    | BroadcastReceipt
    | Registered
    | SessionReady
    | Drained
    | Confirmed
    | Acknowledged
    | Rejected
    | RecallResult
    | Redriven
    | Held
    | Queued
    | Released
    | Adopted
    | Ticked
    | Done
    | Problem
    | Attending
    | Resumed
    | Escalated
    | Requested
    | ApprovalAsked
    | ApprovalDecided
    | Discussed
    | Subscriptions
    | Published
    | HealthTaken
)
