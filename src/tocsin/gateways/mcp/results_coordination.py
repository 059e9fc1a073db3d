"""What the tools that coordinate answer with."""

import msgspec

from tocsin.gateways.http.leases import LeaseView
from tocsin.gateways.http.oversight import AlertView, ApprovalView, EscalationView
from tocsin.gateways.http.views import ReceiptView
from tocsin.gateways.mcp.results import MailView
from tocsin.wire.problems import ProblemDocument

__all__ = [
    "AlertsView",
    "ApprovalAskedView",
    "ApprovalDecidedView",
    "ApprovalsView",
    "BegunView",
    "DiscussedView",
    "EscalatedView",
    "EscalationsView",
    "FinishedView",
    "HeldLeasesView",
    "PausedView",
    "PublicationView",
    "ReleasedView",
    "SubscribedView",
]


class HeldLeasesView(msgspec.Struct, frozen=True):
    """Who holds what, oldest first, and who waits, first in line first."""

    held: list[LeaseView]
    waiting: list[LeaseView]


class ReleasedView(msgspec.Struct, frozen=True):
    """What is free now."""

    resources: list[str]
    #: Requests that left the line.
    cancelled: list[str]


class BegunView(msgspec.Struct, frozen=True):
    """What you work on."""

    working_on: str | None
    #: Work put aside, the latest last.
    aside: list[str]
    #: What you had saved of it, where it had been put aside.
    saved: str


class PausedView(msgspec.Struct, frozen=True):
    """Whether you are interrupted, and by what."""

    #: The message to turn to now; null where you go on.
    interrupted_by: str | None
    #: What you work on now.
    working_on: str | None
    #: Work put aside, the latest last.
    aside: list[str]
    #: What was handed out with this answer: what interrupts, unless you have it already.
    messages: list[MailView]


class FinishedView(msgspec.Struct, frozen=True):
    """What you go on with."""

    #: What you work on again; null where nothing was put aside.
    resumed: str | None
    #: What you had saved of it.
    saved: str


class SubscribedView(msgspec.Struct, frozen=True):
    """What you are subscribed to."""

    topics: list[str]


class PublicationView(msgspec.Struct, frozen=True):
    """What became of a publication."""

    message_id: str
    topic: str
    #: By subscriber.
    receipts: list[ReceiptView]
    #: Who could not take it, and why.
    failed: dict[str, ProblemDocument]


class DiscussedView(msgspec.Struct, frozen=True):
    """How a discussion stands."""

    discussion: str
    #: `open`, `ratifying`, or how it ended.
    state: str
    #: Votes by option.
    votes: dict[str, int]
    #: What was agreed on.
    option: str | None


class ApprovalAskedView(msgspec.Struct, frozen=True):
    """The directors are asked; their word comes to your inbox."""

    approval: str


class ApprovalsView(msgspec.Struct, frozen=True):
    """What waits for a director's word."""

    approvals: list[ApprovalView]


class ApprovalDecidedView(msgspec.Struct, frozen=True):
    """The word stands."""

    approval: str
    outcome: str


class EscalationsView(msgspec.Struct, frozen=True):
    """What somebody with more power should look at, open ones first."""

    escalations: list[EscalationView]


class EscalatedView(msgspec.Struct, frozen=True):
    """Where an escalation is now."""

    escalation: str
    state: str


class AlertsView(msgspec.Struct, frozen=True):
    """The metrics that are not well."""

    alerts: list[AlertView]
