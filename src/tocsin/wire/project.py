"""Operations on the policy and the project as a whole."""

from datetime import datetime
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta

from tocsin.core import commands as cmd
from tocsin.core.errors import Problem
from tocsin.core.protocol.priority import PriorityName
from tocsin.wire.agents import UnreadBytes, WakeRecord
from tocsin.wire.history import MessageSummary
from tocsin.wire.operation import (
    NO_REQUEST,
    Access,
    NamedPageRequest,
    Operation,
    Page,
    PageRequest,
    Request,
    Where,
)

__all__ = [
    "OPERATIONS",
    "AgentDetails",
    "AgentDetailsPage",
    "Budget",
    "ChangePolicy",
    "ConversationRecord",
    "Conversations",
    "ExpiredCount",
    "FrameBusStatus",
    "Histogram",
    "ListRoster",
    "Overview",
    "PendingMessages",
    "PolicyCheck",
    "PolicyDifference",
    "PolicyRecord",
    "PolicyScope",
    "PolicyVersion",
    "ProjectStatus",
    "SessionRecord",
    "ShedCount",
    "SubscriberStatus",
    "UndeliverableCount",
]


#: Whether a policy is the whole one or a change to the one in force.
PolicyScope: TypeAlias = Literal["whole", "change"]


class PolicyRecord(msgspec.Struct, frozen=True):
    """The policy in force."""

    version: int
    policy: dict[str, Any]


class ChangePolicy(Request, frozen=True):
    """A policy: the whole of it, or a change to the one in force."""

    policy: Annotated[dict[str, Any], Meta(description="Settings.")]
    reason: Annotated[str, Meta(description="Reason, recorded with the policy.")] = ""
    scope: Annotated[
        PolicyScope,
        Meta(
            description="`whole`: settings that are not named have their defaults; "
            "`change`: they stay as they are in the policy in force."
        ),
    ] = "whole"


class PolicyDifference(msgspec.Struct, frozen=True):
    """One setting that a policy changed."""

    #: Its path, as `aging.threshold_s`.
    setting: str
    #: Value before; null if it was not set.
    before: Any
    #: Value after; null if it is not set.
    after: Any


class PolicyVersion(msgspec.Struct, frozen=True):
    """A policy that was adopted."""

    version: int
    adopted_at: datetime
    by: str
    reason: str
    #: What it changed; empty for the first one.
    changes: list[PolicyDifference]


class PolicyCheck(msgspec.Struct, frozen=True):
    """Whether a policy is valid."""

    valid: bool
    problem: Problem | None = None


class ProjectStatus(msgspec.Struct, frozen=True):
    """Counts and condition of a project."""

    project: str
    #: `serving`, `recovering` or `stopped`.
    condition: str
    policy_version: int
    #: Sequence number of the last event.
    seq: int
    agents: int
    sessions: int
    #: Number of waiting messages by priority.
    waiting: dict[str, int]
    #: Number of remembered messages by state.
    states: dict[str, int]
    dead_letters: int
    #: Number of events since the start, by kind.
    events: dict[str, int]
    #: Bytes of payloads and metadata in the live state, by kind: `unsettled`, `dead_letters` and `ended`.
    bytes: dict[str, int] = {}
    #: Their limits.
    bytes_max: dict[str, int] = {}


class UndeliverableCount(msgspec.Struct, frozen=True):
    """Sends to agents that are not registered."""

    type: str
    sender: str
    sends: int


class ExpiredCount(msgspec.Struct, frozen=True):
    """Messages that expired."""

    type: str
    reason: str
    messages: int


class Histogram(msgspec.Struct, frozen=True):
    """Durations in buckets."""

    #: A message type, or a priority.
    about: str
    #: `push` or `drain`; empty for both.
    path: str
    #: Count of each bucket; the last is above all bounds.
    counts: list[int]
    total_s: float


class SubscriberStatus(msgspec.Struct, frozen=True):
    """A subscriber of the live feed."""

    subscriber: str
    priority: str
    sent: int
    dropped: int
    #: Of the dropped: those shed to protect a more important subscriber.
    shed: int
    depth: int


class ShedCount(msgspec.Struct, frozen=True):
    """Frames offered to and lost by the subscribers of one priority."""

    priority: str
    offered: int
    dropped: int
    shed: int


class FrameBusStatus(msgspec.Struct, frozen=True):
    """State of the live feed's frame bus."""

    published: int
    subscribers: list[SubscriberStatus]
    priorities: list[ShedCount]


class Overview(msgspec.Struct, frozen=True):
    """Counts since the hub started."""

    since: datetime | None
    undeliverable: list[UndeliverableCount]
    expired: list[ExpiredCount]
    #: Recalls by outcome.
    recalls: dict[str, int]
    #: Upper bounds of all buckets, seconds.
    bounds_s: list[float]
    #: From acceptance to the first offer, by message type and path.
    time_to_drain: list[Histogram]
    #: The same by priority.
    delivery_latency: list[Histogram]
    frames: FrameBusStatus


class SessionRecord(msgspec.Struct, frozen=True):
    """An open session of an agent."""

    session: str
    kind: str
    opened_at: datetime | None
    heartbeat_at: datetime | None
    fresh: bool
    #: Offers without receipt.
    in_flight: int
    #: Offers without receipt that it accepts at a time.
    window: int


class Budget(msgspec.Struct, frozen=True):
    """Tokens and quotas that a sender has left, and their maxima."""

    tokens: float
    tokens_max: float
    critical: float
    critical_max: float
    blocking: float
    blocking_max: float


class AgentDetails(msgspec.Struct, frozen=True):
    """An agent with its sessions, attention and budget, and how it can be reached."""

    agent: str
    type: str
    role: str
    version: str
    capabilities: list[str]
    presence: str
    sessions: list[SessionRecord]
    attention: cmd.Attending
    #: Number of waiting messages by priority.
    waiting: dict[str, int]
    #: Null if its role has no limits.
    budget: Budget | None
    #: Recent sends considered by gaming detection.
    recent: int
    #: Those of them that requested a high priority.
    recent_high: int
    #: Whether it was found to inflate its priorities.
    gaming: bool
    #: Priority inherited from agents that wait for it; null if none.
    inherited: PriorityName | None
    registered_at: datetime | None
    #: How a message reaches it: `push`, `channel`, `hook` (its next check or call), `waker` or `none`.
    reach: cmd.Reach = "none"
    #: Its latest wake; null if it was never woken.
    wake: WakeRecord | None = None
    unread: UnreadBytes = UnreadBytes()


class ListRoster(NamedPageRequest, frozen=True, kw_only=True):
    """List agents with their sessions, attention and budget."""

    q: Annotated[str, Meta(max_length=64, description="Part of an agent's name.")] = ""


class AgentDetailsPage(msgspec.Struct, frozen=True):
    """A page of agents by name."""

    items: list[AgentDetails]
    #: Cursor of the next page; null on the last page.
    next: str | None
    #: Total number of agents.
    total: int


class PendingMessages(msgspec.Struct, frozen=True):
    """Undelivered messages, the soonest to expire first."""

    items: list[MessageSummary]
    #: Maximum number of items.
    limit: int


class ConversationRecord(msgspec.Struct, frozen=True):
    """Number of messages from one agent to another."""

    sender: str
    recipient: str
    messages: int
    last_at: datetime | None


class Conversations(msgspec.Struct, frozen=True):
    """Message counts by sender and recipient, largest first."""

    #: Number of recent messages that were counted.
    latest: int
    items: list[ConversationRecord]


OPERATIONS = (
    Operation(
        name="get_policy",
        summary="Show the policy in force.",
        request=NO_REQUEST,
        reply=PolicyRecord,
        http="GET /v1/policy",
        tag="project",
    ),
    Operation(
        name="adopt_policy",
        summary="Adopt a policy: a whole one, or a change to the one in force.",
        request=ChangePolicy,
        reply=cmd.Adopted,
        kind="command",
        http="PUT /v1/policy",
        tag="project",
        access=Access.DIRECTOR,
    ),
    Operation(
        name="check_policy",
        summary="Check whether a policy is valid, without adopting it.",
        request=ChangePolicy,
        reply=PolicyCheck,
        http="POST /v1/policy/check",
        tag="project",
    ),
    Operation(
        name="list_policies",
        summary="List the policies that were adopted, the newest first, with what each changed.",
        request=PageRequest,
        reply=Page[PolicyVersion],
        http="GET /v1/policy/history",
        tag="project",
    ),
    Operation(
        name="get_status",
        summary="Show counts and condition of the project.",
        request=NO_REQUEST,
        reply=ProjectStatus,
        http="GET /v1/status",
        tag="project",
    ),
    Operation(
        name="get_overview",
        summary="Show counts and latencies since the hub started.",
        request=NO_REQUEST,
        reply=Overview,
        http="GET /v1/overview",
        tag="overview",
        access=Access.OVERSEER,
        where=Where.HUB,
    ),
    Operation(
        name="list_pending",
        summary="List undelivered messages, the soonest to expire first.",
        request=NO_REQUEST,
        reply=PendingMessages,
        http="GET /v1/pending",
        tag="overview",
        access=Access.OVERSEER,
        where=Where.HUB,
    ),
    Operation(
        name="list_roster",
        request=ListRoster,
        reply=AgentDetailsPage,
        http="GET /v1/roster",
        tag="overview",
        access=Access.OVERSEER,
    ),
    Operation(
        name="list_conversations",
        summary="Count recent messages by sender and recipient, largest first.",
        request=NO_REQUEST,
        reply=Conversations,
        http="GET /v1/conversations",
        tag="overview",
        access=Access.OVERSEER,
        where=Where.HUB,
    ),
)
