"""What a client is told of what a team coordinates by: leases, discussions, approvals, escalations, alerts.

The same shapes come out of every transport; times are datetimes, priorities are LIMINAL's names.
"""

from datetime import datetime

import msgspec

from tocsin.client.replies import Receipt
from tocsin.core.commands import (
    ApprovalAsked,
    ApprovalDecided,
    Attending,
    Discussed,
    Escalated,
    Released,
    Subscriptions,
)
from tocsin.core.errors import Problem

__all__ = [
    "Alert",
    "Approval",
    "ApprovalAsked",
    "ApprovalDecided",
    "Attending",
    "Discussed",
    "Discussion",
    "Escalated",
    "Escalation",
    "LeaseRecord",
    "LeaseRecords",
    "OpenRequest",
    "Published",
    "Released",
    "Requested",
    "Resumed",
    "Step",
    "Subscriptions",
    "Topic",
]


class LeaseRecord(msgspec.Struct, frozen=True):
    """A lease, or a request that waits in line for one."""

    lease: str
    #: `held` or `waiting`.
    state: str
    agent: str
    exclusive: tuple[str, ...]
    shared: tuple[str, ...]
    #: The priority that it was asked for at; of a request, with what its agent has inherited.
    priority: str
    #: When it ends unless it is renewed.
    expires_at: datetime | None = None
    #: Place in line, from 1.
    place: int | None = None
    #: When it gives up waiting.
    wait_until: datetime | None = None
    #: Who holds what it waits for.
    holders: tuple[str, ...] = ()
    #: Whether the same request had been made before.
    duplicate: bool = False


class LeaseRecords(msgspec.Struct, frozen=True):
    """Who holds what, oldest first, and who waits, first in line first."""

    held: list[LeaseRecord]
    waiting: list[LeaseRecord]


class Resumed(msgspec.Struct, frozen=True):
    """Work that goes on."""

    message_id: str
    #: What was saved of it.
    saved: str
    interruptible: bool
    #: Whether this had been given back before.
    duplicate: bool


class Requested(msgspec.Struct, frozen=True):
    """A request under way."""

    request: str
    receipt: Receipt
    #: When its time is over; null where it has ended already.
    due_at: datetime | None


class OpenRequest(msgspec.Struct, frozen=True):
    """A request that somebody waits for."""

    request: str
    requester: str
    responder: str
    correlation_id: str
    opened_at: datetime | None
    due_at: datetime | None


class Topic(msgspec.Struct, frozen=True):
    """A topic that somebody is subscribed to."""

    topic: str
    subscribers: int
    #: Whether this agent is one of them.
    subscribed: bool


class Published(msgspec.Struct, frozen=True):
    """What became of a publication."""

    topic: str
    #: By subscriber.
    receipts: tuple[Receipt, ...]
    #: Who could not take it, and why.
    failed: dict[str, Problem]


class Discussion(msgspec.Struct, frozen=True):
    """An open discussion."""

    discussion: str
    opener: str
    question: str
    participants: tuple[str, ...]
    options: tuple[str, ...]
    consensus: str
    #: `open` or `ratifying`.
    state: str
    #: By participant.
    votes: dict[str, str]
    due_at: datetime | None


class Approval(msgspec.Struct, frozen=True):
    """Something that waits for a director's word."""

    approval: str
    handoff: str
    asker: str
    #: A messageId where a message is held.
    subject: str
    details: str
    #: Whether it is a message that is held.
    holds: bool
    opened_at: datetime | None
    #: When it is escalated; null once it was.
    due_at: datetime | None


class Step(msgspec.Struct, frozen=True):
    """One step of an escalation."""

    at: datetime | None
    state: str
    by: str
    detail: str


class Escalation(msgspec.Struct, frozen=True):
    """Something that somebody with more power should look at."""

    escalation: str
    rule: str
    trigger: str
    subject: str
    detail: str
    #: Where it is on its path; `normal` once it is over.
    state: str
    opened_at: datetime | None
    closed_at: datetime | None
    resolution: str
    resolved_by: str
    steps: tuple[Step, ...]


class Alert(msgspec.Struct, frozen=True):
    """A metric that is not well."""

    metric: str
    #: As it was when it changed last.
    value: float
    limit: float
    #: `breached` before there is an alert, `raised`, or `easing`.
    state: str
    since: datetime | None
    raised_at: datetime | None
