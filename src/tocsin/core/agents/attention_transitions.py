"""State changes of an agent's attention, one function for each event."""

from tocsin.core import events as ev
from tocsin.core.errors import InvariantViolation
from tocsin.core.messages.model import NEVER
from tocsin.core.state import ProjectState
from tocsin.core.teamwork.model import Attention, Work

__all__ = [
    "DEADLINE_KIND",
    "apply_begun",
    "apply_continued",
    "apply_finished",
    "apply_interrupt",
    "apply_interrupt_ended",
    "apply_lapsed",
    "apply_paused",
    "apply_put_aside",
    "apply_resumed",
]

DEADLINE_KIND = "attention"


def _of(state: ProjectState, agent: str, work: int) -> tuple[Attention, Work]:
    attention = state.attention.get(agent)
    if attention is None or attention.work is None or attention.work.message != work:
        raise InvariantViolation(f"an event names message {work} as the work of {agent}, which is not its work")
    return attention, attention.work


def _set_deadline(state: ProjectState, attention: Attention, due_at: int) -> None:
    state.timers.deadlines.cancel(f"{DEADLINE_KIND} {attention.agent}", attention.due_at)
    attention.due_at = due_at
    if due_at != NEVER:
        state.timers.deadlines.schedule(f"{DEADLINE_KIND} {attention.agent}", due_at)


def _become_idle(state: ProjectState, attention: Attention) -> None:
    """Make an agent idle; remove its entry if it has put nothing aside."""
    attention.work = None
    attention.paused = False
    attention.interrupted_by = NEVER
    _set_deadline(state, attention, NEVER)
    if not attention.aside:
        del state.attention[attention.agent]


def apply_begun(state: ProjectState, event: ev.WorkBegun) -> None:
    """Make the agent busy."""
    attention = state.attention.get(event.agent)
    if attention is None:
        attention = state.attention[event.agent] = Attention(event.agent, aside=[])
    if attention.work is not None:
        attention.work.interruptible = event.interruptible
    else:
        attention.work = Work(event.work, event.message_id, event.level, event.interruptible, event.at)
    attention.paused = False
    _set_deadline(state, attention, event.due_at)


def apply_paused(state: ProjectState, event: ev.PausePointReached) -> None:
    """Record that the agent is at a pause point."""
    attention, _ = _of(state, event.agent, event.work)
    attention.paused = True
    _set_deadline(state, attention, event.due_at)


def apply_continued(state: ProjectState, event: ev.WorkContinued) -> None:
    """Record that the agent continues its work; the interrupt is over."""
    attention, _ = _of(state, event.agent, event.work)
    attention.paused = False
    attention.interrupted_by = NEVER
    _set_deadline(state, attention, event.due_at)


def apply_interrupt(state: ProjectState, event: ev.InterruptRaised) -> None:
    """Record the message that interrupts."""
    attention, _ = _of(state, event.agent, event.work)
    attention.interrupted_by = event.by


def apply_interrupt_ended(state: ProjectState, event: ev.InterruptEnded) -> None:
    """Clear the interrupt; an agent at a pause point stays there."""
    attention, _ = _of(state, event.agent, event.work)
    attention.interrupted_by = NEVER


def apply_put_aside(state: ProjectState, event: ev.WorkPutAside) -> None:
    """Store the saved data and begin the message that interrupted."""
    attention, work = _of(state, event.agent, event.work)
    work.saved = event.saved
    work.resumed = work.resumed and event.reason == "detached"
    attention.aside.append(work)
    if event.instead == NEVER:
        _become_idle(state, attention)
        return
    attention.work = Work(event.instead, event.instead_id, event.instead_level, interruptible=True, began_at=event.at)
    attention.paused = False
    attention.interrupted_by = NEVER
    _set_deadline(state, attention, event.due_at)


def apply_resumed(state: ProjectState, event: ev.WorkResumed) -> None:
    """Move the work back from the works put aside."""
    attention = state.attention[event.agent]
    work = next(aside for aside in attention.aside if aside.message == event.work)
    attention.aside.remove(work)
    work.resumed = True
    attention.work = work
    _set_deadline(state, attention, event.due_at)


def apply_finished(state: ProjectState, event: ev.WorkFinished) -> None:
    """Make the agent idle."""
    attention, _ = _of(state, event.agent, event.work)
    _become_idle(state, attention)


def apply_lapsed(state: ProjectState, event: ev.AttentionLapsed) -> None:
    """Put the work aside and make the agent idle."""
    attention, work = _of(state, event.agent, event.work)
    attention.aside.append(work)
    _become_idle(state, attention)
