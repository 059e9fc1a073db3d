"""The journal in a SQLite file: one insert per group, each in a transaction of its own."""

import contextlib
import logging
import math
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw

from tocsin.journal.base import BUFFERED, FLUSHED, Commit, Group, checked
from tocsin.journal.checksums import chained
from tocsin.journal.errors import (
    CommitFailed,
    CommitsLost,
    JournalDamaged,
    JournalUnavailable,
    JournalUnsupported,
    OwnershipLost,
    TablesDamaged,
)
from tocsin.journal.sqlite import commit_note
from tocsin.journal.sqlite.checkpoints import Checkpointer
from tocsin.journal.sqlite.commit_note import CommitNote
from tocsin.journal.sqlite.connection import connect, translated
from tocsin.journal.sqlite.log_reserve import LogReserve
from tocsin.journal.sqlite.repair import PAGE_SIZE, check_present, lock_project, reset_tables
from tocsin.journal.sqlite.schema import migrate
from tocsin.journal.sqlite.tables import SqliteTables
from tocsin.journal.tables import Tables
from tocsin.journal.terms import OwnershipTerms

__all__ = ["SqliteJournal"]

_log = logging.getLogger(__name__)

_MODES = {"FULL": Commit(FLUSHED, 1), "NORMAL": Commit(BUFFERED, 1)}
_INSERT = """
INSERT INTO journal (first_seq, last_seq, at, epoch, checksum, events, chain)
SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7 FROM ownership WHERE epoch = ?4"""
_FROM = "SELECT coalesce(max(first_seq), 0) FROM journal WHERE first_seq <= ?"
_READ = """
SELECT first_seq, last_seq, at, epoch, CAST(events AS BLOB), checksum, chain FROM journal
WHERE first_seq >= ? AND last_seq > ? ORDER BY first_seq LIMIT ?"""
_LAST = "SELECT last_seq, at, chain FROM journal ORDER BY first_seq DESC LIMIT 1"
_BEFORE = "SELECT chain FROM journal WHERE first_seq < ? ORDER BY first_seq DESC LIMIT 1"
_CHUNK = 64


class SqliteJournal:
    """One project's journal in a directory."""

    def __init__(
        self,
        path: Path,
        project: str = "default",
        *,
        mode: str = "FULL",
        checkpoint_bytes: int,
        log_reserve_bytes: int = 0,
        vfs: str | None = None,
        commit_timeout_s: float | None = None,
    ) -> None:
        if mode not in _MODES:
            raise JournalUnsupported(f"{mode!r} is not a durability mode of SQLite: use one of {', '.join(_MODES)}")
        self.project = project
        self.epoch = 0
        #: No other machine can take a directory over while its lock is held.
        self.terms: OwnershipTerms | None = None
        self.commit_timeout_s = commit_timeout_s
        self._path = path
        self._mode = mode
        self._vfs = vfs
        self._commit = _MODES[mode]
        self._flushed = self._commit.durability == FLUSHED
        self._reading = threading.Lock()
        self._closing = contextlib.ExitStack()
        self._last_seq = self._chain = 0
        self._reserve = LogReserve(self._file, PAGE_SIZE, log_reserve_bytes if self._flushed and vfs is None else 0)
        with contextlib.ExitStack() as opening:
            opening.callback(self._closing.close)
            with translated(JournalUnavailable, path.name):
                path.mkdir(parents=True, exist_ok=True)
                self._lock = lock_project(path, project)
            self._closing.callback(self._lock.close)
            check_present(path, project)
            self._note = CommitNote(path / commit_note.NAME)
            self._closing.callback(self._note.close)
            self._writer = self._connect_writer()
            self._closing.callback(lambda: _close(self._writer))
            migrate(self._writer, "journal")
            self._take_ownership()
            self._reader = self._connect()
            self._closing.callback(lambda: _close(self._reader))
            self._load_end()
            self._checkpoints = Checkpointer(path / "journal.db", checkpoint_bytes, vfs, self._note.sync)
            self._closing.callback(self._checkpoints.close)
            self._reserve.extend(self._writer)
            opening.pop_all()

    def append(self, group: Group) -> Commit:
        """Make a group durable; it must follow the last one."""
        if group.first_seq != self._last_seq + 1:
            raise CommitFailed("conflict", f"event {group.first_seq} does not follow event {self._last_seq}")
        chain = chained(self._chain, group.checksum)
        with translated(CommitFailed, "journal.db"):
            self._writer.execute(
                _INSERT, (group.first_seq, group.last_seq, group.at, group.epoch, group.checksum, group.events, chain)
            )
            if not self._writer.changes():
                raise OwnershipLost(self.project, group.epoch)
        self._last_seq, self._chain = group.last_seq, chain
        self._note.write(group.last_seq, flushed=self._flushed)
        self._checkpoints.appended(self._reserve.take_written(self._writer))
        self._reserve.extend(self._writer)
        return self._commit

    def read(self, after_seq: int, limit: int = 0) -> Iterator[Group]:
        """Return the groups that end after a sequence number, checked and in order; `limit` 0 is all."""
        pruned = self.pruned_seq()
        if after_seq < pruned:
            raise JournalDamaged(f"journal.db: events {after_seq + 1} to {pruned} were requested but have been pruned")
        first = int(self._one(_FROM, (after_seq + 1,)))
        return checked(self._groups(first, after_seq, limit), after_seq, "journal.db", self._chain_before(first))

    def _groups(self, first: int, after_seq: int, limit: int) -> Iterator[Group]:
        left = limit
        while True:
            chunk = min(_CHUNK, left) if limit else _CHUNK
            with self._reading, translated(JournalUnavailable, "journal.db"):
                rows: list[Any] = self._reader.execute(_READ, (first, after_seq, chunk)).fetchall()
            for row in rows:
                yield Group(*row)
            left -= len(rows)
            if len(rows) < chunk or (limit and not left):
                return
            first = rows[-1][0] + 1

    def last_seq(self) -> int:
        """Return the sequence number of the last event."""
        return self._last_seq

    def last_at(self) -> int:
        """Return when the last event happened; 0 where none has, or none is left."""
        return self._stored_last()[1]

    def pruned_seq(self) -> int:
        """Return the sequence number of the last pruned event."""
        return int(self._one("SELECT pruned_seq FROM ownership"))

    def prune(self, upto_seq: int, before_at: int, limit: int) -> int:
        """Delete up to `limit` of the oldest groups that end by a sequence number and a time; return their number."""
        with self._reading, translated(JournalUnavailable, "journal.db"):
            rows: list[Any] = self._reader.execute(
                "SELECT first_seq, last_seq, at, chain FROM journal ORDER BY first_seq LIMIT ?", (limit,)
            ).fetchall()
            gone = [row for row in rows if row[1] <= upto_seq and row[2] < before_at]
            if gone:
                with self._reader:
                    self._reader.execute(
                        "UPDATE ownership SET pruned_seq = ?, pruned_chain = ?", (gone[-1][1], gone[-1][3])
                    )
                    self._reader.execute("DELETE FROM journal WHERE first_seq <= ?", (gone[-1][0],))
        return len(gone)

    def harden(self) -> None:
        """Make every append so far safe from a power failure."""
        if self._commit.durability == BUFFERED:
            self._checkpoints.checkpoint()

    def probe(self) -> Commit:
        """Make a commit without events, to find out whether commits work and how durable they are."""
        with translated(CommitFailed, "journal.db"):
            self._writer.execute("UPDATE ownership SET probes = probes + 1 WHERE epoch = ?", (self.epoch,))
            if not self._writer.changes():
                raise OwnershipLost(self.project, self.epoch)
        return self._commit

    def announce(self, seq: int) -> None:
        """Do nothing: no other process uses a SQLite journal."""

    def recover(self) -> None:
        """Reconnect as the owner after a failed commit."""
        _close(self._writer)
        self._writer = self._connect_writer()
        self._load_end()
        if int(self._one("SELECT epoch FROM ownership")) != self.epoch:
            raise OwnershipLost(self.project, self.epoch)

    def renew(self) -> None:
        """Do nothing: the lock of the directory needs no renewal."""

    def lease_left_s(self) -> float:
        """Return infinity: the lock of the directory does not end."""
        return math.inf

    def tables(self) -> Tables:
        """Open the project's tables, on a connection of their own."""
        return SqliteTables(self._path / "tables.db", self._vfs)

    def reset_tables(self, error: TablesDamaged) -> None:
        """Put a backup, or empty tables, in the place of damaged ones; raise if the journal cannot complete them."""
        reset_tables(self._path, self.pruned_seq(), error, self._vfs)

    def close(self) -> None:
        """Close the journal and give up ownership."""
        self._closing.close()

    @property
    def _file(self) -> Path:
        return self._path / "journal.db"

    def _connect(self) -> apsw.Connection:
        return connect(self._file, self._mode, self._vfs, PAGE_SIZE)

    def _connect_writer(self) -> apsw.Connection:
        connection = self._connect()
        self._reserve.watch(connection)
        return connection

    def _take_ownership(self) -> None:
        with translated(JournalUnavailable, "journal.db"), self._writer:
            self._writer.execute(
                "INSERT INTO ownership VALUES (1, ?, 1, 0, 0, 0) ON CONFLICT (id) DO UPDATE SET epoch = epoch + 1",
                (self.project,),
            )
            project, self.epoch = self._writer.execute("SELECT project, epoch FROM ownership").get
        if project != self.project:
            raise JournalUnsupported(f"this is the journal of project {project!r}, not of {self.project!r}")

    def _load_end(self) -> None:
        """Find the end of the journal; raise if it is before the last confirmed commit.

        A commit that was stored without being confirmed counts from now on, so it is noted: it must not disappear.
        """
        self._last_seq, _, chain = self._stored_last()
        # A group from before there were chain values begins a new chain.
        self._chain = chain or 0
        noted = self._note.read()
        if noted.seq < self._last_seq:
            self._note.write(self._last_seq, flushed=self._flushed)
        if noted.seq <= self._last_seq:
            return
        lost = CommitsLost("journal.db", self._last_seq, noted.seq)
        if noted.flushed:
            raise lost
        _log.error("%s; they were not on disk yet (durability NORMAL), and the project continues without them", lost)
        self._note.reset(self._last_seq, flushed=False)

    def _stored_last(self) -> tuple[int, int, int | None]:
        """Return the last event's number and time, and the chain value of its group."""
        with self._reading, translated(JournalUnavailable, "journal.db"):
            row = self._reader.execute(_LAST).fetchone()
            pruned, pruned_chain = self._reader.execute("SELECT pruned_seq, pruned_chain FROM ownership").get
        return (pruned, 0, pruned_chain) if row is None else (max(row[0], pruned), row[1], row[2])

    def _chain_before(self, first_seq: int) -> int | None:
        """Return the chain value of the group before one; null where it is not known."""
        with self._reading, translated(JournalUnavailable, "journal.db"):
            rows: Any = self._reader.execute(_BEFORE, (first_seq,)).fetchall()
            if not rows:
                rows = self._reader.execute("SELECT pruned_chain FROM ownership").fetchall()
        chain: int | None = rows[0][0]
        return chain

    def _one(self, sql: str, values: tuple[int, ...] = ()) -> int:
        with self._reading, translated(JournalUnavailable, "journal.db"):
            value: int = self._reader.execute(sql, values).get
        return value


def _close(connection: apsw.Connection) -> None:
    with contextlib.suppress(apsw.Error):
        connection.close()
