"""What must hold of waiting after every step, worked out anew from the waits and the leases alone."""

from tests.simulation.promises import must
from tocsin.core.priority import Priority
from tocsin.core.state import ProjectState

__all__ = ["check_coordination"]


def check_coordination(live: ProjectState) -> None:
    """Check that nobody waits in vain, and that everybody has inherited exactly what the waits amount to."""
    _check_no_deadlock(live)
    _check_inheritance(live)
    _check_messages(live)


def _check_no_deadlock(live: ProjectState) -> None:
    waits = list(live.waits.waits.values())
    stuck = {wait.waiter for wait in waits}
    moved = True
    while moved:
        moved = False
        for agent in sorted(stuck):
            mine = [wait for wait in waits if wait.waiter == agent]
            if all(_can_end(set(wait.on), wait.behind, wait.any_of, stuck) for wait in mine):
                stuck.discard(agent)
                moved = True
    must(not stuck, f"a deadlock survived the decision: {sorted(stuck)}")


def _can_end(on: set[str], behind: frozenset[str], any_of: bool, stuck: set[str]) -> bool:
    if any_of:
        return not on or bool(on - stuck)
    return not (on | behind) & stuck


def _check_inheritance(live: ProjectState) -> None:
    levels: dict[str, int] = {}
    changed = True
    while changed:
        changed = False
        for wait in live.waits.waits.values():
            lent = max(wait.level, levels.get(wait.waiter, -1))
            for agent in wait.on:
                if lent > levels.get(agent, -1):
                    levels[agent] = lent
                    changed = True
    must(live.inherited == levels, f"inherited is {live.inherited}, the waits amount to {levels}")


def _check_messages(live: ProjectState) -> None:
    for message in live.messages.values():
        if not message.lent:
            must(message.level == message.own_level, f"message {message.seq} is raised and nobody lends it anything")
        lenders = [message.sender] * (message.lent & 1) + [message.recipient] * (message.lent >> 1)
        lent = [min(live.inherited[agent], Priority.CRITICAL) for agent in lenders]
        level = max([message.own_level, *lent])
        must(message.level == level, f"message {message.seq} counts at {message.level}, not at {level}")
