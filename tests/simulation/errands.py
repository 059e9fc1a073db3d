"""Waiting of a kind that only the simulator has: agents wait for each other in every way that the graph knows."""

from typing import TYPE_CHECKING

from tests.ids import SeededIds
from tocsin.core.commands import SYSTEM, Done
from tocsin.core.decision import Decision
from tocsin.core.messages.endings.retention import trim
from tocsin.core.teamwork.reactions import react
from tocsin.core.waiting import waits
from tocsin.core.waiting.graph import Wait

if TYPE_CHECKING:
    from tests.simulation.world import World

__all__ = ["begin", "end", "end_all", "shift"]

_KIND = "simulated"


def _refuse(decision: Decision, wait: Wait, detail: str) -> None:
    waits.end_wait(decision, wait.kind, wait.ref, wait.waiter, "deadlock")


waits.BREAKERS[_KIND] = _refuse


def begin(world: "World") -> None:
    """Let somebody wait for others: for all of them, or for any."""
    rng, agents = world.rng, list(world.exchange.state.agents)
    if not world.errands or len(agents) < 2 or len(world.exchange.state.waits.waits) > 12:
        return
    waiter = rng.choice(agents)
    on = rng.sample(agents, rng.randint(1, min(3, len(agents))))
    if on == [waiter]:
        return
    decision = _turn(world)
    level, any_of = rng.randint(0, 4), rng.random() < 0.25
    waits.begin_wait(decision, waiter, _KIND, f"{world.steps}", on=on, level=level, any_of=any_of)
    _decided(world, decision, "begin_wait")


def shift(world: "World") -> None:
    """Let a wait be for others."""
    wait = _drawn(world)
    others = [agent for agent in world.exchange.state.agents if wait is not None and agent != wait.waiter]
    if wait is not None and others:
        decision = _turn(world)
        on = world.rng.sample(others, world.rng.randint(1, min(2, len(others))))
        waits.shift_wait(decision, _KIND, wait.ref, wait.waiter, on)
        _decided(world, decision, "shift_wait")


def end(world: "World") -> None:
    """Let a wait end."""
    wait = _drawn(world)
    if wait is not None:
        _end(world, wait)


def end_all(world: "World") -> None:
    """Let every such wait end: nobody has run these errands for long."""
    while (wait := _drawn(world)) is not None:
        _end(world, wait)


def _end(world: "World", wait: Wait) -> None:
    decision = _turn(world)
    waits.end_wait(decision, _KIND, wait.ref, wait.waiter)
    _decided(world, decision, "end_wait")


def _drawn(world: "World") -> Wait | None:
    waits = [wait for wait in world.exchange.state.waits.waits.values() if wait.kind == _KIND]
    return world.rng.choice(sorted(waits, key=lambda wait: wait.seq)) if waits else None


def _turn(world: "World") -> Decision:
    exchange = world.exchange
    world.latest = max(world.latest, world.now)
    return Decision(exchange.state, exchange.apply, SYSTEM, world.now, SeededIds(world.rng.randrange(2**32)))


def _decided(world: "World", decision: Decision, what: str) -> None:
    react(decision)
    trim(decision)
    world.twin.rebuild(world.exchange)
    world.keep(what, SYSTEM, decision.events, Done())
