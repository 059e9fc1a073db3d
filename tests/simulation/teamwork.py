"""How a random team coordinates: what it does, and what must hold of it.

The actions are drawn beside those of the world; `Accounts` follows the events on its own, beside the ledger.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from tests.simulation.promises import must
from tocsin.core import commands as cmd
from tocsin.core import events as ev
from tocsin.core.commands import Command
from tocsin.core.escalation_paths import PATHS
from tocsin.core.events import Event
from tocsin.core.message import State
from tocsin.core.state import ProjectState

if TYPE_CHECKING:
    from tests.simulation.world import World

__all__ = ["ACTIONS", "Accounts"]


def begin_work(world: "World") -> None:
    """Let somebody begin to work on something that it has, or has not."""
    caller = world.somebody()
    messages = world.exchange.state.messages.values()
    mine = [m.message_id for m in messages if m.recipient == caller.agent and m.state is not State.QUEUED]
    chosen = world.rng.choice(mine) if mine else "msg_none_0"
    world.ask(cmd.BeginWork(chosen, world.rng.random() < 0.6), caller)


def go_on_with_work(world: "World") -> None:
    """Let somebody say something of its work; mostly somebody who has some."""
    busy = [name for name in world.exchange.state.attention if name in world.callers]
    caller = world.callers[world.rng.choice(busy)] if busy and world.rng.random() < 0.9 else world.somebody()
    attention = world.exchange.state.attention.get(caller.agent)
    saved = {} if attention is None else {aside.message_id: aside.saved for aside in attention.aside}
    idle = attention is None or attention.work is None
    command: Command = world.rng.choice(
        (
            cmd.ReachPausePoint(),
            cmd.ReachPausePoint(stay=True),
            cmd.PutAside(world.rng.randbytes(world.rng.choice((0, 3, 40)))),
            cmd.ResumeWork(),
            cmd.ResumeWork(world.rng.choice([*saved, "msg_none_0"])),
            cmd.FinishWork(world.rng.random() < 0.8),
        )
    )
    reply = world.ask(command, caller)
    if isinstance(reply, cmd.Resumed) and idle:
        must(reply.saved == saved[reply.message_id], f"{caller.agent} got back something else than it saved")


def look_after(world: "World") -> None:
    """Let somebody resolve an escalation or bring it before a human; mostly somebody who may."""
    known = list(world.exchange.state.escalations)
    chosen = world.rng.choice(known) if known else "esc_none_0"
    command: Command = world.rng.choice((cmd.ResolveEscalation(chosen, "seen to"), cmd.EscalateToHuman(chosen, "help")))
    world.ask(command, world.somebody())


class Accounts:
    """What was promised in coordinating, and how far it has been kept."""

    def __init__(self) -> None:
        #: Works put aside and not yet given back, by agent.
        self.aside: dict[str, list[int]] = {}
        #: What has set off an escalation.
        self.causes: set[str] = set()

    def follow(self, event: Event, state: ProjectState) -> None:
        """Check an event against the state before it."""
        match event:
            case ev.WorkPutAside() | ev.AttentionLapsed():
                self.aside.setdefault(event.agent, []).append(event.work)
            case ev.WorkResumed():
                must(event.work in self.aside.get(event.agent, []), f"{event.agent} got work back twice: {event.work}")
                self.aside[event.agent].remove(event.work)
            case ev.AgentRetired():
                self.aside.pop(event.agent, None)
            case ev.InterruptRaised():
                allowed = event.level == 4 or event.level > event.work_level + 1
                must(allowed, f"level {event.level} interrupted work of level {event.work_level}")
            case ev.EscalationOpened():
                must(event.cause not in self.causes, f"{event.cause} was escalated twice")
                self.causes.add(event.cause)
            case ev.EscalationMoved():
                arrow = (event.old_state, event.step, event.new_state)
                must(arrow in _ARROWS, f"{event.escalation} moved as no table says: {arrow}")
            case _:
                pass

    def check(self, state: ProjectState) -> None:
        """Check what must hold between steps."""
        for name, attention in state.attention.items():
            must(name in state.agents, f"{name} is gone and still busy")
            must(attention.work is not None or bool(attention.aside), f"{name} attends to nothing")
            must(attention.work is None or bool(attention.due_at), f"{name} may be busy for ever")
        self._check_escalations(state)
        aside = {name: works for name, works in self.aside.items() if works}
        kept = {
            name: [work.message for work in attention.aside]
            for name, attention in state.attention.items()
            if attention.aside
        }
        must(aside == kept, f"work put aside was lost: {aside} became {kept}")

    def _check_escalations(self, state: ProjectState) -> None:
        for name, escalation in state.escalations.items():
            is_open = escalation.state != "normal"
            must(is_open is (name in state.open_escalations), f"{name} is {escalation.state} and counted wrongly")
            must(not is_open or bool(escalation.due_at), f"{name} is open and nobody will look at it")
        must(state.causes.keys() == {known.cause for known in state.escalations.values()}, "causes were mixed up")


_ARROWS = {(route.before, route.step, route.after) for route in PATHS}

ACTIONS: tuple[tuple[Callable[["World"], None], float], ...] = (
    (begin_work, 4),
    (go_on_with_work, 6),
    (look_after, 1.5),
)
