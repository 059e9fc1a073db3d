"""Commands on open escalations, and their deadlines.

Theory of operation. The rules are policy: a trigger and the actions to take when it is met. A trigger that is met
opens an escalation with a *cause*; the same cause never opens another one (`opening`). From then on the escalation
moves along the table in `paths`, by its deadline or by a command, until it is closed: because the trouble is over
(`conditions`), or because a director or a human resolved it (`closing`). Closed escalations are kept for a while; the
journal has them all.

The triggers are found by the timers of queued messages and waits (`opening`), and by
`tocsin.core.teamwork.reactions`, which looks at the events of each decision.
"""

from tocsin.core.commands import SYSTEM, Escalated, EscalateToHuman, ResolveEscalation
from tocsin.core.decision import Decision
from tocsin.core.errors import refusal
from tocsin.core.escalation.closing import close, close_if_over
from tocsin.core.escalation.paths import Place
from tocsin.core.escalation.steps import (
    DEADLINE_KIND,
    FOR_DIRECTORS_ONLY,
    escalate_to_directors,
    escalate_to_humans,
    move,
)
from tocsin.core.messages.model import NEVER
from tocsin.core.protocol.priority import Priority
from tocsin.core.teamwork.model import Escalation

__all__ = ["decide_escalate", "decide_resolve", "fire_escalation"]

#: Triggers whose condition has no end that the bus can observe.
_NO_VISIBLE_END = frozenset({"critical_error", "consensus_timeout"})
#: Steps that bring an escalation to a director before the directors were notified.
_STEPS_TO_DIRECTOR: dict[str, tuple[str, ...]] = {
    Place.BOOSTED: ("not_resolved", "notified"),
    Place.INHERITANCE: ("notified",),
}


def fire_escalation(decision: Decision, name: str) -> None:
    """Handle the deadline of an escalation: close it if its condition has ended, else take the next step."""
    opened = decision.state.escalations.get(name)
    if opened is None or opened.due_at == NEVER:
        return
    if decision.now < opened.due_at:
        decision.state.timers.deadlines.schedule(f"{DEADLINE_KIND} {name}", opened.due_at)
    elif close_if_over(decision, opened):
        return
    elif opened.state == Place.BOOSTED:
        move(decision, opened, "not_resolved", detail="")
        escalate_to_directors(decision, opened, "notified", Priority.BLOCKING)
    elif opened.state == Place.INHERITANCE:
        escalate_to_directors(decision, opened, "notified", Priority.BLOCKING)
    elif opened.state in (Place.DIRECTOR, Place.ALERT) and opened.trigger not in FOR_DIRECTORS_ONLY:
        escalate_to_humans(decision, opened, SYSTEM.agent, "no director acted in time")
    elif opened.trigger in _NO_VISIBLE_END and _human_time_is_over(decision, opened):
        move(decision, opened, "over", detail="not resolved in time")
        close(decision, opened)
    else:
        due = decision.now + decision.policy.escalation.director_us
        decision.state.timers.deadlines.schedule(f"{DEADLINE_KIND} {name}", due)


def _human_time_is_over(decision: Decision, opened: Escalation) -> bool:
    return decision.now - opened.steps[-1].at >= decision.policy.escalation.human_us


def decide_resolve(decision: Decision, command: ResolveEscalation) -> Escalated:
    """Resolve an escalation for a director or a human."""
    decision.must_direct("resolve an escalation")
    opened = _open(decision, command.escalation)
    resolution = decision.text(command.resolution, "$.resolution")
    human = decision.caller.role == "human" and opened.state == Place.HUMAN
    for step in _STEPS_TO_DIRECTOR.get(opened.state, ()):
        move(decision, opened, step, by=decision.caller.agent, detail="")
    move(decision, opened, "human_acts" if human else "director_acts", by=decision.caller.agent, detail=resolution)
    if not human:
        move(decision, opened, "resolved", by=decision.caller.agent, detail="")
    close(decision, opened)
    return Escalated(opened.escalation, opened.state)


def decide_escalate(decision: Decision, command: EscalateToHuman) -> Escalated:
    """Escalate to the humans for a director."""
    decision.must_direct("escalate to a human")
    opened = _open(decision, command.escalation)
    if opened.state not in (Place.DIRECTOR, Place.ALERT):
        raise refusal("E_STATE_002", f"{opened.escalation} is {opened.state}: it cannot be escalated to a human")
    escalate_to_humans(decision, opened, decision.caller.agent, decision.text(command.reason, "$.reason"))
    return Escalated(opened.escalation, opened.state)


def _open(decision: Decision, name: str) -> Escalation:
    opened = decision.state.escalations.get(name)
    if opened is None:
        raise refusal("E_STATE_001", f"{name[:64]} is not a known escalation", found=name[:64])
    if opened.closed_at != NEVER:
        raise refusal("E_STATE_002", f"{name} is closed: {opened.resolution or 'its condition has ended'}")
    return opened
