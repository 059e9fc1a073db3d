"""Operations on attention, requests, topics, discussions, approvals, escalations and alerts."""

from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from tocsin.core import commands as cmd
from tocsin.core.commands.base import Name
from tocsin.wire.operation import NO_REQUEST, Access, NamedPage, NamedPageRequest, Operation

__all__ = [
    "OPERATIONS",
    "AlertRecord",
    "ApprovalRecord",
    "DiscussionRecord",
    "EscalationRecord",
    "EscalationStep",
    "ListApprovals",
    "ListEscalations",
    "ListRequests",
    "RequestRecord",
    "TopicRecord",
]


class ListRequests(NamedPageRequest, frozen=True, kw_only=True):
    """List the open requests of the caller."""

    request: Annotated[Name | None, Meta(description="Only the request with this messageId.")] = None


class RequestRecord(msgspec.Struct, frozen=True):
    """An open request."""

    #: messageId of the request.
    request: str
    requester: str
    responder: str
    correlation_id: str
    opened_at: datetime | None
    due_at: datetime | None


class TopicRecord(msgspec.Struct, frozen=True):
    """A topic with subscribers."""

    topic: str
    subscribers: int
    #: Whether the caller is subscribed.
    subscribed: bool


class DiscussionRecord(msgspec.Struct, frozen=True):
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


class ApprovalRecord(msgspec.Struct, frozen=True):
    """An open approval request."""

    approval: str
    handoff: str
    asker: str
    #: What needs approval; a messageId if a message is held.
    subject: str
    details: str
    #: Whether a message is held until the decision.
    holds: bool
    opened_at: datetime | None
    #: When it is escalated; null once it was.
    due_at: datetime | None
    #: Beginning of the text of the held message; empty if none is held.
    preview: str = ""


class EscalationStep(msgspec.Struct, frozen=True):
    """One step of an escalation."""

    at: datetime | None
    state: str
    by: str
    detail: str


class EscalationRecord(msgspec.Struct, frozen=True):
    """An escalation and its steps."""

    escalation: str
    rule: str
    trigger: str
    #: A messageId, resource, agent or metric.
    subject: str
    detail: str
    #: Its place on the escalation path; `normal` once it is closed.
    state: str
    opened_at: datetime | None
    closed_at: datetime | None
    resolution: str
    resolved_by: str
    steps: tuple[EscalationStep, ...]
    #: What it is about, in one line: the resources that are waited for, the message, the agent or the metric.
    about: str = ""


class ListApprovals(NamedPageRequest, frozen=True, kw_only=True):
    """List the open approval requests of the caller."""

    subject: Annotated[
        Annotated[str, Meta(max_length=1000)] | None,
        Meta(description="Only requests with this subject: a messageId of a held message, or as the asker named it."),
    ] = None


class ListEscalations(NamedPageRequest, frozen=True, kw_only=True):
    """List escalations, open ones first."""

    closed: Annotated[bool, Meta(description="Include closed escalations.")] = False


class AlertRecord(msgspec.Struct, frozen=True):
    """A metric over its limit."""

    metric: str
    #: Value at its last change.
    value: float
    limit: float
    #: `breached` before the alert, `raised`, or `easing`.
    state: str
    since: datetime | None
    raised_at: datetime | None


OPERATIONS = (
    Operation(
        name="get_attention",
        summary="Show what the calling agent is working on.",
        request=NO_REQUEST,
        reply=cmd.Attending,
        http="GET /v1/attention",
        tag="attention",
    ),
    Operation(
        name="begin_work",
        request=cmd.BeginWork,
        reply=cmd.Attending,
        http="POST /v1/attention/begin",
        tag="attention",
        tool="It acknowledges the message. Call reach_pause_point from time to time, and finish_work at the end.",
        idempotent=True,
    ),
    Operation(
        name="reach_pause_point",
        request=cmd.ReachPausePoint,
        reply=cmd.Attending,
        http="POST /v1/attention/pause-point",
        tag="attention",
        tool="If interrupted_by is set, call put_aside with notes, work on that message, then call resume_work.",
    ),
    Operation(
        name="put_aside",
        request=cmd.PutAside,
        reply=cmd.Attending,
        http="POST /v1/attention/aside",
        tag="attention",
        tool="Use it when a message interrupts your work.",
    ),
    Operation(
        name="resume_work",
        request=cmd.ResumeWork,
        reply=cmd.Resumed,
        http="POST /v1/attention/resume",
        tag="attention",
        tool="It returns the notes that you saved.",
    ),
    Operation(
        name="finish_work",
        request=cmd.FinishWork,
        reply=cmd.Attending,
        http="POST /v1/attention/finish",
        tag="attention",
        tool="By default the message is marked as processed as well.",
    ),
    Operation(
        name="send_request",
        request=cmd.SendRequest,
        reply=cmd.Requested,
        http="POST /v1/requests",
        tag="requests",
        tool="Use it when you need an answer to go on. It waits some seconds; a later answer comes to your inbox.",
    ),
    Operation(
        name="list_requests",
        summary="List the open requests of the caller; directors see all.",
        request=ListRequests,
        reply=NamedPage[RequestRecord],
        http="GET /v1/requests",
        tag="requests",
        tool="Use it to see what you wait for, and what others wait for from you.",
    ),
    Operation(
        name="cancel_request",
        request=cmd.CancelRequest,
        reply=cmd.Done,
        http="POST /v1/requests/{request}/cancel",
        tag="requests",
        tool="Use it when you no longer need the answer.",
        idempotent=True,
    ),
    Operation(
        name="extend_request",
        request=cmd.ExtendRequest,
        reply=cmd.TimeoutExtended,
        http="POST /v1/requests/{request}/extend",
        tag="requests",
        tool="Use it when the other agent needs more time and you can wait.",
        idempotent=True,
    ),
    Operation(
        name="list_topics",
        summary="List the topics that have subscribers.",
        request=NamedPageRequest,
        reply=NamedPage[TopicRecord],
        http="GET /v1/topics",
        tag="topics",
    ),
    Operation(
        name="subscribe_topic",
        request=cmd.Subscribe,
        reply=cmd.Subscriptions,
        http="POST /v1/topics/subscribe",
        tag="topics",
        tool="Publications arrive in your inbox, also while you are not attached.",
        idempotent=True,
    ),
    Operation(
        name="unsubscribe_topic",
        request=cmd.Unsubscribe,
        reply=cmd.Subscriptions,
        http="POST /v1/topics/unsubscribe",
        tag="topics",
        tool="Publications to the topic no longer arrive in your inbox.",
        idempotent=True,
    ),
    Operation(
        name="publish_topic",
        request=cmd.Publish,
        reply=cmd.Published,
        http="POST /v1/topics/publish",
        tag="topics",
        tool="Use it for news that several agents have subscribed to.",
    ),
    Operation(
        name="open_discussion",
        request=cmd.OpenDiscussion,
        reply=cmd.Discussed,
        http="POST /v1/discussions",
        tag="discussions",
        signed=True,
        tool="The outcome arrives in your inbox as DiscussionClosed.",
    ),
    Operation(
        name="list_discussions",
        summary="List the open discussions of the caller; directors see all.",
        request=NamedPageRequest,
        reply=NamedPage[DiscussionRecord],
        http="GET /v1/discussions",
        tag="discussions",
        tool="Use it to see questions that wait for your vote.",
    ),
    Operation(
        name="speak_in_discussion",
        request=cmd.Speak,
        reply=cmd.Discussed,
        http="POST /v1/discussions/{discussion}/speak",
        tag="discussions",
        signed=True,
        tool="Use it to argue before you vote.",
    ),
    Operation(
        name="vote",
        request=cmd.Vote,
        reply=cmd.Discussed,
        http="POST /v1/discussions/{discussion}/vote",
        tag="discussions",
        signed=True,
        tool="A later vote replaces an earlier one.",
        idempotent=True,
    ),
    Operation(
        name="cancel_discussion",
        request=cmd.CancelDiscussion,
        reply=cmd.Discussed,
        http="POST /v1/discussions/{discussion}/cancel",
        tag="discussions",
        tool="Use it when the question no longer matters.",
        destructive=True,
    ),
    Operation(
        name="list_approvals",
        summary="List the open approval requests of the caller; directors see all.",
        request=ListApprovals,
        reply=NamedPage[ApprovalRecord],
        http="GET /v1/approvals",
        tag="approvals",
        tool="Directors decide them with decide_approval.",
    ),
    Operation(
        name="request_approval",
        request=cmd.RequestApproval,
        reply=cmd.ApprovalRequested,
        http="POST /v1/approvals",
        tag="approvals",
        tool="The decision arrives in your inbox as ApprovalDecided: wait for it.",
    ),
    Operation(
        name="decide_approval",
        request=cmd.DecideApproval,
        reply=cmd.ApprovalDecided,
        http="POST /v1/approvals/{approval}/decide",
        tag="approvals",
        access=Access.DIRECTOR,
        tool="For directors and humans. A refusal needs a reason.",
        destructive=True,
    ),
    Operation(
        name="withdraw_approval",
        request=cmd.WithdrawApproval,
        reply=cmd.Done,
        http="POST /v1/approvals/{approval}/withdraw",
        tag="approvals",
        tool="Use it when you no longer need the approval.",
        idempotent=True,
    ),
    Operation(
        name="list_escalations",
        request=ListEscalations,
        reply=NamedPage[EscalationRecord],
        http="GET /v1/escalations",
        tag="escalations",
        access=Access.DIRECTOR,
        tool="For directors and humans. Close one with resolve_escalation.",
    ),
    Operation(
        name="resolve_escalation",
        request=cmd.ResolveEscalation,
        reply=cmd.Escalated,
        http="POST /v1/escalations/{escalation}/resolve",
        tag="escalations",
        access=Access.DIRECTOR,
        tool="For directors and humans.",
    ),
    Operation(
        name="escalate_to_human",
        request=cmd.EscalateToHuman,
        reply=cmd.Escalated,
        http="POST /v1/escalations/{escalation}/human",
        tag="escalations",
        access=Access.DIRECTOR,
        tool="For directors. Use it when you cannot resolve an escalation yourself.",
    ),
    Operation(
        name="list_alerts",
        summary="List the metrics over their limits, and the alerts.",
        request=NamedPageRequest,
        reply=NamedPage[AlertRecord],
        http="GET /v1/alerts",
        tag="health",
        tool="Use it to see whether the bus itself is healthy.",
    ),
    Operation(
        name="report_health",
        request=cmd.ReportHealth,
        reply=cmd.HealthReported,
        http="POST /v1/health-reports",
        tag="health",
        access=Access.DIRECTOR,
    ),
)
