"""A project's directory whose files are gone, cut short or full: what is lost is reported, with what to do."""

import shutil
from pathlib import Path

import apsw
import pytest

from tests.ids import SeededIds
from tests.stores.stores import SqliteStore
from tests.stores.test_journal import group, ranges
from tests.stores.test_recovery import assert_same, lived, project
from tocsin.journal.errors import CommitsLost, JournalDamaged, JournalUnavailable, advice
from tocsin.journal.recovery import reopen
from tocsin.journal.sqlite import SqliteJournal
from tocsin.journal.sqlite.commit_note import NAME, CommitNote, Noted, noted
from tocsin.journal.sqlite.repair import accept_loss
from tocsin.journal.sqlite.verification import verify_directory

#: More than the tests write.
NO_CHECKPOINT = 1 << 30


def crashed(store: SqliteStore, copy: Path, groups: int) -> None:
    """Copy the directory of a project whose hub was killed: all its commits are in the write-ahead log."""
    journal = store.open()
    for number in range(groups):
        journal.append(group(1 + 3 * number, 3, journal.epoch, at=number))
    shutil.copytree(store.path, copy)
    journal.close()


def damage_end(wal: Path) -> None:
    """Flip a bit in the last frame of a write-ahead log, which may have space in reserve."""
    data = bytearray(wal.read_bytes())
    data[len(data.rstrip(b"\0")) - 100] ^= 1
    wal.write_bytes(data)


def test_commits_that_sqlite_drops_without_a_word_are_missed(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "killed", "FULL")
    crashed(SqliteStore(tmp_path / "project", "FULL", NO_CHECKPOINT), store.path, 20)
    damage_end(store.path / "journal.db-wal")
    with pytest.raises(CommitsLost, match=r"ends with event 57, but event 60 was confirmed") as raised:
        store.open("test")
    assert "--accept-loss" in advice(raised.value)
    assert [found.what for found in verify_directory(store.path) if not found.good] == ["last confirmed commit"]
    with pytest.raises(CommitsLost):
        store.open("test")
    accepted = accept_loss(store.path, "test")
    assert (accepted.last_seq, accepted.confirmed_seq, accepted.tables_reset) == (57, 60, False)
    journal = store.open()
    journal.append(group(58, 1, journal.epoch))
    assert ranges(journal, 54) == [(55, 57), (58, 58)]
    journal.close()


@pytest.mark.parametrize("mode", ["FULL", "NORMAL"])
def test_a_commit_that_was_stored_but_not_confirmed_is_noted_when_it_is_found(tmp_path: Path, mode: str) -> None:
    """The hub was killed between the commit and the note of it; from now on the state includes the commit."""
    store = SqliteStore(tmp_path / "killed", mode)
    crashed(SqliteStore(tmp_path / "project", mode, NO_CHECKPOINT), store.path, 20)
    note = CommitNote(store.path / NAME)
    note.reset(57, flushed=mode == "FULL")
    note.close()
    store.open().close()
    assert noted(store.path / NAME) == Noted(60, flushed=mode == "FULL")


def test_a_buffered_commit_may_be_lost_and_this_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = SqliteStore(tmp_path / "killed", "NORMAL")
    crashed(SqliteStore(tmp_path / "project", "NORMAL", NO_CHECKPOINT), store.path, 20)
    damage_end(store.path / "journal.db-wal")
    journal = store.open()
    assert journal.last_seq() == 57
    assert "ends with event 57, but event 60 was confirmed" in caplog.text
    journal.close()
    store.open().close()


def test_tables_that_include_lost_events_are_rolled_back(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "project", "FULL")
    journal = store.open()
    tables = journal.tables()
    exchange = lived(journal, tables, 9, 300, 0.0)
    project(exchange, tables)
    tables.close()
    journal.close()
    last = exchange.state.seq
    store.execute(f"DELETE FROM journal WHERE last_seq > {last - 10}")  # noqa: S608
    with pytest.raises(CommitsLost):
        store.open()
    accepted = accept_loss(store.path, "test")
    assert accepted.tables_reset
    assert accepted.confirmed_seq == last
    journal = store.open()
    tables = journal.tables()
    found = reopen(journal, tables, SeededIds(0))
    assert found.state.seq == journal.last_seq() == accepted.last_seq <= last - 10
    tables.close()
    journal.close()


def test_a_note_of_which_one_half_is_torn_still_counts(tmp_path: Path) -> None:
    note = CommitNote(tmp_path / NAME)
    note.write(7, flushed=True)
    note.write(9, flushed=True)
    note.close()
    file = tmp_path / NAME
    assert noted(file).seq == 9
    data = bytearray(file.read_bytes())
    data[30] ^= 1
    file.write_bytes(data)
    assert noted(file).seq == 7
    file.write_bytes(b"")
    assert noted(file).seq == 0


@pytest.mark.parametrize("gone", [("journal.db",), ("journal.db", "tables.db")])
def test_a_directory_without_its_journal_is_not_a_new_one(tmp_path: Path, gone: tuple[str, ...]) -> None:
    store = SqliteStore(tmp_path / "project", "FULL")
    journal = store.open()
    tables = journal.tables()
    exchange = lived(journal, tables, 9, 300, 0.0)
    project(exchange, tables)
    tables.close()
    journal.close()
    for name in gone:
        (store.path / name).unlink()
    with pytest.raises(JournalDamaged, match=r"journal\.db is missing, but the directory is not new"):
        store.open()
    assert not (store.path / "journal.db").exists()


def test_a_first_start_that_failed_halfway_can_be_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = SqliteStore(tmp_path / "project", "FULL")
    with monkeypatch.context() as patched:
        patched.setattr("tocsin.journal.sqlite.journal.migrate", full)
        with pytest.raises(JournalUnavailable, match="disk_full"):
            store.open()
    store.open().close()


def full(*_: object, **__: object) -> None:
    raise JournalUnavailable("disk_full", "journal.db: database or disk is full")


def test_missing_tables_are_rebuilt(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "project", "FULL")
    journal = store.open()
    tables = journal.tables()
    exchange = lived(journal, tables, 9, 300, 0.5)
    tables.close()
    journal.close()
    (store.path / "tables.db").unlink()
    journal = store.open()
    tables = journal.tables()
    assert_same(reopen(journal, tables, SeededIds(0)).state, exchange.state)
    tables.close()
    journal.close()


def test_verification_names_every_damage_and_reads_on(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "project", "FULL")
    journal = store.open()
    tables = journal.tables()
    exchange = lived(journal, tables, 9, 300, 0.5)
    project(exchange, tables)
    assert all(found.good for found in verify_directory(store.path)), "beside an open hub"
    tables.close()
    journal.close()
    groups = next(found for found in verify_directory(store.path) if found.what == "journal").read
    store.execute("UPDATE journal SET at = at + 1 WHERE first_seq IN (SELECT first_seq FROM journal LIMIT 2)")
    connection = apsw.Connection(str(store.path / "tables.db"))
    connection.execute("UPDATE signal_queue SET payload = '{}' WHERE payload IS NOT NULL")
    connection.execute("UPDATE agents SET role = 'human'")
    connection.close()
    found = {examined.what: examined for examined in verify_directory(store.path)}
    assert found["journal"].damaged == 2
    assert found["journal"].read == groups
    assert found["tables.db, table signal_queue"].damaged > 2
    assert found["tables.db, table agents"].damaged == found["tables.db, table agents"].read > 0
    assert found["tables.db, table threads"].good
    assert not found["tables.db, recovery point"].good


def test_a_full_disk_is_told_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tocsin.journal.sqlite import connection

    def small(*arguments: object, **named: object) -> apsw.Connection:
        opened: apsw.Connection = connection.connect(*arguments, **named)  # type: ignore[arg-type]
        connection.pragma(opened, "max_page_count=2")
        return opened

    monkeypatch.setattr("tocsin.journal.sqlite.journal.connect", small)
    with pytest.raises(JournalUnavailable, match="disk_full") as raised:
        SqliteJournal(tmp_path / "project", "test", checkpoint_bytes=1 << 20)
    assert "Free some space" in advice(raised.value)
