"""The SDK: agents that are connected to a hub, or to a project in the same process.

`Agent` is for asyncio, `SyncAgent` for synchronous code. Connecting to a hub needs `tocsin[client]`.
"""

from tocsin.client.agent import Agent
from tocsin.client.config import ClientConfig, client_config
from tocsin.client.connection.backoff import Retry
from tocsin.client.connection.connection import ConnectionState
from tocsin.client.errors import Deadlock, LeaseLost, NoAnswer, NoResponse
from tocsin.client.leases import Lease
from tocsin.client.messages.iteration import Messages, Receipts
from tocsin.client.messages.message import Message
from tocsin.client.messages.work import Interruption, Resuming, Working
from tocsin.client.sync import SyncAgent, SyncInterruption, SyncLease, SyncMessage, SyncResuming, SyncWorking
from tocsin.core.commands import (
    Acknowledged,
    ApprovalDecided,
    ApprovalRequested,
    Attending,
    BroadcastReceipt,
    Discussed,
    Done,
    Escalated,
    HealthReported,
    LeaseRecord,
    Published,
    RecallResult,
    Receipt,
    Redriven,
    Registered,
    Rejected,
    Released,
    Subscriptions,
)
from tocsin.core.errors import Problem, TocsinError
from tocsin.wire.agents import AgentRecord
from tocsin.wire.drafts import Draft
from tocsin.wire.history import DeadLetterRecord, HistoryEntry, MessageHistory, MessageRecord, MessageSummary
from tocsin.wire.leases import LeaseRecords
from tocsin.wire.messages import Settled
from tocsin.wire.operation import Page
from tocsin.wire.teamwork import (
    AlertRecord,
    ApprovalRecord,
    DiscussionRecord,
    EscalationRecord,
    EscalationStep,
    RequestRecord,
    TopicRecord,
)

__all__ = [
    "Acknowledged",
    "Agent",
    "AgentRecord",
    "AlertRecord",
    "ApprovalDecided",
    "ApprovalRecord",
    "ApprovalRequested",
    "Attending",
    "BroadcastReceipt",
    "ClientConfig",
    "ConnectionState",
    "DeadLetterRecord",
    "Deadlock",
    "Discussed",
    "DiscussionRecord",
    "Done",
    "Draft",
    "Escalated",
    "EscalationRecord",
    "EscalationStep",
    "HealthReported",
    "HistoryEntry",
    "Interruption",
    "Lease",
    "LeaseLost",
    "LeaseRecord",
    "LeaseRecords",
    "Message",
    "MessageHistory",
    "MessageRecord",
    "MessageSummary",
    "Messages",
    "NoAnswer",
    "NoResponse",
    "Page",
    "Problem",
    "Published",
    "RecallResult",
    "Receipt",
    "Receipts",
    "Redriven",
    "Registered",
    "Rejected",
    "Released",
    "RequestRecord",
    "Resuming",
    "Retry",
    "Settled",
    "Subscriptions",
    "SyncAgent",
    "SyncInterruption",
    "SyncLease",
    "SyncMessage",
    "SyncResuming",
    "SyncWorking",
    "TocsinError",
    "TopicRecord",
    "Working",
    "client_config",
]
