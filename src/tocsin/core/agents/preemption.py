"""The decision whether a message interrupts a busy agent or waits, as a function of levels and status.

It does not depend on sessions, commands or timers. Delivery calls it before each push.
"""

from enum import StrEnum

from tocsin.core import events as ev
from tocsin.core.decision import Decision
from tocsin.core.messages.message import Message
from tocsin.core.messages.model import State
from tocsin.core.protocol.priority import Priority
from tocsin.core.state import ProjectState
from tocsin.core.teamwork.model import Attention

__all__ = [
    "ENDED",
    "Status",
    "Verdict",
    "interrupt",
    "interrupter_of",
    "is_held_back",
    "judge",
    "may_deliver",
    "status_of",
]

#: States of a message that nobody can work on any more.
ENDED = frozenset({State.PROCESSED, State.EXPIRED, State.RECALLED, State.DEAD})


class Status(StrEnum):
    """Status of an agent, as far as it reported."""

    IDLE = "idle"
    PROCESSING = "processing"
    PAUSE_POINT = "pause_point"


class Verdict(StrEnum):
    """Decision on one message for one agent."""

    #: Deliver now.
    DELIVER = "deliver"
    #: Deliver now; the agent should put its work aside.
    INTERRUPT = "interrupt"
    #: Deliver at the next pause point, or when the agent is idle.
    WAIT_PAUSE = "wait_pause"
    #: Deliver when the agent is idle.
    WAIT_TURN = "wait_turn"


def judge(level: int, status: Status, work_level: int, *, interruptible: bool) -> Verdict:
    """Decide on a message of one level for an agent whose work has another level."""
    if status is Status.IDLE:
        return Verdict.DELIVER
    if level == Priority.DIRECTOR_OVERRIDE:
        return Verdict.INTERRUPT
    preempts = Priority(level).can_preempt(Priority(work_level))
    if status is Status.PAUSE_POINT:
        if preempts:
            return Verdict.INTERRUPT
        return Verdict.DELIVER if level == Priority.CRITICAL else Verdict.WAIT_TURN
    if level == Priority.CRITICAL:
        return Verdict.INTERRUPT if preempts and interruptible else Verdict.WAIT_PAUSE
    return Verdict.WAIT_PAUSE if preempts else Verdict.WAIT_TURN


def status_of(attention: Attention | None) -> Status:
    """Return the status of an agent; one that reports nothing is idle."""
    if attention is None or attention.work is None:
        return Status.IDLE
    return Status.PAUSE_POINT if attention.paused else Status.PROCESSING


def interrupter_of(state: ProjectState, attention: Attention) -> Message | None:
    """Return the message that interrupts an agent; null if there is none or it has ended."""
    message = state.messages.get(attention.interrupted_by)
    return None if message is None or message.state in ENDED else message


def is_held_back(attention: Attention | None, level: int) -> bool:
    """Return whether a message of a level waits until a busy agent pauses or is idle."""
    if attention is None or attention.work is None:
        return False
    verdict = judge(level, status_of(attention), attention.work.level, interruptible=attention.work.interruptible)
    return verdict not in (Verdict.DELIVER, Verdict.INTERRUPT)


def may_deliver(decision: Decision, attention: Attention, message: Message) -> bool:
    """Return whether a message may be pushed to a busy agent now; record the interrupt if it does."""
    work = attention.work
    if work is None:
        return True
    status = status_of(attention)
    verdict = judge(message.level, status, work.level, interruptible=work.interruptible)
    if verdict is Verdict.INTERRUPT and interrupter_of(decision.state, attention) is None:
        interrupt(decision, attention, message)
    return verdict in (Verdict.DELIVER, Verdict.INTERRUPT)


def interrupt(decision: Decision, attention: Attention, message: Message) -> None:
    """Record that a message interrupts an agent's work, and by which rule."""
    work = attention.work
    if work is None:
        return
    if message.level == Priority.DIRECTOR_OVERRIDE:
        rule = "override"
    else:
        rule = "pause_point" if attention.paused else "interruptible"
    decision.emit(
        ev.InterruptRaised(decision.now, attention.agent, work.message, work.level, message.seq, message.level, rule)
    )
