"""Decisions on wakes: when an agent is woken, and when a wake has worked or failed.

Theory of operation. An agent can be woken if the hub has declared a waker for it. A message at or above `wake.level`
that is queued for such an agent, while it has no live session, schedules a check of the agent (`scheduling`). A channel
that led to nothing is not a live session (`channels`). The check requests a wake once the message has waited long
enough and no limit forbids it; otherwise it is repeated when the limit ends. The host starts the waker after the
request is durable, and reports its end. The wake has worked when the message is offered to a session of the agent. At
its deadline it has failed; it is then retried, or escalated.
"""

from tocsin.core import events as ev
from tocsin.core.commands import SYSTEM, DeclareWakers, Done, ReportWaker
from tocsin.core.decision import Decision
from tocsin.core.errors import refusal
from tocsin.core.escalation.closing import close_if_over
from tocsin.core.escalation.opening import open_escalation
from tocsin.core.messages.model import NEVER, State
from tocsin.core.policy import Trigger
from tocsin.core.scheduling import is_attended, is_notified, schedule_wake
from tocsin.core.state import Agent
from tocsin.core.wake import channels
from tocsin.core.wake.channels import first_waiting
from tocsin.core.wake.model import Wakers, Waking
from tocsin.core.wake.transitions import HOUR_US

__all__ = ["attached", "decide_declare", "decide_report", "fire_wake", "left_queue", "retire", "taken"]

_TRIGGER: Trigger = "wake_failed"


def decide_declare(decision: Decision, command: DeclareWakers) -> Done:
    """Record which agents the hub can wake, if that has changed."""
    _must_be_hub(decision)
    declared = Wakers(tuple(sorted(set(command.agents))), tuple(sorted(set(command.roles))))
    if declared != decision.state.wakers:
        decision.emit(ev.WakersDeclared(decision.now, declared.agents, declared.roles))
    return Done()


def decide_report(decision: Decision, command: ReportWaker) -> Done:
    """Record the end of a waker; one that failed before its agent took the message fails the wake at once."""
    _must_be_hub(decision)
    record = decision.state.wakes.get(command.agent)
    if record is None or record.wake != command.wake or record.exited:
        return Done()
    detail = command.detail[: decision.policy.limits.text_max]
    decision.emit(ev.WakerExited(decision.now, record.agent, record.wake, command.outcome, command.code, detail))
    if not record.settled and not (command.outcome == "exited" and _succeeded(command.code)):
        _fail(decision, record, "waker_failed", detail)
    return Done()


def _succeeded(code: int | None) -> bool:
    return code == 0 or (code is not None and 200 <= code < 300)


def _must_be_hub(decision: Decision) -> None:
    if decision.caller != SYSTEM:
        raise refusal("E_AUTH_003", f"{decision.caller.agent} may not report on wakers: only the hub does")


def fire_wake(decision: Decision, name: str) -> None:
    """Check an agent: handle the deadline of its wake, or request a wake if it needs one."""
    state = decision.state
    state.timers.wake_due.pop(name, None)
    agent = state.agents.get(name)
    if agent is not None and is_notified(state, agent):
        channels.check(decision, agent)
    record = state.wakes.get(name)
    if record is not None and record.wake:
        if decision.now < record.due_at:
            schedule_wake(state, name, record.due_at)
        elif record.settled:
            detail = f"the waker has run for {decision.policy.wake.run_s:g} s"
            decision.emit(ev.WakerExited(decision.now, name, record.wake, "timeout", None, detail))
        else:
            here = agent is not None and is_attended(state, agent)
            _fail(decision, record, "not_taken" if here else "not_attached", "", decision.policy.wake.grace_s)
    elif agent is not None and state.can_wake(agent) and not is_attended(state, agent):
        _consider(decision, agent, record)


def _consider(decision: Decision, agent: Agent, record: Waking | None) -> None:
    """Request a wake of an agent if a message has waited long enough and no limit forbids it."""
    state, policy = decision.state, decision.policy.wake
    message = first_waiting(decision, agent)
    if message is None:
        return
    due = message.enqueued_at
    if record is not None:
        due = max(due, record.away_since)
    due += policy.after_us
    if record is not None:
        due = max(due, _allowed_at(decision, record))
    if decision.now < due:
        schedule_wake(state, agent.agent, due)
    elif sum(bool(other.wake) for other in state.wakes.values()) >= policy.processes_max:
        state.timers.wake_blocked[agent.agent] = None
    else:
        decision.emit(
            ev.AgentWakeRequested(
                at=decision.now,
                agent=agent.agent,
                wake=decision.ids.fresh("wak", decision.now),
                message=message.seq,
                attempt=1 + _failed_attempts(decision, record),
                level=message.priority,
                waited_us=max(0, decision.now - message.enqueued_at),
                threshold_s=policy.after_s,
                due_at=decision.now + policy.grace_us,
            )
        )


def _failed_attempts(decision: Decision, record: Waking | None) -> int:
    """Return how many attempts have failed to bring the agent to a message that still waits."""
    message = None if record is None else decision.state.messages.get(record.message)
    return record.attempt if record is not None and message is not None and message.state is State.QUEUED else 0


def _allowed_at(decision: Decision, record: Waking) -> int:
    """Return when the limits allow the next wake of an agent."""
    policy, now = decision.policy.wake, decision.now
    if _failed_attempts(decision, record):
        allowed = record.retry_at
    else:
        allowed = max(record.rest_until, record.ended_at + policy.cooldown_us if record.ended_at else NEVER)
    recent = [at for at in record.recent if at > now - HOUR_US]
    if len(recent) >= policy.per_hour_max:
        allowed = max(allowed, recent[-policy.per_hour_max] + HOUR_US)
    return allowed


def _fail(decision: Decision, record: Waking, reason: str, detail: str, threshold_s: float = 0.0) -> None:
    """Fail the wake under way: plan a retry, or escalate once the retries are used up or cannot help."""
    policy, agent = decision.policy.wake, decision.state.agents.get(record.agent)
    ends = reason in ("moot", "retired") or agent is None
    state = decision.state
    again = not ends and agent is not None and record.attempt <= policy.retries_max and not is_attended(state, agent)
    retry_at = decision.now + max(1, policy.backoff_us(record.attempt)) if again else NEVER
    wake, attempt, message = record.wake, record.attempt, decision.state.messages.get(record.message)
    failed = ev.AgentWakeFailed(
        decision.now,
        record.agent,
        wake,
        record.message,
        attempt,
        policy.retries_max + 1,
        reason,
        detail,
        threshold_s,
        retry_at,
        not ends and not again,
    )
    decision.emit(failed)
    if failed.final:
        text = f"{record.agent} could not be woken in {attempt} attempts: {_explained(failed)}"
        payer = SYSTEM.agent if message is None else message.sender
        open_escalation(decision, _TRIGGER, f"{_TRIGGER} {wake}", record.agent, text, about=message, payer=payer)


def _explained(failed: ev.AgentWakeFailed) -> str:
    if failed.reason == "not_attached":
        return f"it opened no session within {failed.threshold_s:g} s"
    if failed.reason == "not_taken":
        return f"it attached but did not take the message within {failed.threshold_s:g} s"
    return f"its waker failed: {failed.detail or 'no details'}"


def taken(decision: Decision, event: ev.MessageOffered | ev.MessageDelivered) -> None:
    """Settle the wake whose message was offered to its agent, or settled by it without an offer."""
    name = decision.state.wake_targets.get(event.message)
    if name is not None:
        record = decision.state.wakes[name]
        took_us = max(0, event.at - record.requested_at)
        session = event.session if isinstance(event, ev.MessageOffered) else ""
        decision.emit(ev.AgentWoken(decision.now, name, record.wake, event.message, session, record.attempt, took_us))


def left_queue(decision: Decision, seq: int) -> None:
    """Settle the wake whose message ended without being taken."""
    name = decision.state.wake_targets.get(seq)
    if name is not None:
        _fail(decision, decision.state.wakes[name], "moot", "the message no longer waits")


def attached(decision: Decision, event: ev.SessionOpened) -> None:
    """Close the escalation of a failed wake of an agent that has attached; its channel may count again."""
    channels.heard(decision, event)
    for name in list(decision.state.open_escalations):
        opened = decision.state.escalations[name]
        if opened.trigger == _TRIGGER and opened.subject == event.agent:
            close_if_over(decision, opened)


def retire(decision: Decision, agent: str) -> None:
    """End the wake of an agent that has left the project."""
    record = decision.state.wakes.get(agent)
    if record is None:
        return
    if not record.settled:
        _fail(decision, record, "retired", "the agent has left the project")
    if agent in decision.state.wakes and not record.exited:
        detail = "the agent has left the project"
        decision.emit(ev.WakerExited(decision.now, agent, record.wake, "retired", None, detail))
