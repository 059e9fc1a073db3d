"""Operations on attention, requests, topics, discussions, approvals, escalations and alerts."""

from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from tocsin.core import commands as cmd
from tocsin.wire.operation import NO_REQUEST, Access, Operation, Request

__all__ = [
    "OPERATIONS",
    "AlertRecord",
    "ApprovalRecord",
    "DiscussionRecord",
    "EscalationRecord",
    "EscalationStep",
    "ListEscalations",
    "RequestRecord",
    "TopicRecord",
]


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


class ListEscalations(Request, frozen=True):
    """Choose which escalations to list."""

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
        kind="question",
        http="GET /v1/attention",
        tag="attention",
    ),
    Operation(
        name="begin_work",
        summary="Start working on a message; only interrupts are delivered until the work ends.",
        request=cmd.BeginWork,
        reply=cmd.Attending,
        kind="command",
        http="POST /v1/attention/begin",
        tag="attention",
        tool="It acknowledges the message. Call reach_pause_point from time to time, and finish_work at the end.",
        idempotent=True,
    ),
    Operation(
        name="reach_pause_point",
        summary="Report that the work can be interrupted now, and learn whether a message interrupts it.",
        request=cmd.ReachPausePoint,
        reply=cmd.Attending,
        kind="command",
        http="POST /v1/attention/pause-point",
        tag="attention",
        tool="If interrupted_by is set, call put_aside with notes, work on that message, then call resume_work.",
    ),
    Operation(
        name="put_aside",
        summary="Put the current work aside and save notes that are returned when it is resumed.",
        request=cmd.PutAside,
        reply=cmd.Attending,
        kind="command",
        http="POST /v1/attention/aside",
        tag="attention",
        tool="Use it when a message interrupts your work.",
    ),
    Operation(
        name="resume_work",
        summary="Resume work that was put aside, or continue from a pause point.",
        request=cmd.ResumeWork,
        reply=cmd.Resumed,
        kind="command",
        http="POST /v1/attention/resume",
        tag="attention",
        tool="It returns the notes that you saved.",
    ),
    Operation(
        name="finish_work",
        summary="Finish the current work.",
        request=cmd.FinishWork,
        reply=cmd.Attending,
        kind="command",
        http="POST /v1/attention/finish",
        tag="attention",
        tool="By default the message is marked as processed as well.",
    ),
    Operation(
        name="send_request",
        summary="Send a message to one agent and wait for the answer in its thread.",
        request=cmd.SendRequest,
        reply=cmd.Requested,
        kind="command",
        http="POST /v1/requests",
        tag="requests",
        tool="Waits a few seconds for the answer; if none came, the answer arrives in your inbox, in the same thread. "
        "Use it when you need an answer to go on.",
    ),
    Operation(
        name="list_requests",
        summary="List the open requests of the caller; directors see all.",
        request=NO_REQUEST,
        reply=list[RequestRecord],
        kind="question",
        http="GET /v1/requests",
        tag="requests",
        tool="Use it to see what you wait for, and what others wait for from you.",
    ),
    Operation(
        name="cancel_request",
        summary="Stop waiting for the answer to a request; the message itself is still delivered.",
        request=cmd.CancelRequest,
        reply=cmd.Done,
        kind="command",
        http="POST /v1/requests/{request}/cancel",
        tag="requests",
        tool="Use it when you no longer need the answer.",
        idempotent=True,
    ),
    Operation(
        name="list_topics",
        summary="List the topics that have subscribers.",
        request=NO_REQUEST,
        reply=list[TopicRecord],
        kind="question",
        http="GET /v1/topics",
        tag="topics",
    ),
    Operation(
        name="subscribe_topic",
        summary="Subscribe the calling agent to a topic.",
        request=cmd.Subscribe,
        reply=cmd.Subscriptions,
        kind="command",
        http="POST /v1/topics/subscribe",
        tag="topics",
        tool="Publications arrive in your inbox, also while you are not attached.",
        idempotent=True,
    ),
    Operation(
        name="unsubscribe_topic",
        summary="Cancel the calling agent's subscription to a topic.",
        request=cmd.Unsubscribe,
        reply=cmd.Subscriptions,
        kind="command",
        http="POST /v1/topics/unsubscribe",
        tag="topics",
        tool="Publications to the topic no longer arrive in your inbox.",
        idempotent=True,
    ),
    Operation(
        name="publish_topic",
        summary="Publish a message, addressed to `*`, to all other subscribers of a topic.",
        request=cmd.Publish,
        reply=cmd.Published,
        kind="command",
        http="POST /v1/topics/publish",
        tag="topics",
        tool="Use it for news that several agents have subscribed to.",
    ),
    Operation(
        name="open_discussion",
        summary="Open a discussion in which the participants vote on a question.",
        request=cmd.OpenDiscussion,
        reply=cmd.Discussed,
        kind="command",
        http="POST /v1/discussions",
        tag="discussions",
        tool="The outcome arrives in your inbox as DiscussionClosed.",
    ),
    Operation(
        name="list_discussions",
        summary="List the open discussions of the caller; directors see all.",
        request=NO_REQUEST,
        reply=list[DiscussionRecord],
        kind="question",
        http="GET /v1/discussions",
        tag="discussions",
        tool="Use it to see questions that wait for your vote.",
    ),
    Operation(
        name="speak_in_discussion",
        summary="Send a contribution to all participants of a discussion.",
        request=cmd.Speak,
        reply=cmd.Discussed,
        kind="command",
        http="POST /v1/discussions/{discussion}/speak",
        tag="discussions",
        tool="Use it to argue before you vote.",
    ),
    Operation(
        name="vote",
        summary="Vote in a discussion, or change a vote.",
        request=cmd.Vote,
        reply=cmd.Discussed,
        kind="command",
        http="POST /v1/discussions/{discussion}/vote",
        tag="discussions",
        tool="A later vote replaces an earlier one.",
        idempotent=True,
    ),
    Operation(
        name="cancel_discussion",
        summary="Cancel a discussion; its opener and directors may.",
        request=cmd.CancelDiscussion,
        reply=cmd.Discussed,
        kind="command",
        http="POST /v1/discussions/{discussion}/cancel",
        tag="discussions",
        tool="Use it when the question no longer matters.",
        destructive=True,
    ),
    Operation(
        name="list_approvals",
        summary="List the open approval requests of the caller; directors see all.",
        request=NO_REQUEST,
        reply=list[ApprovalRecord],
        kind="question",
        http="GET /v1/approvals",
        tag="approvals",
        tool="Directors decide them with decide_approval.",
    ),
    Operation(
        name="request_approval",
        summary="Ask the directors to approve something before it is done.",
        request=cmd.RequestApproval,
        reply=cmd.ApprovalRequested,
        kind="command",
        http="POST /v1/approvals",
        tag="approvals",
        tool="The decision arrives in your inbox as ApprovalDecided: wait for it.",
    ),
    Operation(
        name="decide_approval",
        summary="Approve or refuse an approval request.",
        request=cmd.DecideApproval,
        reply=cmd.ApprovalDecided,
        kind="command",
        http="POST /v1/approvals/{approval}/decide",
        tag="approvals",
        access=Access.DIRECTOR,
        tool="For directors and humans. A refusal needs a reason.",
        destructive=True,
    ),
    Operation(
        name="withdraw_approval",
        summary="Withdraw an approval request; to withdraw a held message, recall it instead.",
        request=cmd.WithdrawApproval,
        reply=cmd.Done,
        kind="command",
        http="POST /v1/approvals/{approval}/withdraw",
        tag="approvals",
        tool="Use it when you no longer need the approval.",
        idempotent=True,
    ),
    Operation(
        name="list_escalations",
        summary="List escalations, open ones first.",
        request=ListEscalations,
        reply=list[EscalationRecord],
        kind="question",
        http="GET /v1/escalations",
        tag="escalations",
        access=Access.DIRECTOR,
        tool="For directors and humans. Close one with resolve_escalation.",
    ),
    Operation(
        name="resolve_escalation",
        summary="Close an escalation and record how it was resolved.",
        request=cmd.ResolveEscalation,
        reply=cmd.Escalated,
        kind="command",
        http="POST /v1/escalations/{escalation}/resolve",
        tag="escalations",
        access=Access.DIRECTOR,
        tool="For directors and humans.",
    ),
    Operation(
        name="escalate_to_human",
        summary="Pass an escalation to a human.",
        request=cmd.EscalateToHuman,
        reply=cmd.Escalated,
        kind="command",
        http="POST /v1/escalations/{escalation}/human",
        tag="escalations",
        access=Access.DIRECTOR,
        tool="For directors. Use it when you cannot resolve an escalation yourself.",
    ),
    Operation(
        name="list_alerts",
        summary="List the metrics over their limits, and the alerts.",
        request=NO_REQUEST,
        reply=list[AlertRecord],
        kind="question",
        http="GET /v1/alerts",
        tag="health",
        tool="Use it to see whether the bus itself is healthy.",
    ),
    Operation(
        name="report_health",
        summary="Report health measurements from outside the hub, such as the start-up time of clones.",
        request=cmd.ReportHealth,
        reply=cmd.HealthReported,
        kind="command",
        http="POST /v1/health-reports",
        tag="health",
        access=Access.DIRECTOR,
    ),
)
