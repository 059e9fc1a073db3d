"""Escalation: what stays unresolved is raised, then told to a director, then to a human (LIMINAL).

Theory of operation. The rules are policy: a trigger and what is done when it is met. A trigger that is met opens an
escalation with a *cause*, and the same cause never opens another one. From then on it moves along the table of
`tocsin.core.teamwork.escalation_paths`, by its deadline or by somebody's word, until it is back to normal: because the
trouble is over, or because a director or a human said how it was resolved. Closed escalations are remembered for a
while; the journal has them all.

This module knows what to do about an escalation. What sets one off is found elsewhere: by the timer of a queued message
(`fire_queued`), and by `tocsin.core.teamwork.reactions`, which looks at what each decision led to.
"""

from heapq import nsmallest

from tocsin.core import events as ev
from tocsin.core.commands import SYSTEM, Escalated, EscalateToHuman, ResolveEscalation
from tocsin.core.decision import Decision
from tocsin.core.errors import InvariantViolation, refusal
from tocsin.core.messages.delivery import pump
from tocsin.core.messages.model import NEVER, Message, State, queue_cause
from tocsin.core.messages.notices import notify_directors, notify_humans
from tocsin.core.policy import EscalationRule, Trigger, microseconds
from tocsin.core.protocol.priority import Priority, liminal_name
from tocsin.core.scheduling import escalation_due, wait_due
from tocsin.core.state import ProjectState
from tocsin.core.teamwork.escalation_paths import CLOSED, ROUTES, Place, place_after
from tocsin.core.teamwork.model import Deferred, Escalation, Step
from tocsin.core.waiting.waits import raise_wait

__all__ = [
    "apply_deferred",
    "apply_forgotten",
    "apply_moved",
    "apply_opened",
    "close_if_over",
    "decide_escalate",
    "decide_resolve",
    "fire_escalation",
    "fire_queued",
    "fire_wait",
    "is_open",
    "open_deferred",
    "open_escalation",
    "raise_message",
]

_KIND = "escalation"
#: The code that a notice of each trigger carries.
_CODES: dict[str, str] = {
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
}


def fire_queued(decision: Decision, seq: int) -> None:
    """Escalate a message that has waited in its queue for longer than its priority allows."""
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
        f"longer than {rule.after_s:g} s at {liminal_name(message.priority)}"
    )
    cause = queue_cause(message)
    open_escalation(decision, "time_in_queue", cause, message.message_id, detail, about=message)


def fire_wait(decision: Decision, key: str) -> None:
    """Escalate a wait that has blocked somebody's progress for longer than its priority allows."""
    wait = decision.state.waits.waits.get(key)
    due = None if wait is None else wait_due(decision.state, wait)
    if wait is None or due is None:
        return
    if decision.now < due:
        decision.state.timers.deadlines.schedule(f"wait {key}", due)
        return
    detail = (
        f"{wait.waiter} has waited for {', '.join(sorted(wait.on))} ({wait.label}) "
        f"longer than {(due - wait.since) / 1_000_000:g} s at {liminal_name(wait.level)}"
    )
    asked = decision.state.ids.get(wait.ref) if wait.kind == "request" else None
    about = None if asked is None else decision.state.messages.get(asked)
    open_escalation(decision, "dependency_blocked", wait.cause, key, detail, about=about, level=wait.level)


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
) -> None:
    """Do what the policy's rule for a trigger says, once for each cause; where there is no room, do it later.

    `threshold` is what was crossed, where the rule has no number of its own.
    """
    state, policy = decision.state, decision.policy.escalation
    level = level if level is not None or about is None else about.priority
    if state.is_known(cause) or policy.rule_for(trigger, level) is None:
        return
    detail, seq = detail[: decision.policy.limits.text_max], NEVER if about is None else about.seq
    if len(state.open_escalations) < policy.open_max:
        since = NEVER if about is None else about.enqueued_at
        _open_now(decision, Deferred(cause, trigger, subject, detail, seq, since, level, threshold, state.seq))
        return
    kept = len(state.deferred) < policy.deferred_max
    decision.emit(ev.EscalationDeferred(decision.now, cause, trigger, subject, detail, seq, level, threshold, kept))
    if not kept:
        notify_directors(decision, detail, code=_CODES[trigger], about=subject, priority=Priority.BLOCKING)


def _open_now(decision: Decision, case: Deferred) -> None:
    found = decision.policy.escalation.rule_for(case.trigger, case.level)
    if found is None:
        raise InvariantViolation(f"{case.cause} is escalated by no rule")
    name, rule = found
    threshold = rule.count or rule.after_s or case.threshold
    escalation = decision.ids.fresh("esc", decision.now)
    decision.emit(
        ev.EscalationOpened(
            decision.now, escalation, case.cause, name, case.trigger, case.subject, case.detail, case.about, threshold
        )
    )
    opened = decision.state.escalations[escalation]
    _move(decision, opened, ROUTES[case.trigger], detail="")
    _act(decision, opened, rule, threshold)


def open_deferred(decision: Decision) -> None:
    """Open what had to wait, oldest first, as far as there is room; what is over by now is let go."""
    state, policy = decision.state, decision.policy.escalation
    while state.deferred and len(state.open_escalations) < policy.open_max:
        case = next(iter(state.deferred.values()))
        over = case.trigger != "deadlock" and _is_over(state, case)
        if over or policy.rule_for(case.trigger, case.level) is None:
            decision.emit(ev.EscalationsForgotten(decision.now, (), (case.cause,)))
        else:
            _open_now(decision, case)


#: The steps that are taken on the way, before anybody is told.
_STATIONS: dict[str, tuple[str, ...]] = {"deadlock": ("circular_wait", "victim_chosen", "released")}


def _act(decision: Decision, opened: Escalation, rule: EscalationRule, threshold: float) -> None:
    """Take the first steps of a path, as far as the rule goes at once."""
    raised = _raise_subject(decision, opened, rule, threshold)
    tells = not raised or "notify_director" in rule.actions or "escalate_to_human" in rule.actions
    again = NEVER if tells else decision.now + max(1, microseconds(threshold))
    if opened.state == Place.TIME_BASED and raised:
        _move(decision, opened, "boosted", detail="", due_at=again)
        if tells:
            _move(decision, opened, "not_resolved", detail="")
    elif opened.state == Place.DEPENDENCY:
        _move(decision, opened, "inherited", detail="", due_at=again)
        for step in _STATIONS.get(opened.trigger, ()):
            _move(decision, opened, step, detail="")
    if opened.state == Place.HEALTH:
        _tell_directors(decision, opened, "alerted", Priority.CRITICAL)
    elif tells:
        _tell_directors(decision, opened, "notified", Priority.BLOCKING)
    if "escalate_to_human" in rule.actions and opened.state in (Place.DIRECTOR, Place.ALERT):
        _tell_humans(decision, opened, SYSTEM.agent, "the rule says so")


def _raise_subject(decision: Decision, opened: Escalation, rule: EscalationRule, threshold: float) -> bool:
    """Raise the message or the wait that an escalation is about; say whether the rule raises and there is one."""
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
    """Raise a queued message above the priority that it was admitted with; one that stands higher stays."""
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


def _tell_directors(decision: Decision, opened: Escalation, step: str, priority: Priority) -> None:
    """Bring it before the directors; where there is none, it goes on to a human at once."""
    _move(decision, opened, step, detail=opened.detail, due_at=decision.now + decision.policy.escalation.director_us)
    if opened.trigger == "deadlock":
        return  # whoever broke it has told them the whole circle
    about = decision.state.messages.get(opened.about)
    told = notify_directors(
        decision,
        opened.detail,
        code=_CODES[opened.trigger],
        about=opened.subject,
        priority=priority,
        escalation=opened.escalation,
        but=() if about is None or opened.trigger != "critical_error" else (about.recipient,),
    )
    if not told:
        _tell_humans(decision, opened, SYSTEM.agent, "there is no director")


def _tell_humans(decision: Decision, opened: Escalation, by: str, reason: str) -> None:
    due_at = decision.now + decision.policy.escalation.director_us
    _move(decision, opened, "escalated", by=by, detail=reason, due_at=due_at)
    notify_humans(
        decision, opened.detail, code=_CODES[opened.trigger], about=opened.subject, escalation=opened.escalation
    )


def fire_escalation(decision: Decision, name: str) -> None:
    """Look at an escalation whose time has come: it is over, or it goes one step up."""
    opened = decision.state.escalations.get(name)
    if opened is None or opened.due_at == NEVER:
        return
    if decision.now < opened.due_at:
        decision.state.timers.deadlines.schedule(f"{_KIND} {name}", opened.due_at)
    elif close_if_over(decision, opened):
        return
    elif opened.state == Place.BOOSTED:
        _move(decision, opened, "not_resolved", detail="")
        _tell_directors(decision, opened, "notified", Priority.BLOCKING)
    elif opened.state == Place.INHERITANCE:
        _tell_directors(decision, opened, "notified", Priority.BLOCKING)
    elif opened.state in (Place.DIRECTOR, Place.ALERT):
        _tell_humans(decision, opened, SYSTEM.agent, "no director acted in time")
    elif opened.trigger in _UNSEEN and decision.now - opened.steps[-1].at >= decision.policy.escalation.human_us:
        _move(decision, opened, "over", detail="nobody said how it ended")
        _close(decision, opened)
    else:
        due = decision.now + decision.policy.escalation.director_us
        decision.state.timers.deadlines.schedule(f"{_KIND} {name}", due)


#: Triggers whose trouble has no end that the bus could see.
_UNSEEN = frozenset({"critical_error", "consensus_timeout"})


def close_if_over(decision: Decision, opened: Escalation) -> bool:
    """Close an escalation whose trouble is over; say whether it is closed."""
    if opened.closed_at != NEVER:
        return True
    if not _is_over(decision.state, opened):
        return False
    if opened.state in (Place.BOOSTED, Place.INHERITANCE, Place.ALERT, Place.DIRECTOR, Place.HUMAN):
        _move(decision, opened, "over", detail="it is over")
        _close(decision, opened)
    return opened.closed_at != NEVER


def _is_over(state: ProjectState, opened: Escalation | Deferred) -> bool:
    """Tell whether what an escalation is about is no longer so."""
    match opened.trigger:
        case "time_in_queue":
            message = state.messages.get(opened.about)
            return message is None or message.state is not State.QUEUED or message.enqueued_at != opened.waiting_since
        case "priority_inflation":
            agent = state.agents.get(opened.subject)
            return agent is None or not agent.gaming
        case "request_timeout":
            asked = state.messages.get(opened.about)
            return asked is None or asked.state in _ENDED
        case "health_degraded":
            alert = state.alerts.get(opened.subject)
            return alert is None or alert.raised_at == NEVER or not opened.cause.endswith(f" {alert.breach}")
        case "approval_timeout":
            return opened.subject not in state.approvals
        case "dependency_blocked":
            return opened.subject not in state.waits.waits
        case "resource_contended":
            return state.leases.contention(opened.subject).depth < (state.policy.escalation.contention_depth or 1)
        case "critical_error":
            return _was_seen_to(state, opened.about)
        case "deadlock":
            return True
    return False


def _was_seen_to(state: ProjectState, seq: int) -> bool:
    """Tell whether a report went to somebody who directs, and was dealt with."""
    report = state.messages.get(seq)
    if report is None or report.state is not State.PROCESSED:
        return False
    recipient = state.agents.get(report.recipient)
    return recipient is not None and state.policy.roles[recipient.role].directs


def decide_resolve(decision: Decision, command: ResolveEscalation) -> Escalated:
    """Take the word of a director or a human that it has been taken care of."""
    decision.must_direct("resolve an escalation")
    opened = _open(decision, command.escalation)
    resolution = decision.text(command.resolution, "$.resolution")
    human = decision.caller.role == "human" and opened.state == Place.HUMAN
    for step in _UNTOLD.get(opened.state, ()):
        _move(decision, opened, step, by=decision.caller.agent, detail="")
    _move(decision, opened, "human_acts" if human else "director_acts", by=decision.caller.agent, detail=resolution)
    if not human:
        _move(decision, opened, "resolved", by=decision.caller.agent, detail="")
    _close(decision, opened)
    return Escalated(opened.escalation, opened.state)


#: The steps by which a director comes to what nobody has been told of yet.
_UNTOLD: dict[str, tuple[str, ...]] = {
    Place.BOOSTED: ("not_resolved", "notified"),
    Place.INHERITANCE: ("notified",),
}


def decide_escalate(decision: Decision, command: EscalateToHuman) -> Escalated:
    """Bring an escalation before a human at a director's word."""
    decision.must_direct("escalate to a human")
    opened = _open(decision, command.escalation)
    if opened.state not in (Place.DIRECTOR, Place.ALERT):
        raise refusal("E_STATE_002", f"{opened.escalation} is {opened.state}: it cannot be escalated to a human")
    _tell_humans(decision, opened, decision.caller.agent, decision.text(command.reason, "$.reason"))
    return Escalated(opened.escalation, opened.state)


def _open(decision: Decision, name: str) -> Escalation:
    opened = decision.state.escalations.get(name)
    if opened is None:
        raise refusal("E_STATE_001", f"{name[:64]} is no escalation that is remembered", found=name[:64])
    if opened.closed_at != NEVER:
        raise refusal("E_STATE_002", f"{name} is closed: {opened.resolution or 'it was over'}")
    return opened


def is_open(opened: Escalation) -> bool:
    """Tell whether an escalation has not returned to normal."""
    return opened.closed_at == NEVER


def _close(decision: Decision, opened: Escalation) -> None:
    _move(decision, opened, "returned", detail="")
    open_deferred(decision)
    surplus = len(decision.state.closed_escalations) - decision.policy.escalation.history_max
    if surplus > 0:
        names = tuple([known.escalation for known in _oldest_closed(decision.state, surplus)])
        if names:
            decision.emit(ev.EscalationsForgotten(decision.now, names))


def _oldest_closed(state: ProjectState, count: int) -> list[Escalation]:
    """Return those that were closed first and may be forgotten; of those of one moment, by name."""
    found: list[Escalation] = []
    for name in state.closed_escalations:
        known = state.escalations[name]
        if len(found) >= count and known.closed_at != found[-1].closed_at:
            break
        if _may_be_forgotten(state, known):
            found.append(known)
    return nsmallest(count, found, key=lambda known: (known.closed_at, known.escalation))


def _may_be_forgotten(state: ProjectState, known: Escalation) -> bool:
    """Tell whether an escalation is closed and its cause cannot come again."""
    if is_open(known):
        return False
    if known.trigger in _LASTING:
        return _is_over(state, known)
    message = state.messages.get(known.about)
    if message is None or known.trigger != "time_in_queue":
        return True
    return message.enqueued_at != known.waiting_since or message.state in _ENDED


#: Triggers whose trouble may outlast its escalation: somebody's word closes it, and the cause is still there.
_LASTING = frozenset(
    {"approval_timeout", "dependency_blocked", "health_degraded", "priority_inflation", "resource_contended"}
)
_ENDED = (State.PROCESSED, State.EXPIRED, State.RECALLED, State.DEAD)


def _move(
    decision: Decision, opened: Escalation, step: str, *, detail: str, by: str = SYSTEM.agent, due_at: int = NEVER
) -> None:
    after = place_after(opened.state, step)
    decision.emit(ev.EscalationMoved(decision.now, opened.escalation, step, opened.state, after, by, detail, due_at))


def apply_opened(state: ProjectState, event: ev.EscalationOpened) -> None:
    """Write it down, and never again for the same cause."""
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
    """Write down what is to be opened later."""
    if not event.kept:
        return
    message = state.messages.get(event.about)
    since = NEVER if message is None else message.enqueued_at
    about, level, threshold = event.about, event.level, event.threshold
    state.deferred[event.cause] = Deferred(
        event.cause, event.trigger, event.subject, event.detail, about, since, level, threshold, state.seq
    )


def apply_moved(state: ProjectState, event: ev.EscalationMoved) -> None:
    """Move it, and look at it again when it says so."""
    opened = state.escalations.get(event.escalation)
    if opened is None or opened.state != event.old_state:
        raise InvariantViolation(f"an event moves {event.escalation} from {event.old_state}, where it is not")
    state.timers.deadlines.cancel(f"{_KIND} {event.escalation}", opened.due_at)
    opened.state = event.new_state
    opened.due_at = event.due_at
    opened.steps.append(Step(event.at, event.new_state, event.by, event.detail))
    if event.step in ("director_acts", "human_acts"):
        opened.resolution, opened.resolved_by = event.detail, event.by
    if event.new_state == CLOSED:
        opened.closed_at = event.at
        state.close_escalation(event.escalation)
    elif event.due_at != NEVER:
        state.timers.deadlines.schedule(f"{_KIND} {event.escalation}", event.due_at)


def apply_forgotten(state: ProjectState, event: ev.EscalationsForgotten) -> None:
    """Strike them out."""
    for name in event.escalations:
        state.forget_escalation(name)
    for cause in event.causes:
        del state.deferred[cause]
