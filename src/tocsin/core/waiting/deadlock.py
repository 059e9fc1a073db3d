"""Deadlock breaking: a cycle of waits is broken in the decision that closes it.

The victim is the agent of the lowest priority, then the one with the youngest wait. In a cycle everyone inherits from
everyone, so an agent's priority here is that of its own wait and of what it inherits from outside the cycle. The
victim's wait is refused, and what it holds that the cycle waits for is released, so that the one before it can go on.
The victim is notified of the reason; the directors are notified of the whole cycle.
"""

from collections.abc import Callable, Sequence
from itertools import islice

from tocsin.core import events as ev
from tocsin.core.decision import Decision
from tocsin.core.messages.notices import directors, notify
from tocsin.core.protocol.priority import Priority, priority_name
from tocsin.core.waiting.graph import Wait, WaitGraph
from tocsin.core.waiting.waits import BREAKERS

__all__ = ["break_deadlock", "cycle_text"]

#: Agents of a cycle named in a sentence; the event and the notice have them all.
_SHOWN = 8

#: Releases what an agent holds that another agent's wait is for.
Release = Callable[[Decision, str, Wait, str], None]


def break_deadlock(decision: Decision, release: Release, *, places: bool) -> bool:
    """Break one deadlock, if a new wait closed one; return whether there was one.

    With `places`, look for one that includes places in a lease queue. Inherited priority changes places, so it must be
    settled before.
    """
    graph = decision.state.waits
    cycle = graph.find_queue_deadlock() if places else graph.find_deadlock()
    if cycle:
        _break(decision, cycle, release)
    return bool(cycle)


def _break(decision: Decision, cycle: list[Wait], release: Release) -> None:
    graph = decision.state.waits
    # The cycle begins with its newest wait. Where the search came upon it is different in a rebuilt state.
    newest = max(range(len(cycle)), key=lambda index: cycle[index].seq)
    cycle = cycle[newest:] + cycle[:newest]
    members = {wait.waiter for wait in cycle}
    levels = [_own_level(graph, wait, members) for wait in cycle]
    place = min(range(len(cycle)), key=lambda index: (levels[index], -cycle[index].seq))
    victim = cycle[place]
    names = [wait.waiter for wait in cycle]
    detail = (
        f"deadlock: {cycle_text(names)}; the wait of {victim.waiter} was refused, at {priority_name(levels[place])}"
    )
    decision.emit(
        ev.DeadlockFound(
            decision.now,
            tuple(names),
            tuple(wait.label for wait in cycle),
            tuple(levels),
            victim.waiter,
            victim.label,
        )
    )
    _notify(decision, cycle, levels, victim, detail)
    BREAKERS[victim.kind](decision, victim, detail)
    for wait in cycle:
        if victim.waiter in wait.on and wait.key in graph.waits:
            release(decision, victim.waiter, wait, detail)


def cycle_text(names: Sequence[str]) -> str:
    """Return a cycle as text; for a long one, its beginning and end."""
    shown = [*names] if len(names) <= _SHOWN else [*names[: _SHOWN - 2], f"… {len(names) - _SHOWN + 1} more", names[-1]]
    return " → ".join([*shown, names[0]])


def _own_level(graph: WaitGraph, wait: Wait, members: set[str]) -> int:
    """Return the priority of an agent in a cycle: its own, and what it inherits from outside the cycle."""
    mine, upon = graph.by_waiter[wait.waiter], graph.upon.get(wait.waiter, {})
    level = wait.level if len(mine) == 1 else max([each.level for each in mine.values()])
    if len(upon) == 1 and next(iter(upon.values())).waiter in members:
        return level  # no other agent waits for it, as in the middle of a long cycle
    pending = [wait.waiter]
    seen: set[str] = set()
    for agent in pending:
        for lender in graph.upon.get(agent, {}).values():
            if lender.waiter not in members:
                level = max(level, lender.level)
                if lender.waiter not in seen:
                    seen.add(lender.waiter)
                    pending.append(lender.waiter)
    return level


def _notify(decision: Decision, cycle: list[Wait], levels: list[int], victim: Wait, detail: str) -> None:
    payload = {
        "errorType": "DependencyError",
        "errorCode": "E_LEASE_004",
        "errorMessage": detail,
        "severity": "high",
        "context": {
            "victim": victim.waiter,
            "refused": victim.label,
            "size": len(cycle),
            "cycle": [
                {"agent": wait.waiter, "waitsFor": wait.label, "of": sorted(wait.on), "priority": priority_name(level)}
                for wait, level in islice(zip(cycle, levels, strict=True), decision.policy.limits.batch_max)
            ],
        },
        "recoverable": True,
        "suggestedAction": "release what you hold, then request it again",
    }
    notified = [agent for agent in directors(decision) if agent.agent != victim.waiter]
    mine = decision.state.agents.get(victim.waiter)
    for agent in [mine, *notified] if mine is not None else notified:
        if agent is mine:
            notify(decision, agent, "ERROR_REPORT", payload, Priority.BLOCKING)
        else:
            payer = decision.caller.agent
            notify(decision, agent, "ERROR_REPORT", payload, Priority.BLOCKING, payer=payer, subject="deadlocks")
