"""Steps of an escalation along its path, and the notices to directors and humans that belong to them."""

from tocsin.core import events as ev
from tocsin.core.commands import SYSTEM
from tocsin.core.decision import Decision
from tocsin.core.errors import InvariantViolation
from tocsin.core.escalation.paths import CLOSED, Place, place_after
from tocsin.core.messages.model import NEVER
from tocsin.core.messages.notices import notify_directors, notify_escalation, notify_humans
from tocsin.core.protocol.priority import Priority
from tocsin.core.state import Agent, ProjectState
from tocsin.core.teamwork.model import Escalation, Step

__all__ = [
    "DEADLINE_KIND",
    "FOR_DIRECTORS_ONLY",
    "NOTICE_CODES",
    "apply_moved",
    "escalate_to_directors",
    "escalate_to_humans",
    "move",
    "notify_newcomer",
    "subject_of",
]

DEADLINE_KIND = "escalation"
#: Error code in the notices of each trigger.
NOTICE_CODES: dict[str, str] = {
    "time_in_queue": "E_PROTOCOL_004",
    "request_timeout": "E_PROTOCOL_004",
    "approval_timeout": "E_PROTOCOL_004",
    "consensus_timeout": "E_PROTOCOL_004",
    "dependency_blocked": "E_TASK_004",
    "resource_contended": "E_LEASE_002",
    "deadlock": "E_LEASE_004",
    "health_degraded": "E_ROUTING_003",
    "priority_inflation": "E_ADMISSION_004",
    "critical_error": "E_TASK_003",
    "wake_failed": "E_ROUTING_003",
}


#: Triggers that reach humans only if a rule or a director says so: humans see health among the alerts.
FOR_DIRECTORS_ONLY = frozenset({"health_degraded"})


def move(
    decision: Decision, opened: Escalation, step: str, *, detail: str, by: str = SYSTEM.agent, due_at: int = NEVER
) -> None:
    """Take one step of the path; `due_at` is the next deadline, if there is one."""
    after = place_after(opened.state, step)
    decision.emit(ev.EscalationMoved(decision.now, opened.escalation, step, opened.state, after, by, detail, due_at))


def escalate_to_directors(
    decision: Decision, opened: Escalation, step: str, priority: Priority, payer: str = ""
) -> None:
    """Notify the directors of an escalation; if there is none, escalate to the humans at once, unless it is health."""
    move(decision, opened, step, detail=opened.detail, due_at=decision.now + decision.policy.escalation.director_us)
    if opened.trigger == "deadlock":
        return  # breaking the deadlock has already notified them of the whole cycle
    about = decision.state.messages.get(opened.about)
    notified = notify_directors(
        decision,
        opened.detail,
        code=NOTICE_CODES[opened.trigger],
        about=opened.subject,
        priority=priority,
        escalation=opened.escalation,
        but=() if about is None or opened.trigger != "critical_error" else (about.recipient,),
        payer=payer,
        subject=subject_of(opened.trigger),
    )
    if not notified and opened.trigger not in FOR_DIRECTORS_ONLY:
        escalate_to_humans(decision, opened, SYSTEM.agent, "there is no director", payer)


def escalate_to_humans(decision: Decision, opened: Escalation, by: str, reason: str, payer: str = "") -> None:
    """Move an escalation to the humans and notify them."""
    due_at = decision.now + decision.policy.escalation.director_us
    move(decision, opened, "escalated", by=by, detail=reason, due_at=due_at)
    code = NOTICE_CODES[opened.trigger]
    about, name = opened.subject, opened.escalation
    subject = subject_of(opened.trigger)
    notify_humans(decision, opened.detail, code=code, about=about, escalation=name, payer=payer, subject=subject)


def notify_newcomer(decision: Decision, agent: Agent) -> None:
    """Notify an agent that has just become a director, or a human, of the escalations that wait for its role."""
    waiting = (Place.HUMAN,) if agent.role == "human" else (Place.DIRECTOR, Place.ALERT)
    priority = Priority.CRITICAL if agent.role == "human" else Priority.BLOCKING
    for name in list(decision.state.open_escalations):
        opened = decision.state.escalations[name]
        if opened.state in waiting and opened.trigger != "deadlock":
            code, about, subject = NOTICE_CODES[opened.trigger], opened.subject, subject_of(opened.trigger)
            notify_escalation(decision, agent, opened.detail, code, about, name, priority, subject)


def subject_of(trigger: str) -> str:
    """Return the subject of the notices about escalations of one trigger."""
    return f"escalations: {trigger}"


def apply_moved(state: ProjectState, event: ev.EscalationMoved) -> None:
    """Move the escalation and schedule its next deadline."""
    opened = state.escalations.get(event.escalation)
    if opened is None or opened.state != event.old_state:
        raise InvariantViolation(f"an event moves {event.escalation} from {event.old_state}, but it is elsewhere")
    state.timers.deadlines.cancel(f"{DEADLINE_KIND} {event.escalation}", opened.due_at)
    opened.state = event.new_state
    opened.due_at = event.due_at
    opened.steps.append(Step(event.at, event.new_state, event.by, event.detail))
    if event.step in ("director_acts", "human_acts"):
        opened.resolution, opened.resolved_by = event.detail, event.by
    if event.new_state == CLOSED:
        opened.closed_at = event.at
        state.close_escalation(event.escalation)
    elif event.due_at != NEVER:
        state.timers.deadlines.schedule(f"{DEADLINE_KIND} {event.escalation}", event.due_at)
