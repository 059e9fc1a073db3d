"""What could not be delivered: why, how often it was tried, when first and last; and the way back (APM §3.5, §4.2)."""

from tocsin.core import events as ev
from tocsin.core.agents.presence import presence
from tocsin.core.commands import SYSTEM, Redrive, Redriven
from tocsin.core.decision import Turn
from tocsin.core.errors import Problem, refusal
from tocsin.core.messages.delivery import land, note_failure, pump
from tocsin.core.messages.model import NEVER, Message, State
from tocsin.core.messages.notices import report_death
from tocsin.core.scheduling import arm, disarm, move
from tocsin.core.state import ProjectState
from tocsin.core.waiting.inheritance import relevel

__all__ = ["apply_died", "apply_purged", "apply_redriven", "decide_redrive", "die", "fire_dead", "was_refused"]


def die(turn: Turn, message: Message, reason: str, code: str, detail: str, *, report: bool = True) -> None:
    """Move a message to the dead letters and tell its sender."""
    turn.emit(ev.MessageDied(turn.now, message.seq, reason, code, message.attempts, detail))
    if report and message.sender != SYSTEM.agent:
        report_death(turn, message, code, detail)
    while len(turn.state.dead) > turn.policy.limits.dead_letters_max:
        turn.emit(ev.DeadLetterPurged(turn.now, next(iter(turn.state.dead)), "limit"))


def decide_redrive(turn: Turn, command: Redrive) -> Redriven:
    """Queue dead letters again: a director's any, a sender's own."""
    limit = turn.policy.limits.batch_max
    if len(command.signal_ids) > limit:
        raise refusal("E_ADMISSION_008", f"at most {limit} dead letters at a time", retryable=False)
    redriven: list[str] = []
    refused: dict[str, Problem] = {}
    for signal in command.signal_ids:
        letters = [copy for copy in turn.state.copies_of(signal) if turn.directs() or copy.sender == turn.caller.agent]
        dead = [copy for copy in letters if copy.state is State.DEAD]
        if not letters:
            refused[signal] = Problem("E_STATE_001", f"{signal} is not there, or not yours")
        elif not dead:
            refused[signal] = Problem("E_STATE_002", f"{signal} is {letters[0].state}, not dead")
        elif not turn.directs() and any(was_refused(turn.state, copy) for copy in dead):
            refused[signal] = Problem("E_AUTH_003", f"a director refused {signal}: only a director may redrive it")
        elif any(copy.recipient not in turn.state.agents for copy in dead):
            refused[signal] = Problem("E_ROUTING_001", f"the recipient of {signal} is no longer registered")
        else:
            for copy in dead:
                _redrive(turn, copy)
            redriven.append(signal)
    return Redriven(tuple(redriven), refused)


def was_refused(state: ProjectState, message: Message) -> bool:
    """Tell whether a director refused a message when it last died."""
    failure = state.failures.get(message.seq)
    return failure is not None and failure.reason == "approval_refused"


def _redrive(turn: Turn, message: Message) -> None:
    agent = turn.state.agents[message.recipient]
    expires_at = turn.now + message.expires_at - message.enqueued_at
    state = presence(agent, turn.policy, turn.now)
    turn.emit(ev.DeadLetterRedriven(turn.now, message.seq, turn.caller.agent, expires_at, state))
    pump(turn, agent)


def fire_dead(turn: Turn, seq: int) -> None:
    """Purge a dead letter that nobody wanted for too long."""
    message = turn.state.messages.get(seq)
    if message is None or message.state is not State.DEAD:
        return
    due = message.dead_at + turn.policy.retention.dead_us
    if turn.now < due:
        turn.state.timers.dead.schedule(seq, due)
    else:
        turn.emit(ev.DeadLetterPurged(turn.now, seq, "age"))


def apply_died(state: ProjectState, event: ev.MessageDied) -> None:
    """Lay it down."""
    message = move(state, event.message, ev.MessageDied)
    land(state, message)
    message.dead_at = event.at
    message.offered_at = message.delivered_at = NEVER
    message.backing_off = False
    note_failure(state, message.seq, event.at, event.reason, event.code)
    state.dead[message.seq] = None
    arm(state, message)


def apply_redriven(state: ProjectState, event: ev.DeadLetterRedriven) -> None:
    """Queue it as if it were new, at its old place in line."""
    message = move(state, event.message, ev.DeadLetterRedriven)
    del state.dead[message.seq]
    message.dead_at = NEVER
    message.enqueued_at = event.at
    message.expires_at = event.expires_at
    message.own_level = message.priority
    relevel(state, message)
    message.attempts = message.boosts = 0
    message.overdue = False
    arm(state, message)


def apply_purged(state: ProjectState, event: ev.DeadLetterPurged) -> None:
    """Drop it for good."""
    message = state.message(event.message)
    disarm(state, message)
    del state.dead[message.seq]
    state.drop(message)
