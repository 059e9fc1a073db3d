"""Histories for the tests, simulated or literal, and segments of them."""

from base64 import b64encode
from collections.abc import Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import msgspec

from tests.ids import SeededIds
from tests.simulation.twin import Twin
from tests.simulation.world import World
from tocsin import zstd
from tocsin.core.commands import Caller, Command, Confirm, Reply
from tocsin.core.events import Event, decode_events
from tocsin.core.exchange import Exchange
from tocsin.journal.records import record_of
from tocsin.pipeline.tables.schemas import DOCUMENTS, EVENT, columns_of

DAY_US = 86_400_000_000
START = 1_762_905_600_000_000
_JSON = msgspec.json.Encoder()


class _NoTwin(Twin):
    """Lets the live exchange decide alone: nothing is compared."""

    def rebuild(self, live: Exchange) -> None:
        pass

    def handle(
        self, live: Exchange, ids: SeededIds, command: Command, caller: Caller, now: int
    ) -> tuple[Reply, list[Event]]:
        # Every decision counts as one by plan, after which the world expects nothing of the lines.
        self.by_plan["pushed"] += 1
        done = live.handle(command, caller, now)
        return done.reply, done.events

    def confirm(
        self, live: Exchange, ids: SeededIds, message_id: str, caller: Caller, now: int
    ) -> tuple[Reply, list[Event]]:
        return self.handle(live, ids, Confirm((message_id,)), caller, now)


def unchecked_world(seed: int) -> World:
    """Return a world that only makes a history; the tests of the simulator check every step, which takes longer."""
    world = World(seed)
    world.checked, world.twin = False, _NoTwin()
    return world


def simulated(seed: int, steps: int, *, errands: bool = True) -> tuple[list[Event], World]:
    """Run a simulation and return its events; without `errands`, only events that commands cause."""
    world = unchecked_world(seed)
    world.errands = errands
    for _ in range(steps):
        world.step()
    return [event for batch in world.journal.batches for event in decode_events(batch)], world


def day_of(at: int) -> date:
    return datetime.fromtimestamp(at // DAY_US * 86_400, UTC).date()


def row_of(project: str, seq: int, event: Event) -> tuple[Any, ...]:
    """Return an event as a row of `event`."""
    said: dict[str, Any] = {"project": project, "date": day_of(event.at), "seq": seq, "kind": type(event).__name__}
    for field, column in columns_of(type(event)).items():
        value = getattr(event, field)
        if field in DOCUMENTS:
            # Segments have policies, and the subject of the bus's own notices.
            notice = field == "metadata" and value != b"{}" and getattr(event, "sender", None) == "tocsin"
            value = value.decode() if value and (field == "policy" or notice) else None
        elif isinstance(value, bytes):
            value = b64encode(value).decode()
        elif isinstance(value, tuple):
            value = list(value)
        elif isinstance(value, str):
            value = str(value)
        said[column] = float(value) if column in _DOUBLES and value is not None else value
    return tuple(said.get(column.name) for column in EVENT)


_DOUBLES = {column.name for column in EVENT if column.type == "double"}


def numbered(project: str, events: Sequence[Event]) -> list[tuple[str, int, Event]]:
    return [(project, seq, event) for seq, event in enumerate(events, 1)]


def write_segment(
    landing: Path, project: str, first_seq: int, events: Sequence[Event], extra: Sequence[bytes] = ()
) -> Path:
    """Write one segment as the hub does; `extra` are additional lines at its end."""
    folder = landing / f"project={project}" / f"date={day_of(events[0].at).isoformat()}"
    folder.mkdir(parents=True, exist_ok=True)
    lines = [
        _JSON.encode(record_of(project, seq, event, payloads=False)) for seq, event in enumerate(events, first_seq)
    ]
    path = folder / f"{first_seq:020d}.ndjson.zst"
    path.write_bytes(zstd.compress(b"".join(line + b"\n" for line in [*lines, *extra])))
    return path


def write_segments(landing: Path, project: str, events: Sequence[Event], size: int) -> list[Path]:
    """Write a history as segments with a number of events each, split by day."""
    paths, start = [], 0
    for place in range(1, len(events) + 1):
        ends = place == len(events) or place - start >= size
        if ends or events[place].at // DAY_US != events[start].at // DAY_US:
            paths.append(write_segment(landing, project, start + 1, events[start:place]))
            start = place
    return paths
