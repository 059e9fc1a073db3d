"""Damage to stored rows and groups is found when they are read, and damaged tables are rebuilt from the journal."""

# The statements are put together from the declarations of tables.
# ruff: noqa: S608

from collections.abc import Iterator
from pathlib import Path

import apsw
import msgspec
import pytest

from tests.ids import SeededIds
from tests.stores.stores import PostgresStore, SqliteStore, Store
from tests.stores.test_journal import filled, group, ranges
from tests.stores.test_recovery import assert_same, lived, lived_on, project
from tests.workload import Workload
from tocsin.core.documents import document_count
from tocsin.core.state import ProjectState
from tocsin.journal.base import Journal
from tocsin.journal.changes import ObservedExchange
from tocsin.journal.checksums import FROM_BEFORE, is_checksum, sealer, verifier
from tocsin.journal.columns import Kind, Row, Table, Update
from tocsin.journal.errors import JournalDamaged, TablesDamaged
from tocsin.journal.log import EventLog
from tocsin.journal.recovery import rebuild, reopen
from tocsin.journal.table_definitions import AGENTS, MESSAGES, RECOVERED, SEALED
from tocsin.journal.tables import Tables

#: Place of the sequence number in a row.
SEQ = MESSAGES.names.index("seq")


def damage_tables(store: Store, sql: str) -> None:
    """Change the tables behind the hub's back; on PostgreSQL they are in the journal's database."""
    if isinstance(store, PostgresStore):
        store.execute(sql)
        return
    connection = apsw.Connection(str(store.path / "tables.db"))  # type: ignore[attr-defined]
    connection.execute(sql)
    connection.close()


def changed(store: Store, table: Table, name: str, where: str) -> str:
    """Return the statement that makes a small change to one column, such as a flipped bit would."""
    kind, postgres = table.kinds[name], isinstance(store, PostgresStore)
    value = {
        Kind.INT: f"coalesce({name}, 7) + 1",
        Kind.REAL: f"{name} + 0.5",
        Kind.TEXT: f"coalesce({name}, '') || 'x'",
        Kind.BODY: f"coalesce({name}, '') || ' '",
        Kind.BOOL: f"NOT {name}",
        Kind.TIME: f"coalesce({name}, timestamptz 'epoch') + interval '1 microsecond'"
        if postgres
        else f"coalesce({name}, 0) + 1",
        Kind.BYTES: f"coalesce({name}, '') || '\\x00'" if postgres else f"coalesce({name}, '') || x'00'",
    }[kind]
    return f"UPDATE {table.name} SET {name} = {value} WHERE {where}"


def complete(state: ProjectState) -> bool:
    """Tell whether a state has a row of every kind, and every kind of value in one of them."""
    messages = list(state.messages.values())
    return all(
        (
            sum(message.broadcast_id is None and message.digest is None for message in messages) > 1,
            any(message.broadcast_id for message in messages),
            any(message.session for message in messages),
            *(state.sessions, state.broadcasts, state.dead, state.settled, state.acknowledged, state.failures),
            *(state.threads, document_count(state)),
        )
    )


def play_everything(journal: Journal, tables: Tables) -> ObservedExchange:
    """Write events until the tables have a row of every kind, and project them more than once."""
    exchange, log = ObservedExchange(SeededIds(9)), EventLog(journal)
    for number, events in enumerate(Workload(9).play(exchange, 3000)):
        log.append(events)
        if number % 25 == 0:
            project(exchange, tables)
        if number > 80 and complete(exchange.state):
            break
    assert complete(exchange.state)
    project(exchange, tables)
    return exchange


@pytest.fixture
def project_tables(journal: Journal) -> Iterator[tuple[Tables, ObservedExchange]]:
    """A project with a row of every kind, projected more than once."""
    tables = journal.tables()
    exchange = play_everything(journal, tables)
    yield tables, exchange
    tables.close()


def keys(table: Table, row: Row) -> str:
    """Return the condition that finds a row again."""
    return " AND ".join(f"{name} = '{row[table.names.index(name)]}'" for name in table.key.split(", "))


def damages(store: Store, tables: Tables) -> Iterator[tuple[str, str, str]]:
    """Return every small change of stored values that recovery must find: the table, its rows, the statement."""
    for table, where in RECOVERED.items():
        rows = list(tables.rows(table, where))
        yield table.name, keys(table, rows[0]), f"DELETE FROM {table.name} WHERE {keys(table, rows[0])}"
        for place, column in enumerate(table.columns):
            if column.update is Update.APPEND or column.name in table.key.split(", "):
                continue
            # A row in which the column has a value, where there is one: a payload, a death.
            row = next((row for row in rows if row[place] is not None), None)
            if row is not None:
                yield table.name, keys(table, row), changed(store, table, column.name, keys(table, row))
    for name, change in (
        ("standing", "UPDATE standing SET seq = seq - 1"),
        ("lines", "UPDATE lines SET first = first + 1"),
        ("lines", "DELETE FROM lines"),
    ):
        yield name, "1 = 1", change


def test_no_damage_to_what_recovery_reads_goes_unnoticed(
    store: Store, journal: Journal, project_tables: tuple[Tables, ObservedExchange]
) -> None:
    tables, exchange = project_tables
    count = 0
    for name, where, statement in damages(store, tables):
        damage_tables(store, f"CREATE TABLE kept AS SELECT * FROM {name} WHERE {where}; {statement}")
        try:
            reopen(journal, tables, SeededIds(0))
        except TablesDamaged:
            count += 1
        else:
            pytest.fail(f"not noticed: {statement}")
        undo = f"DELETE FROM {name} WHERE {where}; INSERT INTO {name} SELECT * FROM kept; DROP TABLE kept"
        damage_tables(store, undo)
    assert count > 100
    assert_same(reopen(journal, tables, SeededIds(0)).state, exchange.state)


def test_two_payloads_that_changed_places_are_found(
    store: Store, journal: Journal, project_tables: tuple[Tables, ObservedExchange]
) -> None:
    tables, _ = project_tables
    payload, digest = MESSAGES.names.index("payload"), MESSAGES.names.index("digest")
    live = [row[SEQ] for row in tables.rows(MESSAGES, RECOVERED[MESSAGES]) if row[payload] and row[digest] is None]
    assert len(live) > 1
    for name in ("payload", "payload_checksum"):
        damage_tables(
            store,
            f"UPDATE signal_queue SET {name} = (SELECT o.{name} FROM signal_queue o WHERE o.seq = {live[1]})"
            f" WHERE seq = {live[0]}",
        )
    with pytest.raises(TablesDamaged, match=f"row {live[0]}: the checksum of payload"):
        reopen(journal, tables, SeededIds(0))


def lives(tables: Tables) -> dict[int, list[object]]:
    """Return the history of every message, forgotten ones included."""
    life = MESSAGES.names.index("life")
    return {row[SEQ]: [msgspec.json.decode(line) for line in row[life].splitlines()] for row in tables.rows(MESSAGES)}


def test_damaged_tables_are_rebuilt_from_the_journal(
    store: Store, journal: Journal, project_tables: tuple[Tables, ObservedExchange]
) -> None:
    tables, exchange = project_tables
    history = lives(tables)
    damage_tables(store, changed(store, AGENTS, "tokens", "retired_at IS NULL"))
    with pytest.raises(TablesDamaged) as raised:
        reopen(journal, tables, SeededIds(0))
    tables.close()
    journal.reset_tables(raised.value)
    tables = journal.tables()
    found = rebuild(journal, tables, SeededIds(0))
    assert_same(found.state, exchange.state)
    assert tables.standing().seq == journal.last_seq()
    assert_same(reopen(journal, tables, SeededIds(0)).state, exchange.state)
    assert lives(tables) == history
    tables.close()


def test_a_row_whose_values_have_moved_by_a_column_is_damage(project_tables: tuple[Tables, ObservedExchange]) -> None:
    # Found by the simulator on a failing disk, seed 9: a flipped bit in the header of the record had removed a column.
    # The last one, which was the checksum, was read as null, as in a row from before there were checksums.
    tables, _ = project_tables
    stored = [*MESSAGES.checksum_order]
    for row in tables.rows(MESSAGES):
        values = dict(zip(MESSAGES.names, row, strict=True))
        place = stored.index("dead_seq")
        moved = [values[name] for name in stored[:place] + stored[place + 1 :]] + [None]
        damaged = dict(zip(stored, moved, strict=True))
        assert verifier(MESSAGES)(tuple(damaged[name] for name in MESSAGES.names)) == "its columns"


def without_checksums(name: str) -> str:
    """Return the statement that takes the checksums of a table away."""
    columns = next((table.columns for table in RECOVERED if table.name == name), ())
    names = [column.name for column in columns if is_checksum(column)] or ["checksum"]
    return f"UPDATE {name} SET " + ", ".join(f"{name} = NULL" for name in names)


def made_older(store: Store, tables: Tables) -> None:
    """Let the position of the tables be one from before it named the tables in which every row has a checksum."""
    document = msgspec.msgpack.encode(msgspec.structs.replace(tables.standing(), sealed=()))
    stored = f"'\\x{document.hex()}'" if isinstance(store, PostgresStore) else f"x'{document.hex()}'"
    damage_tables(store, f"UPDATE standing SET document = {stored}, checksum = NULL")


def test_rows_from_before_are_accepted_and_told_apart(
    store: Store, journal: Journal, project_tables: tuple[Tables, ObservedExchange]
) -> None:
    tables, exchange = project_tables
    made_older(store, tables)
    for name in SEALED:
        damage_tables(store, without_checksums(name))
    assert {verifier(AGENTS)(row) for row in tables.rows(AGENTS)} == {FROM_BEFORE}
    assert_same(reopen(journal, tables, SeededIds(0)).state, exchange.state)
    tables.close()


@pytest.mark.parametrize("name", [*SEALED, "standing"])
def test_a_row_without_a_checksum_is_damage_once_all_had_one(
    store: Store, journal: Journal, project_tables: tuple[Tables, ObservedExchange], name: str
) -> None:
    tables, _ = project_tables
    assert set(tables.standing().sealed) == set(SEALED)
    damage_tables(store, without_checksums(name))
    with pytest.raises(TablesDamaged, match=r"checksum.* is missing"):
        reopen(journal, tables, SeededIds(0))


def test_older_tables_are_sealed_when_no_row_from_before_is_left(
    store: Store, journal: Journal, project_tables: tuple[Tables, ObservedExchange]
) -> None:
    tables, _ = project_tables
    made_older(store, tables)
    damage_tables(store, without_checksums("agents"))
    exchange = reopen(journal, tables, SeededIds(0))
    lived_on(exchange, journal)
    project(exchange, tables)
    assert set(tables.standing().sealed) == {*SEALED} - {"agents"}, "an agent may not have been written again"
    assert_same(reopen(journal, tables, SeededIds(0)).state, exchange.state)
    damage_tables(store, without_checksums("sessions"))
    with pytest.raises(TablesDamaged, match=r"table sessions, row .*: its checksum is missing"):
        reopen(journal, tables, SeededIds(0))


def test_a_sealed_row_is_intact() -> None:
    row = ("ada", "Manager", "primary", "1.1.0", "[]", "[]", 1, 2, 3, 4.0, 5.0, 6, b"", True, 7, None)
    sealed = sealer(AGENTS)(row)
    assert verifier(AGENTS)(sealed) is None
    # As SQLite returns it: a truth value is a number, a number in a REAL column is not an integer.
    stored = tuple({True: 1, 2: 2.0}.get(value, value) if type(value) in (bool, int) else value for value in sealed)
    assert verifier(AGENTS)(stored) is None
    assert verifier(AGENTS)(("bob", *sealed[1:])) == "its columns"


def test_checksums_of_messages_are_those_of_rows_that_are_stored() -> None:
    """The order of a row may change; the order in which its checksum covers the columns may not."""
    columns = [column for column in MESSAGES.columns if not is_checksum(column)]
    values = {
        column.name: column.name if column.kind is Kind.TEXT else len(column.name)
        for column in columns
        if column.kind not in (Kind.BODY, Kind.BYTES)
    }
    row = sealer(MESSAGES)(tuple(values.get(column.name, column.name.encode()) for column in columns))
    found = dict(zip(MESSAGES.names, row, strict=True))
    assert (found["checksum"], found["payload_checksum"], found["dead_seq_checksum"]) == (
        2296854070,
        887975393,
        1680853262,
    )


def test_a_replaced_group_breaks_the_chain(store: Store, journal: Journal) -> None:
    filled(journal, 3)
    assert ranges(journal, 0) == [(1, 3), (4, 6), (7, 9)]
    # A group that is sound in itself, as another history would have it.
    chain = "(SELECT o.chain FROM journal o WHERE o.first_seq = 1)"
    store.execute(f"UPDATE journal SET chain = {chain} WHERE first_seq = 4")
    with pytest.raises(JournalDamaged, match="group 4 to 6: it does not continue the group before it"):
        ranges(journal, 0)
    with pytest.raises(JournalDamaged, match="group 4 to 6: it does not continue"):
        ranges(journal, 3)


def test_the_chain_goes_on_after_pruning_and_reopening(store: Store) -> None:
    journal = store.open()
    filled(journal, 3)
    assert journal.prune(upto_seq=6, before_at=1 << 60, limit=100) == 2
    journal.close()
    journal = store.open()
    journal.append(group(10, 1, journal.epoch))
    assert ranges(journal, 6) == [(7, 9), (10, 10)]
    store.execute("UPDATE journal SET chain = chain + 1 WHERE first_seq = 7")
    with pytest.raises(JournalDamaged, match="group 7 to 9: it does not continue"):
        ranges(journal, 6)
    journal.close()


def test_groups_from_before_there_was_a_chain_are_read(store: Store, journal: Journal) -> None:
    filled(journal, 2)
    store.execute("UPDATE journal SET chain = NULL")
    journal.recover()
    journal.append(group(7, 1, journal.epoch))
    assert ranges(journal, 0) == [(1, 3), (4, 6), (7, 7)]


def test_tables_that_a_pruned_journal_cannot_complete_are_not_reset(store: Store, journal: Journal) -> None:
    tables = journal.tables()
    exchange = lived(journal, tables, 9, 300, 0.0)
    project(exchange, tables)
    while journal.prune(tables.standing().seq, 1 << 60, 50):
        pass
    with pytest.raises(TablesDamaged, match=r"cannot be rebuilt: the journal begins with event \d+"):
        journal.reset_tables(TablesDamaged("some row"))
    assert_same(reopen(journal, tables, SeededIds(0)).state, exchange.state)
    tables.close()


def test_a_pruned_journal_completes_the_backup_of_the_tables(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "project", "FULL")
    journal = store.open()
    tables = journal.tables()
    exchange = lived(journal, tables, 9, 300, 0.0)
    project(exchange, tables)
    assert tables.backed_up_seq() == 0
    seq = tables.back_up(lambda: None)
    assert seq == tables.backed_up_seq() == journal.last_seq()
    while journal.prune(seq, 1 << 60, 50):
        pass
    lived_on(exchange, journal)
    project(exchange, tables)
    damage_tables(store, changed(store, AGENTS, "tokens", "retired_at IS NULL"))
    with pytest.raises(TablesDamaged) as raised:
        reopen(journal, tables, SeededIds(0))
    with pytest.raises(TablesDamaged):
        tables.back_up(lambda: None)
    assert tables.backed_up_seq() == seq, "the damaged tables replaced the last sound backup"
    tables.close()
    journal.reset_tables(raised.value)
    tables = journal.tables()
    assert_same(rebuild(journal, tables, SeededIds(0)).state, exchange.state)
    assert (tmp_path / "project" / "tables.damaged.db").exists()
    tables.close()
    journal.close()


def test_a_backup_is_not_made_of_damaged_queues(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "project", "FULL")
    journal = store.open()
    tables = journal.tables()
    project(lived(journal, tables, 9, 300, 0.0), tables)
    damage_tables(store, "UPDATE lines SET checksum = checksum + 1 WHERE name = 'settled'")
    with pytest.raises(TablesDamaged, match="the checksum of queue settled"):
        tables.back_up(lambda: None)
    assert tables.backed_up_seq() == 0
    tables.close()
    journal.close()


@pytest.mark.parametrize("wreck", [b"", b"no database at all" * 1000, None], ids=["emptied", "overwritten", "rotten"])
def test_a_wrecked_file_of_tables_is_rebuilt(tmp_path: Path, wreck: bytes | None) -> None:
    store = SqliteStore(tmp_path / "project", "FULL")
    journal = store.open()
    tables = journal.tables()
    exchange = lived(journal, tables, 9, 300, 0.5)
    project(exchange, tables)
    tables.close()
    journal.close()
    file = tmp_path / "project" / "tables.db"
    data = file.read_bytes()
    file.write_bytes(data[:4096] + b"\xff" * (len(data) - 4096) if wreck is None else wreck)
    journal = store.open()
    if wreck == b"":
        tables = journal.tables()
        found = reopen(journal, tables, SeededIds(0))
    else:
        with pytest.raises(TablesDamaged) as raised:
            reopen(journal, journal.tables(), SeededIds(0))
        journal.reset_tables(raised.value)
        tables = journal.tables()
        found = rebuild(journal, tables, SeededIds(0))
    assert_same(found.state, exchange.state)
    tables.close()
    journal.close()


@pytest.mark.parametrize("column", ["level", "enqueued_at"])
def test_a_row_from_before_with_a_value_of_another_type_is_damage(tmp_path: Path, column: str) -> None:
    """Only a row without a checksum gets that far; the compiled form refuses such values when it makes the state."""
    store = SqliteStore(tmp_path / "project", "FULL")
    journal = store.open()
    tables = journal.tables()
    exchange = lived(journal, tables, 9, 300, 0.0)
    project(exchange, tables)
    made_older(store, tables)
    damage_tables(store, f"{without_checksums('signal_queue')}, {column} = 'soon' WHERE state = 'queued'")
    with pytest.raises(TablesDamaged, match="a row cannot be read: TypeError"):
        reopen(journal, tables, SeededIds(0))
    tables.close()
    journal.close()
