"""Opening a project gives the state that its events add up to, bit for bit: the conformance suite, part two."""

import random
from contextlib import closing
from pathlib import Path

import apsw
import msgspec
import pytest

from tests.ids import SeededIds
from tests.soak import scaled
from tests.stores.stores import SqliteStore, Store
from tests.workload import Workload
from tocsin.core.events import Event
from tocsin.core.exchange import Exchange
from tocsin.core.snapshot import take
from tocsin.core.state import ProjectState
from tocsin.journal.base import Journal
from tocsin.journal.changes import ObservedExchange
from tocsin.journal.checksums import document_checksum
from tocsin.journal.errors import JournalDamaged
from tocsin.journal.log import EventLog
from tocsin.journal.projection import batch_of
from tocsin.journal.recovery import reopen
from tocsin.journal.table_definitions import AGENTS, MESSAGES, POLICIES, SESSIONS, whole_message
from tocsin.journal.tables import Tables

#: Place of the sequence number in a row.
SEQ = MESSAGES.names.index("seq")


def fingerprint(state: ProjectState) -> bytes:
    return msgspec.msgpack.encode(take(state))


def assert_same(found: ProjectState, expected: ProjectState) -> None:
    if fingerprint(found) == fingerprint(expected):
        return
    left, right = msgspec.to_builtins(take(found)), msgspec.to_builtins(take(expected))
    for name in right:
        assert left[name] == right[name], name


def project(exchange: ObservedExchange, tables: Tables) -> None:
    tables.write(batch_of(exchange.capture()))


def lived(journal: Journal, tables: Tables, seed: int, steps: int, projections: float) -> ObservedExchange:
    """Let a team work, with a projection now and then; changed messages are copied at any time."""
    rng = random.Random(seed)
    exchange, log = ObservedExchange(SeededIds(seed)), EventLog(journal)
    group: list[Event] = []
    for events in Workload(seed).play(exchange, steps):
        group += events
        if rng.random() < 0.3:
            exchange.gather()
        if rng.random() < 0.1:
            log.append(group)
            group = []
            if rng.random() < projections:
                project(exchange, tables)
    if group:
        log.append(group)
    return exchange


@pytest.mark.parametrize(("seed", "projections"), [(1, 0.1), (2, 1.0), (3, 0.0), (4, 0.5)])
def test_a_reopened_project_is_the_same(store: Store, seed: int, projections: float) -> None:
    journal = store.open()
    tables = journal.tables()
    exchange = lived(journal, tables, seed, scaled(700, 1500), projections)
    journal.close()
    tables.close()
    again = store.open()
    tables = again.tables()
    try:
        found = reopen(again, tables, SeededIds(0))
        assert_same(found.state, exchange.state)
        replayed = Exchange(SeededIds(0))
        replayed.replay(EventLog(again).read())
        assert_same(found.state, replayed.state)
    finally:
        tables.close()
        again.close()


def test_a_project_reopened_again_and_again_stays_the_same(journal: Journal) -> None:
    tables = journal.tables()
    team, log, rng = Workload(7), EventLog(journal), random.Random(7)
    exchange, shadow = ObservedExchange(SeededIds(7)), Exchange(SeededIds(0))
    for _ in range(25):
        for events in team.play(exchange, 30):
            log.append(events)
            shadow.replay(events)
            if rng.random() < 0.1:
                project(exchange, tables)
        exchange = reopen(journal, tables, SeededIds(rng.randrange(1 << 30)))
        assert_same(exchange.state, shadow.state)
    tables.close()


def test_the_tables_say_how_far_they_are(journal: Journal) -> None:
    tables = journal.tables()
    exchange = lived(journal, tables, 5, 200, 0.0)
    assert tables.standing().seq == 0
    project(exchange, tables)
    assert tables.standing().seq == journal.last_seq() == exchange.state.seq
    assert tables.standing().at == journal.last_at()
    tables.close()


def test_a_batch_is_written_whole_or_not_at_all(journal: Journal) -> None:
    tables = journal.tables()
    exchange = lived(journal, tables, 5, 200, 0.0)
    project(exchange, tables)
    before = [list(tables.rows(table)) for table in (MESSAGES, AGENTS, SESSIONS, POLICIES)]
    batch = batch_of(lived_on(exchange, journal).capture())
    messages, life = list(map(whole_message, batch.new_messages)), MESSAGES.names.index("life")
    assert len(messages) > 1
    last = messages.pop()
    last_without_life = [*messages, (*last[:life], None, *last[life + 1 :])]
    with pytest.raises(Exception, match=r"NOT NULL|null value"):
        tables.write(msgspec.structs.replace(batch, new_messages=last_without_life))
    assert [list(tables.rows(table)) for table in (MESSAGES, AGENTS, SESSIONS, POLICIES)] == before
    assert tables.standing().seq < journal.last_seq()
    assert_same(reopen(journal, tables, SeededIds(0)).state, exchange.state)
    tables.close()


def lived_on(exchange: ObservedExchange, journal: Journal, later: int = 0) -> ObservedExchange:
    team, log = Workload(6), EventLog(journal)
    team.now = exchange.at + later
    for events in team.play(exchange, 100):
        log.append(events)
    return exchange


def test_tables_that_are_ahead_of_the_journal_are_refused(store: Store, journal: Journal) -> None:
    tables = journal.tables()
    exchange = lived(journal, tables, 5, 50, 0.0)
    project(exchange, tables)
    store.execute(f"DELETE FROM journal WHERE last_seq >= {exchange.state.seq - 3}")  # noqa: S608

    tables.close()

    def reopened() -> None:
        journal.recover()
        with closing(journal.tables()) as again:
            reopen(journal, again, SeededIds(0))

    with pytest.raises(JournalDamaged, match="commits were lost"):
        reopened()


def test_a_pruned_journal_can_still_be_opened(journal: Journal) -> None:
    tables = journal.tables()
    exchange = lived(journal, tables, 8, 400, 0.0)
    project(exchange, tables)
    projected = tables.standing().seq
    lived_on(exchange, journal)
    while journal.prune(projected, 1 << 60, 50):
        pass
    assert journal.pruned_seq() == projected
    assert_same(reopen(journal, tables, SeededIds(0)).state, exchange.state)
    tables.close()


def test_a_message_that_lived_and_ended_between_two_projections_is_one_row(journal: Journal) -> None:
    tables = journal.tables()
    exchange = lived(journal, tables, 9, 800, 0.0)
    accepted: set[int] = set()
    events: list[Event] = list(EventLog(journal).read())
    for seq, event in enumerate(events, 1):
        if type(event).__name__ == "MessageAccepted":
            accepted.add(seq)
    batch = batch_of(exchange.capture())
    rows = list(map(whole_message, batch.new_messages))
    assert [row[SEQ] for row in rows] == sorted(accepted)
    assert not list(batch.changed_messages)
    tables.write(msgspec.structs.replace(batch, new_messages=rows, changed_messages=[]))
    assert [row[SEQ] for row in tables.rows(MESSAGES, order="seq")] == sorted(accepted)
    tables.close()


def test_messages_that_are_copied_in_parts_are_captured_the_same() -> None:
    whole, parts = ObservedExchange(SeededIds(12)), ObservedExchange(SeededIds(12))
    for _, _ in zip(Workload(12).play(whole, 800), Workload(12).play(parts, 800), strict=True):
        parts.gather()
        assert not parts.ungathered
    assert whole.ungathered == whole.uncaptured
    some, all_ = parts.capture(), whole.capture()
    assert list(some.events()) == list(all_.events())
    assert msgspec.structs.asdict(some) | {"parts": []} == msgspec.structs.asdict(all_) | {"parts": []}
    assert parts.uncaptured == 0


def test_ended_messages_are_pruned_once_nobody_remembers_them(journal: Journal) -> None:
    tables = journal.tables()
    exchange = lived(journal, tables, 10, 1500, 0.5)
    project(exchange, tables)
    remembered = set(exchange.state.messages)
    assert len(list(tables.rows(MESSAGES))) > len(remembered)
    while tables.index(100):
        pass
    while tables.prune(1 << 60, 100):
        pass
    assert {row[SEQ] for row in tables.rows(MESSAGES)} == remembered
    assert_same(reopen(journal, tables, SeededIds(0)).state, exchange.state)
    tables.close()


def test_latencies_are_written_once(journal: Journal) -> None:
    tables = journal.tables()
    exchange = lived(journal, tables, 10, 800, 1.0)
    assert len(exchange.state.latency.samples) > 3
    project(exchange, tables)
    assert tables.stored_queue("latencies") == list(exchange.state.latency.samples)
    assert not tables.standing().latencies
    assert not exchange.capture().queues[-1].added
    lived_on(exchange, journal)
    before, capture = tables.standing(), exchange.capture()
    latencies = capture.queues[-1]
    assert latencies.name == "latencies"
    assert latencies.added
    assert latencies.end - len(latencies.added) == before.latencies_end
    tables.write(batch_of(capture))
    assert_same(reopen(journal, tables, SeededIds(0)).state, exchange.state)
    tables.close()


def test_latencies_in_the_position_of_earlier_tables_are_kept(tmp_path: Path) -> None:
    journal = SqliteStore(tmp_path / "project", "FULL").open()
    tables = journal.tables()
    exchange = lived(journal, tables, 10, 800, 0.0)
    project(exchange, tables)
    samples = list(exchange.state.latency.samples)
    assert samples
    earlier = msgspec.structs.replace(tables.standing(), latencies=samples, latencies_head=0, latencies_end=None)
    document = msgspec.msgpack.encode(earlier)
    connection = apsw.Connection(str(tmp_path / "project" / "tables.db"))
    connection.execute("DELETE FROM lines WHERE name = 'latencies'")
    values = (document, document_checksum(earlier.seq, document))
    connection.execute("UPDATE standing SET document = ?, checksum = ?", values)
    connection.close()
    reopened = reopen(journal, tables, SeededIds(0))
    assert_same(reopened.state, exchange.state)
    project(reopened, tables)
    assert tables.stored_queue("latencies") == samples
    assert_same(reopen(journal, tables, SeededIds(0)).state, exchange.state)
    lived_on(reopened, journal)
    project(reopened, tables)
    assert_same(reopen(journal, tables, SeededIds(0)).state, reopened.state)
    tables.close()
    journal.close()
