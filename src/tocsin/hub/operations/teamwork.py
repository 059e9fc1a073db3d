"""Handlers of the operations that read attention, requests, topics, discussions, approvals, escalations and alerts."""

from tocsin.core import commands as cmd
from tocsin.core.agents.attention import attending
from tocsin.core.protocol.previews import preview
from tocsin.core.protocol.timestamps import as_datetime_or_none
from tocsin.core.teamwork.model import Alert, Approval, Escalation
from tocsin.core.waiting.waits import awaited
from tocsin.hub.operations.call import Call, Handler
from tocsin.hub.operations.pages import CLOSED, live_page
from tocsin.hub.operations.records import record_of
from tocsin.wire import teamwork as wire
from tocsin.wire.operation import NamedPage, NamedPageRequest, Request

__all__ = ["HANDLERS"]


async def get_attention(call: Call, request: Request) -> cmd.Attending:
    """Describe what the caller is working on."""
    reply = attending(call.state, call.agent)
    await call.durable()
    return reply


async def list_requests(call: Call, request: wire.ListRequests) -> NamedPage[wire.RequestRecord]:
    """List the requests that the caller may see, oldest first."""
    known = call.state.requests
    one = None if request.request is None else known.get(request.request)
    return await live_page(
        call,
        request,
        known.values() if request.request is None else () if one is None else (one,),
        lambda row: (row.opened_at, row.request),
        lambda row: record_of(wire.RequestRecord, row),
        lambda row: call.directs or call.agent in (row.requester, row.responder),
    )


async def list_topics(call: Call, request: NamedPageRequest) -> NamedPage[wire.TopicRecord]:
    """List topics by name."""
    return await live_page(
        call,
        request,
        call.state.topics.values(),
        lambda topic: (0, topic.topic),
        lambda topic: wire.TopicRecord(topic.topic, len(topic.subscribers), call.agent in topic.subscribers),
    )


async def list_discussions(call: Call, request: NamedPageRequest) -> NamedPage[wire.DiscussionRecord]:
    """List the discussions that the caller may see, oldest first."""
    return await live_page(
        call,
        request,
        call.state.discussions.values(),
        lambda row: (row.opened_at, row.discussion),
        lambda row: record_of(wire.DiscussionRecord, row, votes=dict(row.votes)),
        lambda row: call.directs or call.agent == row.opener or call.agent in row.participants,
    )


async def list_approvals(call: Call, request: wire.ListApprovals) -> NamedPage[wire.ApprovalRecord]:
    """List the approval requests that the caller may see, oldest first."""
    return await live_page(
        call,
        request,
        call.state.approvals.values(),
        lambda row: (row.opened_at, row.approval),
        lambda row: _approval(call, row),
        lambda row: (call.directs or row.asker == call.agent) and request.subject in (None, row.subject),
    )


def _approval(call: Call, row: Approval) -> wire.ApprovalRecord:
    seq = call.state.ids.get(row.subject) if row.holds else None
    held = None if seq is None else call.state.messages.get(seq)
    text = "" if held is None else preview(held.payload, call.project.preview_max)
    return record_of(wire.ApprovalRecord, row, due_at=as_datetime_or_none(row.escalates_at), preview=text)


async def list_escalations(call: Call, request: wire.ListEscalations) -> NamedPage[wire.EscalationRecord]:
    """List escalations, open ones first."""
    return await live_page(
        call,
        request,
        call.state.escalations.values(),
        lambda row: (row.opened_at + (CLOSED if row.closed_at else 0), row.escalation),
        lambda row: _escalation(call, row),
        lambda row: request.closed or not row.closed_at,
    )


def _escalation(call: Call, row: Escalation) -> wire.EscalationRecord:
    steps = tuple(record_of(wire.EscalationStep, step) for step in row.steps)
    return record_of(wire.EscalationRecord, row, steps=steps, about=_about(call, row))


def _about(call: Call, row: Escalation) -> str:
    """Name what an escalation is about, for people."""
    state = call.state
    message = state.messages.get(row.about) if row.about else None
    if message is not None:
        text = preview(message.payload, call.project.preview_max)
        return f"{message.type} from {message.sender} to {message.recipient}: {text}"
    wait = state.waits.waits.get(row.subject) if row.trigger == "dependency_blocked" else None
    if wait is None:
        return row.subject
    return awaited(state, wait)


async def list_alerts(call: Call, request: NamedPageRequest) -> NamedPage[wire.AlertRecord]:
    """List alerts by metric."""
    return await live_page(
        call,
        request,
        call.state.alerts.values(),
        lambda alert: (0, alert.metric),
        lambda alert: record_of(wire.AlertRecord, alert, state=_alert_state(alert)),
    )


def _alert_state(alert: Alert) -> str:
    if not alert.raised_at:
        return "breached"
    return "easing" if alert.easing else "raised"


HANDLERS: dict[str, Handler] = {
    "get_attention": get_attention,
    "list_requests": list_requests,
    "list_topics": list_topics,
    "list_discussions": list_discussions,
    "list_approvals": list_approvals,
    "list_escalations": list_escalations,
    "list_alerts": list_alerts,
}
