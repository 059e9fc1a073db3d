"""Common parts of both loops: a prepared trace, the exchange at its start, and the result of a replay.

A trace is prepared once and replayed under many policies: its commands are immutable, and its state is restored for
each replay. A process keeps only the last prepared trace, so the replays of one window have to follow each other.
"""

import gc
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
from tocsin.lab.traces.anchors import offer_anchor
from tocsin.lab.traces.message_history import MessageHistory
from tocsin.lab.traces.message_tracker import MessageTracker
from tocsin.lab.traces.recorded_envelope import RecordedEnvelope
from tocsin.lab.traces.recorder import track_open_messages
from tocsin.lab.traces.step_commands import command_of
from tocsin.lab.traces.trace import APPLY, TICK, RecordedMessage, RefusedSend, Step, Trace, load_trace

__all__ = ["PART_BITS", "Ids", "PreparedTrace", "Replay", "begin", "prepared_trace", "without_schemas"]

#: Low bits of a waiting step that tell which of its anchors it is; the bit above them tells whether it is serial.
PART_BITS: Final = 24
#: Start of the anchors of first offers.
_FIRST_OFFER: Final = offer_anchor(1, "")
_OFFER_LENGTH: Final = len(_FIRST_OFFER)
_APPLY: Final = APPLY
_TICKS: Final = TICK
_SNAPSHOT: Final = msgspec.msgpack.Decoder(Snapshot)
_TICK: Final = cmd.Tick()
#: All fields of a step in one call: each attribute of a struct is a look-up.
_VALUES: Final = msgspec.structs.astuple


class PreparedTrace:
    """A trace with its commands decoded, and with what waits for what in the closed loop."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.steps: list[Step] = trace.steps
        self.commands: list[Command | None] = []
        self.callers: list[Caller] = []
        #: Events that are applied as recorded, by step.
        self.applied: dict[int, list[Event]] = {}
        #: Whether a step is a command that is run as recorded and that nothing waits for, by step.
        self.plain: list[bool] = []
        #: Recorded ids, by step.
        self.ids: list[tuple[str, ...]] = []
        #: Steps without an anchor, and their times.
        self.roots: list[int] = []
        self.root_times: list[int] = []
        #: Steps that wait for the first offer of a message, by its signal id. Each is two numbers: the step with the
        #: place of the anchor among its own in the low `PART_BITS`, and the delay after the anchor.
        self.offers: dict[str, list[int]] = {}
        #: Steps that wait for another anchor, in the same form.
        self.waiting: dict[str, list[int]] = {}
        #: Steps that wait for the previous drain of a session.
        self.drains: dict[str, list[int]] = {}
        #: Largest number of anchors of a step.
        self.anchors_max = 1
        #: Steps and messages that others wait for: most have none, so that no anchor is written for them.
        self.awaited_steps: set[int] = set()
        self.awaited_messages: set[str] = set()
        #: Recorded ticks, and their times.
        self.ticks: list[int] = []
        self.tick_times: list[int] = []
        #: Recorded messages by signal id.
        self.known: dict[str, RecordedMessage] = {message[0]: message for message in trace.recorded_messages}
        self._prepare(trace)

    def _prepare(self, trace: Trace) -> None:
        stored = [Caller(agent, role) for agent, role in trace.callers]
        others: dict[tuple[str, str], Caller] = {}
        commands, callers, plain, every_ids = self.commands, self.callers, self.plain, self.ids
        # With their types, because the compiled form compares values of any type slowly.
        at: int
        agent: str
        role: str
        ask: str
        number: int
        args: tuple[Any, ...]
        envelope: RecordedEnvelope | None
        after: tuple[Any, ...]
        delays: tuple[int, ...]
        serial: bool
        polls: bool
        ids: tuple[str, ...]
        body: dict[str, Any]
        index = -1
        for step in self.steps:
            index += 1
            values: tuple[Any, ...] = _VALUES(step)
            at, agent, role, ask, number, args, envelope, _, _, after, delays, serial, polls, ids, body = values
            every_ids.append(ids)
            if number >= 0:
                callers.append(stored[number])
            else:
                callers.append(others.setdefault((agent, role), Caller(agent, role)))
            if ask == _TICKS:
                commands.append(_TICK)
                plain.append(False)
                self.ticks.append(index)
                self.tick_times.append(at)
                continue
            if ask == _APPLY:
                commands.append(None)
                plain.append(False)
                self.applied[index] = decode_events(body["event"])
            elif ask == "AdoptPolicy":
                commands.append(cmd.AdoptPolicy(_without_schemas(body["policy"]), body["reason"]))
                plain.append(False)
            else:
                commands.append(command_of(ask, args, envelope, body))
                # A replay changes the others, or something follows from them in it.
                plain.append(ask != "Drain" and ask != "ReportWaker" and not polls)
            if after:
                self._place(index, after, delays, serial, ask, args)
            else:
                self.roots.append(index)
                self.root_times.append(at)
        for awaited in self.awaited_steps:
            plain[awaited] = False

    def _place(
        self,
        index: int,
        after: tuple[Any, ...],
        delays: tuple[int, ...],
        serial: bool,
        ask: str,
        args: tuple[Any, ...],
    ) -> None:
        """Note what a step waits for."""
        first = (index << 1 | serial) << PART_BITS
        part = 0
        for written in after:
            if isinstance(written, int):
                signal: str = args[part] if ask == "Confirm" else args[0]
                if written == 1:
                    _add(self.offers, signal, first + part, delays[part])
                else:
                    _add(self.waiting, offer_anchor(written, signal), first + part, delays[part])
                part += 1
                continue
            anchor: str = written
            if anchor.startswith(_FIRST_OFFER):
                _add(self.offers, anchor[_OFFER_LENGTH:], first + part, delays[part])
            elif anchor.startswith("d "):
                self.drains.setdefault(anchor[2:], []).append(index)
            else:
                _add(self.waiting, anchor, first + part, delays[part])
                if anchor.startswith("s "):
                    self.awaited_steps.add(int(anchor[2:]))
                elif anchor.startswith("a "):
                    self.awaited_messages.add(anchor[2:])
            part += 1
        if part > self.anchors_max:
            self.anchors_max = part


def _add(waiting: dict[str, list[int]], anchor: str, place: int, delay_us: int) -> None:
    found = waiting.get(anchor)
    if found is None:
        waiting[anchor] = [place, delay_us]
    else:
        found.append(place)
        found.append(delay_us)


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


#: The last prepared trace by its path; empty before the first.
_LAST: Final[dict[Path, PreparedTrace]] = {}


def prepared_trace(path: Path) -> PreparedTrace:
    """Read and prepare a trace; the last one is kept for the next policy.

    The previous trace is freed before the next one is read, so that a process never holds two.
    """
    found = _LAST.get(path)
    if found is None:
        _LAST.clear()
        # What earlier tasks left as garbage is collected now, because frozen garbage would stay. This also undoes a
        # freeze by other code of the process; workers and the command line have none.
        gc.unfreeze()
        gc.collect()
        found = _LAST[path] = PreparedTrace(load_trace(path))
        # Collections need not look at the trace and the imported modules again until the next trace is read.
        gc.freeze()
    return found


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
