"""Common parts of both loops: a prepared trace, the exchange at its start, and the result of a replay.

A trace is prepared once and replayed under many policies: its commands are immutable, and its state is restored for
each replay.
"""

from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import msgspec

from tocsin.core import commands as cmd
from tocsin.core.commands import SYSTEM, Caller, Command
from tocsin.core.errors import Problem
from tocsin.core.events import Event, decode_events
from tocsin.core.exchange import Exchange
from tocsin.core.policy import Policy, document_of
from tocsin.core.snapshot import Snapshot, restore
from tocsin.core.state import ProjectState
from tocsin.lab.traces.message_history import MessageHistory, RefusedSend
from tocsin.lab.traces.message_tracker import MessageTracker
from tocsin.lab.traces.recorder import track_open_messages
from tocsin.lab.traces.step_commands import command_of
from tocsin.lab.traces.trace import APPLY, TICK, Trace, load_trace

__all__ = ["PART_BITS", "Ids", "PreparedTrace", "Replay", "begin", "prepared_trace", "without_schemas"]

#: Low bits of a waiting step that tell which of its anchors it is.
PART_BITS: Final = 24
_SNAPSHOT: Final = msgspec.msgpack.Decoder(Snapshot)
_TICK: Final = cmd.Tick()
#: Commands that a replay changes, or that something follows from in it.
_SPECIAL: Final = frozenset({"ReportWaker", "Drain"})


class PreparedTrace:
    """A trace with its commands decoded, and with what waits for what in the closed loop."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        callers: dict[str, dict[str, Caller]] = {}
        self.commands: list[Command | None] = []
        self.callers: list[Caller] = []
        #: Events that are applied as recorded, by step.
        self.applied: dict[int, list[Event]] = {}
        #: Whether a step is a command that is run as recorded, by step.
        self.plain: list[bool] = []
        #: Steps without an anchor.
        self.roots: list[int] = []
        #: Steps that wait for an anchor, each with the place of the anchor among its own in the low `PART_BITS`.
        self.waiting: dict[str, list[int]] = {}
        #: Steps that wait for the previous drain of a session.
        self.drains: dict[str, list[int]] = {}
        #: Steps and messages that others wait for: most have none, so that no anchor is written for them.
        self.awaited_steps: set[int] = set()
        self.awaited_messages: set[str] = set()
        #: Recorded ticks, and their times.
        self.ticks: list[int] = []
        self.tick_times: list[int] = []
        #: Recipient and number of offers of each recorded message.
        self.known: dict[str, tuple[str, int]] = {
            history.signal: (history.recipient, history.offers) for history in trace.histories
        }
        for index, step in enumerate(trace.steps):
            ask, agent, role = step.ask, step.agent, step.role
            roles = callers.get(agent)
            if roles is None:
                roles = callers[agent] = {}
            caller = roles.get(role)
            if caller is None:
                caller = roles[role] = Caller(agent, role)
            self.callers.append(caller)
            plain = False
            if ask == APPLY:
                self.commands.append(None)
                self.applied[index] = decode_events(step.body["event"])
            elif ask == "AdoptPolicy":
                self.commands.append(cmd.AdoptPolicy(_without_schemas(step.body["policy"]), step.body["reason"]))
            elif ask == TICK:
                self.commands.append(_TICK)
                self.ticks.append(index)
                self.tick_times.append(step.at)
            else:
                self.commands.append(command_of(step))
                plain = ask not in _SPECIAL and not step.polls
            self.plain.append(plain)
            if ask != TICK:
                self._place(index, step.after)

    def _place(self, index: int, after: tuple[str, ...]) -> None:
        """Note what a step waits for."""
        if not after:
            self.roots.append(index)
        part = 0
        for anchor in after:
            place = index << PART_BITS | part
            part += 1
            if anchor.startswith("d "):
                self.drains.setdefault(anchor[2:], []).append(index)
                continue
            waiting = self.waiting.get(anchor)
            if waiting is not None:
                waiting.append(place)
                continue
            self.waiting[anchor] = [place]
            if anchor.startswith("s "):
                self.awaited_steps.add(int(anchor[2:]))
            elif anchor.startswith("a "):
                self.awaited_messages.add(anchor[2:])


class Replay(msgspec.Struct):
    """Result of a replay."""

    histories: list[MessageHistory]
    refused: list[RefusedSend]
    escalations: int
    #: Deadlocks found and resolved.
    deadlocks: int
    #: Number of events.
    events: int
    #: Number of commands.
    decisions: int
    #: Refused commands, without sends; for example because a session had ended or a message did not exist.
    missed: int
    #: Steps whose events are identical to the recorded ones; open loop only.
    exact: int = 0
    #: Description of the first step whose events differ.
    differs: str = ""
    #: Times of the changes of the decay rate.
    rate_changes: list[int] = []
    #: Role of each agent at the end.
    roles: dict[str, str] = {}


class Ids:
    """Source of ids: the recorded ids of a step, then new ones that are the same in every run."""

    def __init__(self) -> None:
        self._given: list[str] = []
        self._count = 0

    def load(self, given: tuple[str, ...]) -> None:
        """Set the recorded ids of the next step."""
        if given or self._given:
            self._given = list(given)

    def fresh(self, prefix: str, now: int) -> str:
        """Return the recorded id with that prefix, or a new one."""
        for index, name in enumerate(self._given):
            if name.startswith(prefix):
                del self._given[index]
                return name
        self._count += 1
        return f"{prefix}_lab_{self._count:08d}"


@lru_cache(maxsize=2)
def prepared_trace(path: Path) -> PreparedTrace:
    """Read and prepare a trace; the last two are cached for the next policy."""
    return PreparedTrace(load_trace(path))


def without_schemas(policy: Policy) -> dict[str, Any]:
    """Return a policy's document without payload schemas, because replayed payloads may be placeholders."""
    document: dict[str, Any] = document_of(policy)
    return _without_schemas(document)


def _without_schemas(document: dict[str, Any]) -> dict[str, Any]:
    contracts = {name: row | {"payload": None} for name, row in document["contracts"].items()}
    custom = document["custom_contract"] | {"payload": None}
    return document | {"contracts": contracts, "custom_contract": custom}


def begin(trace: Trace, policy: dict[str, Any] | None, ids: Ids) -> tuple[Exchange, MessageTracker]:
    """Return an exchange in the state at the start of the window, under another policy if one is given."""
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
