"""Opening of escalations: their timers, the policy's rules, and deferral while too many are open."""

from tocsin.core import events as ev
from tocsin.core.commands import SYSTEM
from tocsin.core.decision import Decision
from tocsin.core.errors import InvariantViolation
from tocsin.core.escalation.conditions import is_over
from tocsin.core.escalation.paths import CLOSED, ROUTES, Place
from tocsin.core.escalation.steps import NOTICE_CODES, escalate_to_directors, escalate_to_humans, move, subject_of
from tocsin.core.messages.delivery import pump
from tocsin.core.messages.message import Message, queue_cause
from tocsin.core.messages.model import NEVER, State
from tocsin.core.messages.notices import notify_directors
from tocsin.core.policy import EscalationRule, Trigger, microseconds
from tocsin.core.protocol.priority import Priority, priority_name
from tocsin.core.scheduling import escalation_due, wait_due
from tocsin.core.state import ProjectState
from tocsin.core.teamwork.model import Deferred, Escalation
from tocsin.core.waiting.waits import awaited, raise_wait

__all__ = [
    "apply_deferred",
    "apply_opened",
    "fire_queued",
    "fire_wait",
    "open_deferred",
    "open_escalation",
    "raise_message",
]

#: Steps taken at opening, before anybody is notified.
_FIRST_STEPS: dict[str, tuple[str, ...]] = {"deadlock": ("circular_wait", "victim_chosen", "released")}


def fire_queued(decision: Decision, seq: int) -> None:
    """Escalate a message that has been queued for longer than its priority allows."""
    message = decision.state.messages.get(seq)
    if message is None or message.state is not State.QUEUED:
        return
    due = escalation_due(decision.state, message)
    found = decision.policy.escalation.rule_for("time_in_queue", message.priority)
    if due is None or found is None:
        return
    if decision.now < due:
        decision.state.timers.escalation.schedule(seq, due)
        return
    rule = found[1]
    detail = (
        f"{message.message_id} of {message.sender} has waited for {message.recipient} "
        f"longer than {rule.after_s:g} s at {priority_name(message.priority)}"
    )
    cause = queue_cause(message)
    payer = message.sender
    open_escalation(decision, "time_in_queue", cause, message.message_id, detail, about=message, payer=payer)


def fire_wait(decision: Decision, key: str) -> None:
    """Escalate a wait that has lasted longer than its priority allows."""
    wait = decision.state.waits.waits.get(key)
    due = None if wait is None else wait_due(decision.state, wait)
    if wait is None or due is None:
        return
    if decision.now < due:
        decision.state.timers.deadlines.schedule(f"wait {key}", due)
        return
    detail = (
        f"{wait.waiter} has waited for {', '.join(sorted(wait.on))} ({awaited(decision.state, wait)}) "
        f"longer than {(due - wait.since) / 1_000_000:g} s at {priority_name(wait.level)}"
    )
    asked = decision.state.ids.get(wait.ref) if wait.kind == "request" else None
    about = None if asked is None else decision.state.messages.get(asked)
    open_escalation(
        decision, "dependency_blocked", wait.cause, key, detail, about=about, level=wait.level, payer=wait.waiter
    )


def open_escalation(
    decision: Decision,
    trigger: Trigger,
    cause: str,
    subject: str,
    detail: str,
    *,
    about: Message | None = None,
    level: int | None = None,
    threshold: float = 0.0,
    payer: str = "",
) -> None:
    """Apply the policy's rule for a trigger, once for each cause; defer it if too many escalations are open.

    `threshold` is the limit that was crossed, for rules that have none of their own. `payer` is the agent that caused
    it and is charged for the notices; it is the caller by default.
    """
    state, policy = decision.state, decision.policy.escalation
    level = level if level is not None or about is None else about.priority
    if state.is_known(cause) or policy.rule_for(trigger, level) is None:
        return
    detail, seq = detail[: decision.policy.limits.text_max], NEVER if about is None else about.seq
    if len(state.open_escalations) < policy.open_max:
        since = NEVER if about is None else about.enqueued_at
        case = Deferred(cause, trigger, subject, detail, seq, since, level, threshold, state.seq)
        _open_now(decision, case, payer or decision.caller.agent)
        return
    kept = len(state.deferred) < policy.deferred_max
    decision.emit(ev.EscalationDeferred(decision.now, cause, trigger, subject, detail, seq, level, threshold, kept))
    if not kept:
        code, causer = NOTICE_CODES[trigger], payer or decision.caller.agent
        notify_directors(
            decision,
            detail,
            code=code,
            about=subject,
            priority=Priority.BLOCKING,
            payer=causer,
            subject=subject_of(trigger),
        )


def _open_now(decision: Decision, case: Deferred, payer: str = "") -> None:
    found = decision.policy.escalation.rule_for(case.trigger, case.level)
    if found is None:
        raise InvariantViolation(f"no rule escalates {case.cause}")
    name, rule = found
    threshold = rule.count or rule.after_s or case.threshold
    escalation = decision.ids.fresh("esc", decision.now)
    decision.emit(
        ev.EscalationOpened(
            decision.now, escalation, case.cause, name, case.trigger, case.subject, case.detail, case.about, threshold
        )
    )
    opened = decision.state.escalations[escalation]
    move(decision, opened, ROUTES[case.trigger], detail="")
    _act(decision, opened, rule, threshold, payer)


def open_deferred(decision: Decision) -> None:
    """Open deferred escalations, oldest first, while there is room; drop those whose condition has ended."""
    state, policy = decision.state, decision.policy.escalation
    while state.deferred and len(state.open_escalations) < policy.open_max:
        case = next(iter(state.deferred.values()))
        over = case.trigger != "deadlock" and is_over(state, case)
        if over or policy.rule_for(case.trigger, case.level) is None:
            decision.emit(ev.EscalationsForgotten(decision.now, (), (case.cause,)))
        else:
            _open_now(decision, case)


def _act(decision: Decision, opened: Escalation, rule: EscalationRule, threshold: float, payer: str) -> None:
    """Take the first steps of a path: those that the rule takes at once."""
    raised = _raise_subject(decision, opened, rule, threshold)
    tells = not raised or "notify_director" in rule.actions or "escalate_to_human" in rule.actions
    again = NEVER if tells else decision.now + max(1, microseconds(threshold))
    if opened.state == Place.TIME_BASED and raised:
        move(decision, opened, "boosted", detail="", due_at=again)
        if tells:
            move(decision, opened, "not_resolved", detail="")
    elif opened.state == Place.DEPENDENCY:
        move(decision, opened, "inherited", detail="", due_at=again)
        for step in _FIRST_STEPS.get(opened.trigger, ()):
            move(decision, opened, step, detail="")
    if opened.state == Place.HEALTH:
        escalate_to_directors(decision, opened, "alerted", Priority.CRITICAL, payer)
    elif tells:
        escalate_to_directors(decision, opened, "notified", Priority.BLOCKING, payer)
    if "escalate_to_human" in rule.actions and opened.state in (Place.DIRECTOR, Place.ALERT):
        escalate_to_humans(decision, opened, SYSTEM.agent, "required by the rule", payer)


def _raise_subject(decision: Decision, opened: Escalation, rule: EscalationRule, threshold: float) -> bool:
    """Raise the message or wait that an escalation is about; return whether there was one to raise."""
    levels = decision.policy.escalation.boost_levels if "boost" in rule.actions else 0
    if "interrupt_recipient" in rule.actions:
        levels = Priority.CRITICAL
    message = decision.state.messages.get(opened.about)
    if message is not None and message.state is not State.QUEUED:
        message = None
    wait = decision.state.waits.waits.get(opened.subject) if opened.trigger == "dependency_blocked" else None
    if levels and wait is not None:
        raise_wait(decision, wait, levels)
    if levels and message is not None:
        raise_message(decision, message, levels, threshold)
    return bool(levels) and not (message is None and wait is None)


def raise_message(decision: Decision, message: Message, levels: int, threshold_s: float) -> None:
    """Raise a queued or held message above the priority that it was admitted with; one that is higher stays."""
    own = max(message.own_level, Priority(message.priority).boost(levels))
    if own == message.own_level:
        return
    decision.emit(
        ev.MessageBoosted(
            at=decision.now,
            message=message.seq,
            old_level=message.level,
            new_level=max(message.level, own),
            overdue=message.overdue,
            rule="escalation",
            threshold_s=threshold_s,
            age_us=max(0, decision.now - message.enqueued_at),
            boosts=message.boosts,
            own_level=own,
        )
    )
    pump(decision, decision.state.agents[message.recipient])


def apply_opened(state: ProjectState, event: ev.EscalationOpened) -> None:
    """Add the escalation; the same cause never opens another one."""
    message = state.messages.get(event.about)
    state.deferred.pop(event.cause, None)
    state.remember_escalation(
        Escalation(
            escalation=event.escalation,
            cause=event.cause,
            rule=event.rule,
            trigger=event.trigger,
            subject=event.subject,
            detail=event.detail,
            state=CLOSED,
            opened_at=event.at,
            about=event.about,
            waiting_since=NEVER if message is None else message.enqueued_at,
            steps=[],
        )
    )


def apply_deferred(state: ProjectState, event: ev.EscalationDeferred) -> None:
    """Record a cause to be opened later."""
    if not event.kept:
        return
    message = state.messages.get(event.about)
    since = NEVER if message is None else message.enqueued_at
    about, level, threshold = event.about, event.level, event.threshold
    state.deferred[event.cause] = Deferred(
        event.cause, event.trigger, event.subject, event.detail, about, since, level, threshold, state.seq
    )
