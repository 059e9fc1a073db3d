"""Rows of ordinary messages are made and written short, and say the same as the rows of all others."""

import contextlib
import gc
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.envelopes import parsed
from tests.ids import SeededIds
from tests.stores.test_recovery import assert_same, project
from tests.workload import START
from tocsin.core import commands as cmd
from tocsin.core.commands import SYSTEM, Caller, Command
from tocsin.core.messages.message import signal_id
from tocsin.core.messages.model import MessageRow
from tocsin.core.policy import document_of
from tocsin.journal.base import Journal
from tocsin.journal.changes import Capture, ObservedExchange
from tocsin.journal.checksums import verifier
from tocsin.journal.columns import Row, row_reader
from tocsin.journal.log import EventLog
from tocsin.journal.projection import batch_of
from tocsin.journal.records import life_of, life_text
from tocsin.journal.recovery import reopen
from tocsin.journal.sqlite import SqliteJournal
from tocsin.journal.sqlite.statements import ROWS_MAX
from tocsin.journal.table_definitions import CONTENT_COLUMNS, MESSAGE_COLUMNS, MESSAGES, ORDINARY, whole_message
from tocsin.policies import default_policy

ADA, BOB = Caller("ada", "director"), Caller("bob", "primary")
#: Columns by the field that they hold.
COLUMNS = {column.field: column.name for column in (*MESSAGE_COLUMNS, *CONTENT_COLUMNS)}
_read = row_reader(MessageRow, MESSAGES, (*MESSAGE_COLUMNS, *CONTENT_COLUMNS))


class Pair:
    """A sender and a recipient with a push session."""

    def __init__(self, journal: Journal | None = None) -> None:
        self.exchange = ObservedExchange(SeededIds(3))
        self._log = EventLog(journal) if journal is not None else None
        self.now = START
        self.run(cmd.AdoptPolicy(document_of(default_policy()), "test"), SYSTEM)
        for caller in (ADA, BOB):
            self.run(cmd.RegisterAgent("Manager", ("1.1.0",)), caller)
        self.run(cmd.OpenSession("push", 100), BOB)

    def run(self, command: Command, caller: Caller) -> None:
        self.now += 1000
        events = self.exchange.handle(command, caller, self.now).events
        if self._log is not None:
            self._log.append(events)

    def send(self, number: int, **fields: Any) -> None:
        self.run(cmd.Send(parsed(number, **fields)), ADA)

    def confirm(self, *numbers: int) -> None:
        self.run(cmd.Confirm(tuple(f"msg_{number}_x" for number in numbers)), BOB)


def rows_of(capture: Capture) -> list[Row]:
    return list(batch_of(capture).new_messages)


def is_short(row: Row) -> bool:
    return len(row) == len(ORDINARY.bound)


def open_files() -> set[str]:
    found = set()
    for file in list(Path("/proc/self/fd").iterdir()):
        with contextlib.suppress(FileNotFoundError):  # The list itself was a file.
            found.add(str(file.readlink()))
    return found


def test_a_short_row_has_the_values_of_its_message() -> None:
    pair = Pair()
    for number in range(5):
        pair.send(number)
    pair.confirm(*range(5))
    capture = pair.exchange.capture()
    rows = rows_of(capture)
    assert len(rows) == 5
    assert all(map(is_short, rows))
    for row, message in zip(map(whole_message, rows), capture.messages.values(), strict=True):
        found = dict(zip(MESSAGES.names, row, strict=True))
        assert verifier(MESSAGES)(row) is None
        assert msgspec.structs.astuple(_read(row)) == message.values()
        assert (found["signal_id"], found["ended_at"], found["remembered"]) == (
            signal_id(message),
            message.delivered_at,
            True,
        )
        life = life_of(found["life"])
        assert [entry["kind"] for entry in life] == ["MessageAccepted", "MessageOffered", "MessageDelivered"]
        assert found["offered_seq"] == life[1]["seq"]


def other(value: Any) -> Any:
    """Return another value of the same field."""
    if isinstance(value, Enum):
        return next(member for member in reversed(list(type(value))) if member != value)
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    return (value or "") + "x"


# Number and payload are in the event that accepted the message, which is not changed here.
@pytest.mark.parametrize("field", [name for name in MessageRow.__struct_fields__ if name not in ("seq", "payload")])
def test_no_value_of_a_message_is_lost_in_a_short_row(field: str) -> None:
    pair = Pair()
    pair.send(1)
    pair.confirm(1)
    capture = pair.exchange.capture()
    (message,) = capture.messages.values()
    expected = dict(zip(MessageRow.__struct_fields__, message.values(), strict=True))
    changed = {"digest": b"x", "metadata": b'{"a":1}'}.get(field) or other(expected[field])
    setattr(message, field, changed)
    (row,) = rows_of(capture)
    assert verifier(MESSAGES)(whole_message(row)) is None
    found = msgspec.structs.asdict(_read(whole_message(row)))
    # The row of any message but an ordinary one has the metadata that the event has.
    assert found == expected | ({field: changed} if field != "metadata" else {})
    # Other columns have the value of these two.
    assert is_short(row) == (COLUMNS[field] in ORDINARY.bound and field not in ("priority", "created_at"))


def test_every_store_writes_short_and_whole_rows_alike(journal: Journal) -> None:
    pair, tables = Pair(journal), journal.tables()
    project(pair.exchange, tables)
    count = 3 * ROWS_MAX // 2 + 3
    for number in range(count):
        pair.send(number, **({"metadata": {"subject": "review"}} if number % 5 == 0 else {}))
        pair.confirm(number)
    batch = batch_of(pair.exchange.capture())
    rows = list(batch.new_messages)
    assert ROWS_MAX < sum(map(is_short, rows)) < len(rows) == count
    tables.write(msgspec.structs.replace(batch, new_messages=rows))
    assert list(tables.rows(MESSAGES, order="seq")) == list(map(whole_message, rows))
    assert_same(reopen(journal, tables, SeededIds(0)).state, pair.exchange.state)
    tables.close()


def test_the_facts_of_a_capture_are_not_tracked_by_the_garbage_collector() -> None:
    pair = Pair()
    for number in range(200):
        pair.send(number)
        pair.confirm(number)
    capture = pair.exchange.capture()
    gc.collect()
    tracked = len(gc.get_objects())
    batch = batch_of(capture)
    assert len(gc.get_objects()) - tracked < 100
    assert len(list(batch.new_messages)) == 200


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="open files are listed on Linux only")
def test_a_large_batch_needs_no_temporary_file(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path / "pair", "pair", checkpoint_bytes=1 << 20)
    pair, tables = Pair(journal), journal.tables()
    for number in range(2 * ROWS_MAX):
        pair.send(number)
        pair.confirm(number)
    batch = batch_of(pair.exchange.capture())
    before = open_files()
    during: set[str] = set()

    def rows() -> Iterator[Row]:
        yield from batch.new_messages
        during.update(open_files())

    tables.write(msgspec.structs.replace(batch, new_messages=rows()))
    assert any(name.endswith("tables.db-wal") for name in during)
    assert not [name for name in during - before if name.endswith("(deleted)")]
    tables.close()
    journal.close()


def test_the_history_of_an_ordinary_message_has_the_entries_of_its_events() -> None:
    pair = Pair()
    pair.send(1)
    pair.confirm(1)
    capture = pair.exchange.capture()
    (row,) = rows_of(capture)
    (seq,) = capture.messages
    steps = [
        (number, event)
        for number, event in enumerate(capture.events(), capture.first_seq)
        if number == seq or getattr(event, "message", None) == seq
    ]
    assert len(steps) == 3
    found = dict(zip(MESSAGES.names, whole_message(row), strict=True))["life"]
    assert found.count(b"\n") == 0
    assert life_of(found) == life_of(b"\n".join(life_text(list(step)) for step in steps))


#: As it is stored; it must be readable for as long as there are journals.
STORED = (
    b'[1,7,1000,"1.1.0",8,8,"as_requested",5,"","available","pushed_to_ws",99.0,null,3.5,0,0,null,null,'
    b'8,1001,"ses_1",1,8,0,true,9,2000,"receipt"]'
)


def test_the_stored_form_of_an_ordinary_history_does_not_change() -> None:
    acceptance = {
        "seq": 7,
        "kind": "MessageAccepted",
        "at": 1000,
        "version": "1.1.0",
        "requested": 8,
        "priority": 8,
        "rule": "as_requested",
        "importance": 5,
        "held": "",
        "recipient_state": "available",
        "publish_path": "pushed_to_ws",
        "tokens": 99.0,
        "critical_quota": None,
        "blocking_quota": 3.5,
    }
    offer = {
        "seq": 8,
        "kind": "MessageOffered",
        "at": 1001,
        "session": "ses_1",
        "offer": 1,
        "level": 8,
        "waited_us": 0,
        "pushed": True,
    }
    delivery = {"seq": 9, "kind": "MessageDelivered", "at": 2000, "how": "receipt"}
    assert life_of(STORED) == [acceptance, offer, delivery]


def test_an_ordinary_history_says_which_limit_changed_the_priority() -> None:
    capped = STORED.replace(b'"as_requested"', b'"role_cap"').replace(b"0,0,null,null", b"0,0,6.0,null")
    acceptance = life_of(capped)[0]
    assert (acceptance["rule"], acceptance["limit"]) == ("role_cap", 6.0)
    assert not {"high", "messages", "window_s"} & acceptance.keys()


def test_what_happens_later_follows_an_ordinary_history() -> None:
    later = {"seq": 12, "kind": "MessageRecalled", "at": 3000}
    assert [entry["seq"] for entry in life_of(STORED + b"\n" + msgspec.json.encode(later))] == [7, 8, 9, 12]


def test_an_unknown_form_of_a_history_is_refused() -> None:
    with pytest.raises(ValueError, match="format 2"):
        life_of(STORED.replace(b"[1,", b"[2,"))
