"""Beginning, changing and ending of waits; the graph itself is `tocsin.core.waiting.graph`.

The module that owns a kind of wait (leases, requests, discussions, approvals) begins and ends its waits here and
registers in `BREAKERS` a function that refuses one of them. `tocsin.core.waiting.resolution` settles the effects of a
wait (a deadlock, inherited priority) before the decision ends.
"""

from collections.abc import Callable, Iterable

from tocsin.core import events as ev
from tocsin.core.decision import Decision
from tocsin.core.errors import InvariantViolation
from tocsin.core.protocol.priority import Priority
from tocsin.core.scheduling import schedule_wait, wait_due
from tocsin.core.state import ProjectState
from tocsin.core.waiting.graph import Wait, wait_key

__all__ = [
    "BREAKERS",
    "Breaker",
    "apply_wait_began",
    "apply_wait_ended",
    "apply_wait_raised",
    "apply_wait_shifted",
    "awaited",
    "begin_wait",
    "end_wait",
    "end_waits_of",
    "raise_wait",
    "shift_wait",
    "waits_for",
]

#: Refuses a wait to break a deadlock: ends it and whatever it was for. The caller notifies the waiter; the text is the
#: reason.
Breaker = Callable[[Decision, Wait, str], None]

#: Breaker of each kind of wait, registered by the module that owns the kind.
BREAKERS: dict[str, Breaker] = {}


def awaited(state: ProjectState, wait: Wait) -> str:
    """Name what an agent waits for: the resources of a lease, otherwise the kind and id."""
    request = state.leases.queue.get(wait.ref) if wait.kind == "lease" else None
    return wait.label if request is None else ", ".join(claim.resource for claim in request.claims)


def begin_wait(
    decision: Decision, waiter: str, kind: str, ref: str, *, on: Iterable[str], level: int, any_of: bool = False
) -> None:
    """Make an agent wait for others: for all of them, or for any one of them."""
    decision.emit(ev.WaitBegan(decision.now, waiter, kind, ref, tuple(sorted({*on} - {waiter})), any_of, level))


def shift_wait(decision: Decision, kind: str, ref: str, waiter: str, on: Iterable[str]) -> None:
    """Replace the agents that a wait is for; nothing happens if they are the same."""
    wait = decision.state.waits.waits[wait_key(kind, ref, waiter)]
    wanted = tuple(sorted({*on} - {waiter}))
    if wanted != tuple(sorted(wait.on)):
        decision.emit(ev.WaitShifted(decision.now, waiter, kind, ref, wanted))


def raise_wait(decision: Decision, wait: Wait, levels: int) -> None:
    """Raise a wait by some levels, at most to Critical; one that is higher already stays."""
    level = Priority(wait.level).boost(levels)
    if level > wait.level:
        decision.emit(ev.WaitRaised(decision.now, wait.waiter, wait.kind, wait.ref, level))


def end_wait(decision: Decision, kind: str, ref: str, waiter: str, reason: str = "served") -> bool:
    """End a wait; return whether there was one."""
    if wait_key(kind, ref, waiter) not in decision.state.waits.waits:
        return False
    decision.emit(ev.WaitEnded(decision.now, waiter, kind, ref, reason))
    return True


def end_waits_of(decision: Decision, waiter: str, reason: str) -> None:
    """End all waits of an agent but those for leases, which end with their requests."""
    for wait in list(decision.state.waits.by_waiter.get(waiter, {}).values()):
        if wait.kind != "lease":
            end_wait(decision, wait.kind, wait.ref, waiter, reason)


def waits_for(state: ProjectState, kind: str, ref: str) -> list[Wait]:
    """Return the waits for a thing, oldest first."""
    found = [wait for wait in state.waits.waits.values() if wait.kind == kind and wait.ref == ref]
    return sorted(found, key=lambda wait: wait.seq)


def apply_wait_began(state: ProjectState, event: ev.WaitBegan) -> None:
    """Add the wait."""
    key = wait_key(event.wait_kind, event.ref, event.waiter)
    if key in state.waits.waits:
        raise InvariantViolation(f"the wait {key} already exists")
    on = dict.fromkeys(event.on, 1)
    wait = Wait(event.waiter, event.wait_kind, event.ref, event.at, event.level, state.seq, event.any_of, on)
    state.waits.add(wait)
    schedule_wait(state, wait)


def apply_wait_shifted(state: ProjectState, event: ev.WaitShifted) -> None:
    """Replace the agents that it is for."""
    state.waits.shift(_wait(state, event), event.on)


def apply_wait_raised(state: ProjectState, event: ev.WaitRaised) -> None:
    """Change its level and schedule its escalation by the new level."""
    wait = _wait(state, event)
    due = wait_due(state, wait)
    if due is not None:
        state.timers.deadlines.cancel(f"wait {wait.key}", due)
    state.waits.raise_to(wait, event.level)
    if wait.kind == "lease":
        state.leases.raise_to(wait.ref, event.level)
    schedule_wait(state, wait)


def apply_wait_ended(state: ProjectState, event: ev.WaitEnded) -> None:
    """Remove the wait."""
    state.waits.drop(_wait(state, event))


def _wait(state: ProjectState, event: ev.WaitShifted | ev.WaitRaised | ev.WaitEnded) -> Wait:
    wait = state.waits.waits.get(wait_key(event.wait_kind, event.ref, event.waiter))
    if wait is None:
        raise InvariantViolation(f"an event names the wait {event.wait_kind}:{event.ref}, which does not exist")
    return wait
