"""What both loops share: a trace made ready, an exchange at its beginning, and what a replay comes to.

A trace is made ready once and replayed under many policies: its commands are immutable, its state is restored anew.
"""

from collections import deque
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec

from tocsin.core import commands as cmd
from tocsin.core.commands import SYSTEM, Caller, Command
from tocsin.core.errors import Problem
from tocsin.core.events import Event, decode_events
from tocsin.core.exchange import Exchange
from tocsin.core.policy import Policy, document_of
from tocsin.core.snapshot import Snapshot, restore
from tocsin.core.state import ProjectState
from tocsin.lab.traces.message_tracker import MessageHistory, MessageTracker, RefusedSend
from tocsin.lab.traces.recorder import track_open_messages
from tocsin.lab.traces.trace import APPLY, TICK, Trace, command_of, load_trace

__all__ = ["Ids", "PreparedTrace", "Replay", "begin", "prepared_trace", "without_schemas"]

_SNAPSHOT = msgspec.msgpack.Decoder(Snapshot)
_TICK = cmd.Tick()


class PreparedTrace:
    """A trace with its commands made."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        callers: dict[tuple[str, str], Caller] = {}
        self.commands: list[Command | None] = []
        self.callers: list[Caller] = []
        #: Events that only history knows of, by step.
        self.applied: dict[int, list[Event]] = {}
        for index, step in enumerate(trace.steps):
            self.callers.append(callers.setdefault((step.agent, step.role), Caller(step.agent, step.role)))
            if step.ask == APPLY:
                self.commands.append(None)
                self.applied[index] = decode_events(step.body["event"])
            elif step.ask == "AdoptPolicy":
                self.commands.append(cmd.AdoptPolicy(_without_schemas(step.body["policy"]), step.body["reason"]))
            else:
                self.commands.append(_TICK if step.ask == TICK else command_of(step))


class Replay(msgspec.Struct):
    """What a replay came to."""

    histories: list[MessageHistory]
    refused: list[RefusedSend]
    escalations: int
    #: Deadlocks that were broken.
    deadlocks: int
    #: Events that the exchange decided.
    events: int
    #: Commands that it was asked.
    decisions: int
    #: Commands that it refused, sends aside: the agent's session was gone, its message not there.
    missed: int
    #: Steps whose events came out exactly as recorded; open loop only.
    exact: int = 0
    #: The first step that did not: its number, and what it was.
    differs: str = ""
    #: Agents by role at the end.
    roles: dict[str, str] = {}


class Ids:
    """Ids as recorded, as far as a step has them; else new ones, the same in every run."""

    def __init__(self) -> None:
        self._given: deque[str] = deque()
        self._count = 0

    def load(self, given: tuple[str, ...]) -> None:
        """Give the ids of a step next."""
        self._given = deque(given)

    def fresh(self, prefix: str, now: int) -> str:
        """Return the recorded id of that kind, or a new one."""
        for index, name in enumerate(self._given):
            if name.startswith(prefix):
                del self._given[index]
                return name
        self._count += 1
        return f"{prefix}_lab_{self._count:08d}"


@lru_cache(maxsize=2)
def prepared_trace(path: Path) -> PreparedTrace:
    """Read a trace and make it ready; the last ones stay at hand, for the next policy."""
    return PreparedTrace(load_trace(path))


def without_schemas(policy: Policy) -> dict[str, Any]:
    """Return a policy's document without payload schemas: history has passed them, and stand-ins need not."""
    document: dict[str, Any] = document_of(policy)
    return _without_schemas(document)


def _without_schemas(document: dict[str, Any]) -> dict[str, Any]:
    contracts = {name: row | {"payload": None} for name, row in document["contracts"].items()}
    custom = document["custom_contract"] | {"payload": None}
    return document | {"contracts": contracts, "custom_contract": custom}


def begin(trace: Trace, policy: dict[str, Any] | None, ids: Ids) -> tuple[Exchange, MessageTracker]:
    """Return an exchange as the window finds it, under another policy where one is given."""
    state = ProjectState()
    if trace.snapshot:
        kept = _SNAPSHOT.decode(trace.snapshot)
        state = restore(msgspec.structs.replace(kept, policy=_without_schemas(kept.policy)))
    exchange = Exchange(ids, state)
    tracker = MessageTracker()
    track_open_messages(tracker, state)
    if policy is not None and state.has_policy:
        outcome = exchange.handle(cmd.AdoptPolicy(policy, "lab"), SYSTEM, trace.begins_at)
        if isinstance(outcome.reply, Problem):
            raise AssertionError(outcome.reply.detail)
    return exchange, tracker
