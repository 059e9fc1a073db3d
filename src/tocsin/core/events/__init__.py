"""All events: the content of the journal and the contract with the pipeline.

An event carries all that is needed to rebuild the state and to explain the decision. `at` is microseconds since the
epoch. A message is named by `message`, the sequence number of its acceptance. Events are arrays on disk: a field may be
added at the end, with a default; none is ever removed, renamed or moved. There is one module per subject; this one
re-exports them. `docs/reference/events.md` is generated from them.
"""

from typing import TypeAlias, get_args

import msgspec

from tocsin.core.events.agents import (
    AgentCharged,
    AgentRegistered,
    AgentRetired,
    GamingCleared,
    GamingDetected,
    SessionClosed,
    SessionHeartbeat,
    SessionOpened,
    SessionWentStale,
    SessionWindowChanged,
)
from tocsin.core.events.approvals import (
    ApprovalEnded,
    ApprovalOverdue,
    ApprovalRequested,
)
from tocsin.core.events.attention import (
    AttentionLapsed,
    InterruptEnded,
    InterruptRaised,
    PausePointReached,
    WorkBegun,
    WorkContinued,
    WorkFinished,
    WorkPutAside,
    WorkResumed,
)
from tocsin.core.events.base import EventBase
from tocsin.core.events.discussions import (
    ConsensusReached,
    DiscussionClosed,
    DiscussionLeft,
    DiscussionOpened,
    DiscussionSpoken,
    VoteCast,
)
from tocsin.core.events.escalation import (
    EscalationDeferred,
    EscalationMoved,
    EscalationOpened,
    EscalationsForgotten,
)
from tocsin.core.events.frames import FramesShed
from tocsin.core.events.health import (
    AlertCleared,
    AlertEased,
    AlertRaised,
    AlertWorsened,
    HealthBreached,
    HealthRecovered,
)
from tocsin.core.events.leases import (
    LeaseContended,
    LeaseExpiring,
    LeaseGranted,
    LeaseLapsed,
    LeaseQueued,
    LeaseReclaimed,
    LeaseRefused,
    LeaseReleased,
    LeaseRenewed,
    LeaseWaitEnded,
)
from tocsin.core.events.messages import (
    BroadcastAccepted,
    DeadLetterPurged,
    DeadLetterRedriven,
    MessageAccepted,
    MessageAcknowledged,
    MessageBoosted,
    MessageDelivered,
    MessageDied,
    MessageExpired,
    MessageOffered,
    MessageProcessed,
    MessageReady,
    MessageRecalled,
    MessageRejected,
    MessageReleased,
    MessageRequeued,
    NoticeFolded,
    RecallRefused,
    SendRefused,
)
from tocsin.core.events.project import (
    DecayRateChanged,
    MessagesForgotten,
    PolicyAdopted,
)
from tocsin.core.events.requests import (
    RequestEnded,
    RequestExtended,
    RequestOpened,
)
from tocsin.core.events.topics import (
    Subscribed,
    TopicPublished,
    Unsubscribed,
)
from tocsin.core.events.waits import (
    DeadlockFound,
    PriorityInherited,
    PriorityRestored,
    WaitBegan,
    WaitEnded,
    WaitRaised,
    WaitShifted,
)
from tocsin.core.events.wake import (
    AgentWakeFailed,
    AgentWakeRequested,
    AgentWoken,
    ChannelAnswered,
    ChannelIgnored,
    WakerExited,
    WakersDeclared,
)

__all__ = [
    "EVENT_TYPES",
    "AgentCharged",
    "AgentRegistered",
    "AgentRetired",
    "AgentWakeFailed",
    "AgentWakeRequested",
    "AgentWoken",
    "AlertCleared",
    "AlertEased",
    "AlertRaised",
    "AlertWorsened",
    "ApprovalEnded",
    "ApprovalOverdue",
    "ApprovalRequested",
    "AttentionLapsed",
    "BroadcastAccepted",
    "ChannelAnswered",
    "ChannelIgnored",
    "ConsensusReached",
    "DeadLetterPurged",
    "DeadLetterRedriven",
    "DeadlockFound",
    "DecayRateChanged",
    "DiscussionClosed",
    "DiscussionLeft",
    "DiscussionOpened",
    "DiscussionSpoken",
    "EscalationDeferred",
    "EscalationMoved",
    "EscalationOpened",
    "EscalationsForgotten",
    "Event",
    "FramesShed",
    "GamingCleared",
    "GamingDetected",
    "HealthBreached",
    "HealthRecovered",
    "InterruptEnded",
    "InterruptRaised",
    "LeaseContended",
    "LeaseExpiring",
    "LeaseGranted",
    "LeaseLapsed",
    "LeaseQueued",
    "LeaseReclaimed",
    "LeaseRefused",
    "LeaseReleased",
    "LeaseRenewed",
    "LeaseWaitEnded",
    "MessageAccepted",
    "MessageAcknowledged",
    "MessageBoosted",
    "MessageDelivered",
    "MessageDied",
    "MessageExpired",
    "MessageOffered",
    "MessageProcessed",
    "MessageReady",
    "MessageRecalled",
    "MessageRejected",
    "MessageReleased",
    "MessageRequeued",
    "MessagesForgotten",
    "NoticeFolded",
    "PausePointReached",
    "PolicyAdopted",
    "PriorityInherited",
    "PriorityRestored",
    "RecallRefused",
    "RequestEnded",
    "RequestExtended",
    "RequestOpened",
    "SendRefused",
    "SessionClosed",
    "SessionHeartbeat",
    "SessionOpened",
    "SessionWentStale",
    "SessionWindowChanged",
    "Subscribed",
    "TopicPublished",
    "Unsubscribed",
    "VoteCast",
    "WaitBegan",
    "WaitEnded",
    "WaitRaised",
    "WaitShifted",
    "WakerExited",
    "WakersDeclared",
    "WorkBegun",
    "WorkContinued",
    "WorkFinished",
    "WorkPutAside",
    "WorkResumed",
    "decode_events",
    "encode_events",
]

Event: TypeAlias = (
    PolicyAdopted
    | AgentRegistered
    | AgentRetired
    | SessionOpened
    | SessionHeartbeat
    | SessionWentStale
    | SessionClosed
    | SendRefused
    | BroadcastAccepted
    | MessageAccepted
    | MessageOffered
    | MessageDelivered
    | MessageAcknowledged
    | MessageRejected
    | MessageRequeued
    | MessageReady
    | MessageProcessed
    | MessageExpired
    | MessageRecalled
    | RecallRefused
    | MessageBoosted
    | MessageDied
    | DeadLetterRedriven
    | DeadLetterPurged
    | MessagesForgotten
    | GamingDetected
    | GamingCleared
    | DecayRateChanged
    | SessionWindowChanged
    | WaitBegan
    | WaitShifted
    | WaitRaised
    | WaitEnded
    | DeadlockFound
    | PriorityInherited
    | PriorityRestored
    | LeaseRefused
    | LeaseQueued
    | LeaseGranted
    | LeaseRenewed
    | LeaseExpiring
    | LeaseReleased
    | LeaseLapsed
    | LeaseReclaimed
    | LeaseWaitEnded
    | LeaseContended
    | AttentionLapsed
    | InterruptEnded
    | InterruptRaised
    | PausePointReached
    | WorkBegun
    | WorkContinued
    | WorkFinished
    | WorkPutAside
    | WorkResumed
    | EscalationOpened
    | EscalationDeferred
    | EscalationMoved
    | EscalationsForgotten
    | RequestOpened
    | RequestExtended
    | RequestEnded
    | MessageReleased
    | ApprovalRequested
    | ApprovalOverdue
    | ApprovalEnded
    | ConsensusReached
    | DiscussionClosed
    | DiscussionLeft
    | DiscussionOpened
    | DiscussionSpoken
    | VoteCast
    | Subscribed
    | TopicPublished
    | Unsubscribed
    | AlertCleared
    | AlertEased
    | AlertRaised
    | AlertWorsened
    | HealthBreached
    | HealthRecovered
    | FramesShed
    | AgentCharged
    | NoticeFolded
    | WakersDeclared
    | AgentWakeRequested
    | AgentWoken
    | AgentWakeFailed
    | WakerExited
    | ChannelIgnored
    | ChannelAnswered
)

EVENT_TYPES: tuple[type[EventBase], ...] = get_args(Event)

_ENCODER = msgspec.msgpack.Encoder()
_DECODER: msgspec.msgpack.Decoder[list[Event]] = msgspec.msgpack.Decoder(list[Event])


def encode_events(events: list[Event]) -> bytes:
    """Encode a batch of events for the journal."""
    return _ENCODER.encode(events)


def decode_events(data: bytes) -> list[Event]:
    """Decode a batch of events from the journal."""
    return _DECODER.decode(data)
