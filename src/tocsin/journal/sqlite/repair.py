"""Repair of a project's directory: missing files, damaged tables, lost commits."""

import contextlib
import logging
import shutil
from pathlib import Path

import apsw

from tocsin.journal.errors import JournalDamaged, JournalUnavailable, TablesDamaged
from tocsin.journal.sqlite import commit_note
from tocsin.journal.sqlite.connection import connect, translated
from tocsin.journal.sqlite.schema import migrate
from tocsin.journal.sqlite.tables import BACKUP, SqliteTables

__all__ = ["check_present", "reset_tables"]

_log = logging.getLogger(__name__)

_TABLES = "tables.db"
_DAMAGED = "tables.damaged.db"
_BESIDE = ("", "-wal", "-shm")


def check_present(path: Path, project: str) -> None:
    """Raise if the journal's file is missing although the directory has held a project."""
    if (path / "journal.db").exists():
        return
    evidence = [name for name in ("journal.db-wal", _TABLES, BACKUP, "tokens.db") if _has_content(path / name)]
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
        if not backed_up:
            migrate(source, "tables")
        try:
            target = connect(path / _TABLES, "NORMAL", vfs, damaged=TablesDamaged)
        except TablesDamaged:
            # Not even its header can be read. Nothing can have it open, so it can be removed.
            for suffix in _BESIDE:
                (path / f"{_TABLES}{suffix}").unlink(missing_ok=True)
            target = connect(path / _TABLES, "NORMAL", vfs)
        closing.callback(target.close)
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
