"""The write-ahead log is extended ahead of commits, which then overwrite zeros; no commit depends on it."""

import os
import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any

import apsw
import pytest

from tests.stores.test_journal import group, ranges
from tocsin.journal.errors import CommitFailed
from tocsin.journal.sqlite import SqliteJournal
from tocsin.journal.sqlite.checkpoints import Checkpointer
from tocsin.journal.sqlite.repair import PAGE_SIZE

STEP = 64 * 1024
MANY = 1 << 30


def opened(path: Path, checkpoint_bytes: int = MANY, reserve_bytes: int = STEP, mode: str = "FULL") -> SqliteJournal:
    return SqliteJournal(path, "test", mode=mode, checkpoint_bytes=checkpoint_bytes, log_reserve_bytes=reserve_bytes)


def append(journal: SqliteJournal, count: int) -> None:
    for _ in range(count):
        journal.append(group(journal.last_seq() + 1, 1, journal.epoch))


def length(path: Path) -> int:
    return (path / "journal.db-wal").stat().st_size


def test_commits_overwrite_what_was_written_ahead(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    lengths = [length(tmp_path)]
    for _ in range(60):
        append(journal, 1)
        lengths.append(length(tmp_path))
    assert lengths[0] >= STEP, "the first commit has its space already"
    grown = [after - before for before, after in pairwise(lengths) if after != before]
    assert 1 < len(grown) < 15, "a few commits of sixty are followed by another step"
    assert set(grown) == {STEP}
    journal.close()
    assert not (tmp_path / "journal.db-wal").exists()


def test_a_crash_leaves_zeros_that_are_no_commits(tmp_path: Path) -> None:
    journal = opened(tmp_path / "project")
    append(journal, 7)
    shutil.copytree(tmp_path / "project", tmp_path / "killed")
    journal.close()
    assert (tmp_path / "killed" / "journal.db-wal").read_bytes().endswith(bytes(PAGE_SIZE))
    again = opened(tmp_path / "killed")
    assert again.last_seq() == 7
    append(again, 3)
    assert ranges(again, 6) == [(number, number) for number in (7, 8, 9, 10)]
    again.close()


def test_a_log_that_begins_again_keeps_its_space(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    append(journal, 40)
    before = length(tmp_path)
    other = apsw.Connection(str(tmp_path / "journal.db"))
    other.execute("SELECT count(*) FROM journal").fetchall()  # So that it knows the log.
    other.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_RESTART)
    append(journal, 40)
    assert length(tmp_path) == before
    other.close()
    assert len(ranges(journal, 0)) == 80
    journal.close()


def test_checkpoints_count_what_commits_write_to_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[int] = []
    monkeypatch.setattr(Checkpointer, "appended", lambda _, size: counted.append(size))
    journal = opened(tmp_path, reserve_bytes=0)
    append(journal, 5)
    assert min(counted) >= PAGE_SIZE, "even a group of a few bytes writes a page"
    assert max(counted[1:]) < 4 * PAGE_SIZE, "each commit counts once"
    journal.close()


def test_a_full_disk_only_stops_extending(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = opened(tmp_path)
    before = length(tmp_path)

    def full(*_: Any) -> int:
        raise OSError(28, "no space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    append(journal, 40)
    monkeypatch.undo()
    assert before < length(tmp_path) < before + 40 * 2 * PAGE_SIZE
    assert len(ranges(journal, 0)) == 40
    journal.close()


def test_a_commit_never_joins_a_transaction_that_was_left_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failing = False

    def traced(_cursor: apsw.Cursor, sql: str, _bindings: object) -> bool:
        nonlocal failing
        if sql == "ROLLBACK" and failing:
            failing = False
            raise apsw.IOError("the disk is gone")
        return True

    def watch(connection: apsw.Connection) -> None:
        connection.exec_trace = traced

    monkeypatch.setattr(apsw, "connection_hooks", [watch])
    journal = opened(tmp_path)
    failing = True
    while failing:  # until the log is extended
        append(journal, 1)
    count = journal.last_seq()
    with pytest.raises(CommitFailed):
        append(journal, 1)
    journal.recover()
    append(journal, 1)
    assert ranges(journal, 0) == [(number, number) for number in range(1, count + 2)]
    journal.close()


def test_a_journal_that_does_not_sync_reserves_nothing(tmp_path: Path) -> None:
    journal = opened(tmp_path, mode="NORMAL")
    append(journal, 1)
    assert length(tmp_path) < STEP
    journal.close()
