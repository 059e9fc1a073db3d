"""Repair of a project's directory: missing files, damaged tables, lost commits."""

import contextlib
import logging
import shutil
from pathlib import Path
from typing import Any

import apsw
import msgspec

from tocsin.journal.errors import JournalDamaged, JournalUnavailable, ProjectBusy, TablesDamaged
from tocsin.journal.segments import read_segment
from tocsin.journal.sqlite import commit_note
from tocsin.journal.sqlite.connection import connect, make_private, pragma, translated
from tocsin.journal.sqlite.schema import migrate
from tocsin.journal.sqlite.tables import BACKUP, SqliteTables

__all__ = ["PAGE_SIZE", "Accepted", "accept_loss", "check_present", "lock_project", "reset_tables"]

_log = logging.getLogger(__name__)

#: Page size of the journal, bytes.
PAGE_SIZE = 8192
_TABLES = "tables.db"
_DAMAGED = "tables.damaged.db"
_BESIDE = ("", "-wal", "-shm")


def lock_project(path: Path, project: str) -> apsw.Connection:
    """Lock the project against other hubs, by a transaction that stays open until the connection is closed."""
    make_private(path / "lock.db")
    connection = apsw.Connection(str(path / "lock.db"))
    try:
        connection.execute("BEGIN EXCLUSIVE")
    except apsw.BusyError:
        connection.close()
        raise ProjectBusy(project) from None
    except BaseException:
        connection.close()
        raise
    return connection


def check_present(path: Path, project: str) -> None:
    """Raise if the journal's file is missing although the directory has held a project."""
    if (path / "journal.db").exists():
        return
    # Tokens alone are no evidence: they can be issued before the first start. The admin token is written after it.
    evidence = [name for name in ("journal.db-wal", _TABLES, BACKUP, "admin.token") if _has_content(path / name)]
    if commit_note.noted(path / commit_note.NAME).seq:
        evidence.append(commit_note.NAME)
    if any((path / "segments" / f"project={project}").glob("date=*/*")):
        evidence.append("segments")
    if evidence:
        raise JournalDamaged(
            f"{path}: journal.db is missing, but the directory is not new: it has {', '.join(evidence)}."
            " To begin a new project, use another directory"
        )


def _has_content(file: Path) -> bool:
    return file.exists() and file.stat().st_size > 0


def reset_tables(path: Path, pruned_seq: int, error: TablesDamaged, vfs: str | None = None) -> None:
    """Replace the tables by their backup, or by empty ones, from which the journal can rebuild them.

    The damaged file is kept beside them. Raise if the journal no longer has the events that would be needed.
    """
    backup = path / BACKUP
    backed_up = _backed_up_seq(backup)
    if backed_up < pruned_seq:
        raise TablesDamaged(
            f"{error}. They cannot be rebuilt: the journal begins with event {pruned_seq + 1},"
            f" and there is {f'a backup up to event {backed_up}' if backed_up else 'no intact backup'}"
        ) from error
    _keep_damaged(path)
    with contextlib.ExitStack() as closing:
        source = apsw.Connection(str(backup), flags=apsw.SQLITE_OPEN_READONLY) if backed_up else apsw.Connection("")
        closing.callback(source.close)
        # A copy of a database has the page size of the original.
        page_size = int(str(pragma(source, "page_size")))
        try:
            target = connect(path / _TABLES, "NORMAL", vfs, page_size, TablesDamaged)
        except TablesDamaged:
            # Not even its header can be read. Nothing can have it open, so it can be removed.
            for suffix in _BESIDE:
                (path / f"{_TABLES}{suffix}").unlink(missing_ok=True)
            target = connect(path / _TABLES, "NORMAL", vfs, page_size)
        closing.callback(target.close)
        if not backed_up:
            # Pages are copied as they are, so those of the empty tables must have the size of the file's.
            pragma(source, f"page_size={pragma(target, 'page_size')}")
            migrate(source, "tables")
        with translated(JournalUnavailable, _TABLES), target.backup("main", source, "main") as copy:
            while not copy.done:
                copy.step()


def _keep_damaged(path: Path) -> None:
    """Copy the damaged file, for whoever looks into the cause; only the last one is kept."""
    try:
        for suffix in _BESIDE[:2]:
            (path / f"{_DAMAGED}{suffix}").unlink(missing_ok=True)
            if (path / f"{_TABLES}{suffix}").exists():
                shutil.copyfile(path / f"{_TABLES}{suffix}", path / f"{_DAMAGED}{suffix}")
    except OSError as error:
        _log.warning("the damaged tables could not be kept as %s: %s", _DAMAGED, error)


def _backed_up_seq(backup: Path) -> int:
    """Return the last event in a backup of the tables; 0 where there is none that can be read."""
    if not backup.exists():
        return 0
    try:
        tables = SqliteTables(backup)
    except (JournalDamaged, JournalUnavailable) as error:
        _log.warning("the backup of the tables cannot be used: %s", error)
        return 0
    try:
        return tables.standing().seq
    except (JournalDamaged, JournalUnavailable) as error:
        _log.warning("the backup of the tables cannot be used: %s", error)
        return 0
    finally:
        tables.close()


class Accepted(msgspec.Struct, frozen=True):
    """The commits that were given up when their loss was accepted."""

    #: Last event that is left.
    last_seq: int
    #: Last event that had been confirmed.
    confirmed_seq: int
    #: Whether the tables had to be reset because they included lost events.
    tables_reset: bool
    #: Segment files that were renamed because they include lost events.
    segments: list[str]


def accept_loss(path: Path, project: str) -> Accepted:
    """Continue a project without the commits that its journal has lost; no hub may have it open."""
    with translated(JournalUnavailable, path.name):
        lock = lock_project(path, project)
    try:
        check_present(path, project)
        connection = connect(path / "journal.db", "FULL", page_size=PAGE_SIZE)
        try:
            migrate(connection, "journal")
            with translated(JournalUnavailable, "journal.db"):
                rows: list[Any] = connection.execute(
                    "SELECT coalesce((SELECT max(last_seq) FROM journal), 0), (SELECT pruned_seq FROM ownership)"
                ).fetchall()
        finally:
            connection.close()
        pruned_seq = rows[0][1] or 0
        last_seq = max(rows[0][0], pruned_seq)
        note = commit_note.CommitNote(path / commit_note.NAME)
        try:
            confirmed = max(note.read().seq, last_seq)
            projected = _tables_seq(path / _TABLES)
            ahead = projected > last_seq
            if ahead:
                backup = path / BACKUP
                if _backed_up_seq(backup) > last_seq:
                    backup.unlink()
                error = TablesDamaged(f"the tables include event {projected}, the journal ends with {last_seq}")
                reset_tables(path, pruned_seq, error)
            lost = [_renamed(file) for file in _segments_beyond(path, project, last_seq)]
            _forget_segments(path / _TABLES, last_seq)
            note.reset(last_seq, flushed=True)
        finally:
            note.close()
    finally:
        lock.close()
    return Accepted(last_seq, max(confirmed, projected), ahead, lost)


def _tables_seq(file: Path) -> int:
    if not file.exists():
        return 0
    tables = SqliteTables(file)
    try:
        return tables.standing().seq
    finally:
        tables.close()


def _forget_segments(file: Path, last_seq: int) -> None:
    """Delete the record of segments that include events after a number."""
    if file.exists():
        connection = connect(file, "FULL")
        try:
            migrate(connection, "tables")
            with translated(JournalUnavailable, _TABLES):
                connection.execute("DELETE FROM segments WHERE last_seq > ?", (last_seq,))
        finally:
            connection.close()


def _segments_beyond(path: Path, project: str, last_seq: int) -> list[Path]:
    """Return the segment files with events after a number: those that begin after it, and the one that spans it."""
    files = sorted((path / "segments" / f"project={project}").glob("date=*/*.ndjson.zst"), key=lambda file: file.name)
    beyond = [file for file in files if int(file.name.partition(".")[0]) > last_seq]
    before = files[: len(files) - len(beyond)]
    if before and int(before[-1].name.partition(".")[0]) + len(read_segment(before[-1])) - 1 > last_seq:
        beyond.insert(0, before[-1])
    return beyond


def _renamed(file: Path) -> str:
    file.rename(file.with_name(f"{file.name}.lost"))
    return file.name
