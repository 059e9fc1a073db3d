"""What directors and humans look after, over HTTP: approvals, escalations, alerts."""

from typing import Any, Literal

import msgspec

from tocsin.core import commands as cmd
from tocsin.core.errors import refusal
from tocsin.gateways.http.operation import Call, Operation
from tocsin.gateways.http.views import moment

__all__ = ["OPERATIONS"]


class AskBody(msgspec.Struct, frozen=True):
    """What to ask a director."""

    handoff: Literal["plan_approval", "lease_override", "pre_merge_review", "ratification"]
    subject: str
    details: str = ""


class DecideBody(msgspec.Struct, frozen=True):
    """A director's word."""

    verdict: Literal["approve", "refuse"]
    #: Why; a refusal must say.
    reason: str = ""
    #: The payload with which a held message goes instead of its own.
    payload: dict[str, Any] | None = None


class ApprovalView(msgspec.Struct, frozen=True):
    """Something that waits for a director's word."""

    approval: str
    handoff: str
    asker: str
    #: A messageId where a message is held.
    subject: str
    details: str
    #: Whether it is a message that is held.
    holds: bool
    opened_at: str | None
    #: When it is escalated; null once it was.
    due_at: str | None


class EscalationsQuery(msgspec.Struct, frozen=True):
    """Which escalations to list."""

    #: Whether to list closed ones too.
    closed: bool = False


class ResolveBody(msgspec.Struct, frozen=True):
    """How it was taken care of."""

    resolution: str


class HumanBody(msgspec.Struct, frozen=True):
    """Why a human should look at it."""

    reason: str = ""


class StepView(msgspec.Struct, frozen=True):
    """One step of an escalation."""

    at: str | None
    state: str
    by: str
    detail: str


class EscalationView(msgspec.Struct, frozen=True):
    """Something that somebody with more power should look at."""

    escalation: str
    rule: str
    trigger: str
    subject: str
    detail: str
    #: Where it is on its path; `normal` once it is over.
    state: str
    opened_at: str | None
    closed_at: str | None
    resolution: str
    resolved_by: str
    steps: list[StepView]


class AlertView(msgspec.Struct, frozen=True):
    """A metric that is not well."""

    metric: str
    #: As it was when it changed last.
    value: float
    limit: float
    #: `breached` before there is an alert, `raised`, or `easing`.
    state: str
    since: str | None
    raised_at: str | None


class HealthBody(msgspec.Struct, frozen=True):
    """What was measured."""

    #: By metric; durations in seconds.
    values: dict[str, float]


async def alerts(call: Call) -> list[AlertView]:
    """List the metrics that are over their limits, and the alerts."""
    known = call.hub.host.exchange.state.alerts
    views = []
    for name in sorted(known):
        row = known[name]
        state = "breached" if not row.raised_at else "easing" if row.easing else "raised"
        views.append(AlertView(name, row.value, row.limit, state, moment(row.since), moment(row.raised_at)))
    await call.durable()
    return views


async def report_health(call: Call) -> cmd.Reply:
    """Report what was measured outside the hub, such as how long clones take to start: a director or a human."""
    return await call.submit(cmd.ReportHealth(call.body.values))


async def approvals(call: Call) -> list[ApprovalView]:
    """List what waits for a director's word; who does not direct sees its own."""
    views = [
        ApprovalView(
            approval=row.approval,
            handoff=row.handoff,
            asker=row.asker,
            subject=row.subject,
            details=row.details,
            holds=row.holds,
            opened_at=moment(row.opened_at),
            due_at=moment(row.escalates_at),
        )
        for row in call.hub.host.exchange.state.approvals.values()
        if call.directs or row.asker == call.caller.agent
    ]
    await call.durable()
    return views


async def ask_approval(call: Call) -> cmd.Reply:
    """Ask the directors before doing something; their word comes to the inbox."""
    return await call.submit(cmd.AskApproval(call.body.handoff, call.body.subject, call.body.details))


async def decide_approval(call: Call) -> cmd.Reply:
    """Approve, change or refuse: a director or a human."""
    body = call.body
    payload = None if body.payload is None else msgspec.json.encode(body.payload)
    return await call.submit(cmd.DecideApproval(call.path["approval"], body.verdict, body.reason, payload))


async def withdraw_approval(call: Call) -> cmd.Reply:
    """Want it no longer."""
    return await call.submit(cmd.WithdrawApproval(call.path["approval"]))


async def escalations(call: Call) -> list[EscalationView]:
    """List the escalations, open ones first: for directors and humans."""
    if not call.directs:
        raise refusal("E_AUTH_003", f"{call.caller.agent} may not see escalations: a director or a human may")
    known = sorted(
        call.hub.host.exchange.state.escalations.values(), key=lambda row: (bool(row.closed_at), row.opened_at)
    )
    views = [
        EscalationView(
            escalation=row.escalation,
            rule=row.rule,
            trigger=row.trigger,
            subject=row.subject,
            detail=row.detail,
            state=row.state,
            opened_at=moment(row.opened_at),
            closed_at=moment(row.closed_at),
            resolution=row.resolution,
            resolved_by=row.resolved_by,
            steps=[StepView(moment(step.at), step.state, step.by, step.detail) for step in row.steps],
        )
        for row in known
        if call.query.closed or not row.closed_at
    ]
    await call.durable()
    return views


async def resolve_escalation(call: Call) -> cmd.Reply:
    """Say how an escalation was taken care of."""
    return await call.submit(cmd.ResolveEscalation(call.path["escalation"], call.body.resolution))


async def escalate_to_human(call: Call) -> cmd.Reply:
    """Bring an escalation before a human."""
    return await call.submit(cmd.EscalateToHuman(call.path["escalation"], call.body.reason))


_APPROVAL, _ESCALATION = "/v1/approvals/{approval}", "/v1/escalations/{escalation}"

OPERATIONS = (
    Operation("GET", "/v1/approvals", approvals, list[ApprovalView], tag="approvals"),
    Operation("POST", "/v1/approvals", ask_approval, cmd.ApprovalAsked, body=AskBody, tag="approvals"),
    Operation("POST", _APPROVAL + "/decide", decide_approval, cmd.ApprovalDecided, body=DecideBody, tag="approvals"),
    Operation("POST", _APPROVAL + "/withdraw", withdraw_approval, cmd.Done, tag="approvals"),
    Operation("GET", "/v1/escalations", escalations, list[EscalationView], query=EscalationsQuery, tag="escalations"),
    Operation("POST", _ESCALATION + "/resolve", resolve_escalation, cmd.Escalated, body=ResolveBody, tag="escalations"),
    Operation("GET", "/v1/alerts", alerts, list[AlertView], tag="health"),
    Operation("POST", "/v1/health-reports", report_health, cmd.HealthTaken, body=HealthBody, tag="health"),
    Operation("POST", _ESCALATION + "/human", escalate_to_human, cmd.Escalated, body=HumanBody, tag="escalations"),
)
