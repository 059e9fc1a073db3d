"""Handlers of the operations that read attention, requests, topics, discussions, approvals, escalations and alerts."""

from tocsin.core import commands as cmd
from tocsin.core.agents.attention import attending
from tocsin.core.protocol.timestamps import as_datetime_or_none
from tocsin.core.teamwork.model import Alert
from tocsin.hub.operations.call import Call, Handler
from tocsin.hub.operations.records import record_of
from tocsin.wire import teamwork as wire
from tocsin.wire.operation import Request

__all__ = ["HANDLERS"]


async def get_attention(call: Call, request: Request) -> cmd.Attending:
    """Describe what the caller is working on."""
    reply = attending(call.state, call.agent)
    await call.durable()
    return reply


async def list_requests(call: Call, request: Request) -> list[wire.RequestRecord]:
    """List the requests that the caller may see."""
    records = [
        record_of(wire.RequestRecord, row)
        for row in call.state.requests.values()
        if call.directs or call.agent in (row.requester, row.responder)
    ]
    await call.durable()
    return records


async def list_topics(call: Call, request: Request) -> list[wire.TopicRecord]:
    """List topics by name."""
    topics = call.state.topics
    records = [
        wire.TopicRecord(name, len(topics[name].subscribers), call.agent in topics[name].subscribers)
        for name in sorted(topics)
    ]
    await call.durable()
    return records


async def list_discussions(call: Call, request: Request) -> list[wire.DiscussionRecord]:
    """List the discussions that the caller may see."""
    records = [
        record_of(wire.DiscussionRecord, row, votes=dict(row.votes))
        for row in call.state.discussions.values()
        if call.directs or call.agent in (row.opener, *row.participants)
    ]
    await call.durable()
    return records


async def list_approvals(call: Call, request: Request) -> list[wire.ApprovalRecord]:
    """List the approval requests that the caller may see."""
    records = [
        record_of(wire.ApprovalRecord, row, due_at=as_datetime_or_none(row.escalates_at))
        for row in call.state.approvals.values()
        if call.directs or row.asker == call.agent
    ]
    await call.durable()
    return records


async def list_escalations(call: Call, request: wire.ListEscalations) -> list[wire.EscalationRecord]:
    """List escalations, open ones first."""
    rows = [row for row in call.state.escalations.values() if request.closed or not row.closed_at]
    rows.sort(key=lambda row: (bool(row.closed_at), row.opened_at))
    records = [
        record_of(wire.EscalationRecord, row, steps=tuple(record_of(wire.EscalationStep, step) for step in row.steps))
        for row in rows
    ]
    await call.durable()
    return records


async def list_alerts(call: Call, request: Request) -> list[wire.AlertRecord]:
    """List alerts by metric."""
    alerts = call.state.alerts
    records = [record_of(wire.AlertRecord, alerts[name], state=_alert_state(alerts[name])) for name in sorted(alerts)]
    await call.durable()
    return records


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
