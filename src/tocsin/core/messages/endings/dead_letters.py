"""Dead letters: why and how often delivery failed, redriving, and purging.

Requirement: APM §3.5, §4.2.
"""

from tocsin.core import events as ev
from tocsin.core.agents.presence import presence
from tocsin.core.commands import SYSTEM, Redrive, Redriven
from tocsin.core.decision import Decision
from tocsin.core.errors import Problem, TocsinError, refusal
from tocsin.core.messages.capacity import over_mailbox, over_sender_or_project
from tocsin.core.messages.delivery import clear_in_flight, note_failure, pump
from tocsin.core.messages.message import Message, renewed_expiry
from tocsin.core.messages.model import NEVER, State
from tocsin.core.messages.notices import report_death
from tocsin.core.messages.volume import size_of
from tocsin.core.scheduling import move, schedule, unschedule
from tocsin.core.state import ProjectState
from tocsin.core.waiting.inheritance import relevel

__all__ = ["apply_died", "apply_purged", "apply_redriven", "decide_redrive", "die", "fire_dead", "was_refused"]


def die(
    decision: Decision,
    message: Message,
    reason: str,
    code: str,
    detail: str,
    *,
    attempts_max: int = 0,
    threshold_s: float = 0.0,
    report: bool = True,
) -> None:
    """Move a message to the dead letters and notify its sender."""
    attempts, limits, state = message.attempts, decision.policy.limits, decision.state
    decision.emit(ev.MessageDied(decision.now, message.seq, reason, code, attempts, detail, attempts_max, threshold_s))
    if report and message.sender != SYSTEM.agent:
        report_death(decision, message, code, detail)
    while len(state.dead) > limits.dead_letters_max or state.volume.dead > limits.dead_letters_bytes_max:
        reason, limit = "limit", limits.dead_letters_max
        if len(state.dead) <= limit:
            reason, limit = "bytes", limits.dead_letters_bytes_max
        decision.emit(ev.DeadLetterPurged(decision.now, next(iter(state.dead)), reason, float(limit)))


def decide_redrive(decision: Decision, command: Redrive) -> Redriven:
    """Queue dead letters again; a director may redrive any, a sender its own."""
    limit = decision.policy.limits.batch_max
    if len(command.signal_ids) > limit:
        raise refusal("E_ADMISSION_008", f"too many dead letters: at most {limit} at a time", retryable=False)
    redriven: list[str] = []
    refused: dict[str, Problem] = {}
    for signal in command.signal_ids:
        letters = [
            copy
            for copy in decision.state.copies_of(signal)
            if decision.directs() or copy.sender == decision.caller.agent
        ]
        dead = [copy for copy in letters if copy.state is State.DEAD]
        if not letters:
            refused[signal] = Problem("E_STATE_001", f"{signal} was not found: unknown, or not your message")
        elif not dead:
            refused[signal] = Problem("E_STATE_002", f"{signal} is {letters[0].state}, not dead")
        elif not decision.directs() and any(was_refused(decision.state, copy) for copy in dead):
            refused[signal] = Problem("E_AUTH_003", f"a director refused {signal}: only a director may redrive it")
        elif any(copy.recipient not in decision.state.agents for copy in dead):
            refused[signal] = Problem("E_ROUTING_001", f"the recipient of {signal} is no longer registered")
        elif over := _over_limits(decision, dead):
            refused[signal] = over.problem
        else:
            for copy in dead:
                _redrive(decision, copy)
            redriven.append(signal)
    return Redriven(tuple(redriven), refused)


def _over_limits(decision: Decision, dead: list[Message]) -> TocsinError | None:
    """Return the refusal of dead letters of one sender that have no room, as if they were sent again."""
    for copy in dead:
        over = over_mailbox(decision, decision.state.agents[copy.recipient], copy.priority, size_of(copy))
        if over is not None:
            return over
    return over_sender_or_project(decision, dead[0].sender, dead[0].priority, sum(map(size_of, dead)))


def was_refused(state: ProjectState, message: Message) -> bool:
    """Return whether a director refused a message when it last became a dead letter."""
    failure = state.failures.get(message.seq)
    return failure is not None and failure.reason == "approval_refused"


def _redrive(decision: Decision, message: Message) -> None:
    agent = decision.state.agents[message.recipient]
    expires_at = renewed_expiry(message, decision.now)
    state = presence(agent, decision.policy, decision.now)
    decision.emit(ev.DeadLetterRedriven(decision.now, message.seq, decision.caller.agent, expires_at, state))
    pump(decision, agent)


def fire_dead(decision: Decision, seq: int) -> None:
    """Purge a dead letter that was not redriven in time."""
    message = decision.state.messages.get(seq)
    if message is None or message.state is not State.DEAD:
        return
    due = message.dead_at + decision.policy.retention.dead_us
    if decision.now < due:
        decision.state.timers.dead.schedule(seq, due)
    else:
        decision.emit(ev.DeadLetterPurged(decision.now, seq, "age", decision.policy.retention.dead_us / 1_000_000))


def apply_died(state: ProjectState, event: ev.MessageDied) -> None:
    """Add the message to the dead letters."""
    message = move(state, event.message, ev.MessageDied)
    clear_in_flight(state, message)
    message.dead_at = event.at
    message.offered_at = message.delivered_at = NEVER
    message.backing_off = False
    note_failure(state, message.seq, event.at, event.reason, event.code)
    state.dead[message.seq] = None
    schedule(state, message)


def apply_redriven(state: ProjectState, event: ev.DeadLetterRedriven) -> None:
    """Queue the message with fresh timers, under its old sequence number."""
    message = move(state, event.message, ev.DeadLetterRedriven)
    del state.dead[message.seq]
    message.dead_at = NEVER
    message.enqueued_at = event.at
    message.expires_at = event.expires_at
    message.own_level = message.priority
    relevel(state, message)
    message.attempts = message.boosts = 0
    message.overdue = False
    schedule(state, message)


def apply_purged(state: ProjectState, event: ev.DeadLetterPurged) -> None:
    """Remove the dead letter for good."""
    message = state.message(event.message)
    unschedule(state, message)
    del state.dead[message.seq]
    state.drop(message)
