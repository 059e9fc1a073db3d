"""Connections to SQLite: required version, settings, and translation of exceptions."""

import contextlib
import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw

from tocsin.journal.errors import CommitFailed, JournalDamaged, JournalError, JournalUnavailable, JournalUnsupported
from tocsin.journal.open_files import reason_of

__all__ = ["check_version", "connect", "make_private", "pragma", "translated"]

#: Older versions have a WAL-reset bug that a checkpoint during a commit can trigger.
_VERSION_MIN = (3, 51, 3)
_BUSY_MS = 30_000


def check_version(version: str) -> None:
    """Refuse a version of SQLite that can corrupt a journal."""
    if tuple(int(part) for part in version.split(".")) < _VERSION_MIN:
        wanted = ".".join(map(str, _VERSION_MIN))
        raise JournalUnsupported(f"SQLite {version} is too old: {wanted} or newer is needed")


def connect(
    path: Path,
    synchronous: str,
    vfs: str | None = None,
    page_size: int = 4096,
    damaged: type[JournalDamaged] = JournalDamaged,
) -> apsw.Connection:
    """Open a database in WAL mode, without automatic checkpoints; a broken file raises `damaged`."""
    check_version(apsw.sqlite_lib_version())
    with translated(JournalUnavailable, path.name, damaged):
        make_private(path)
        connection = apsw.Connection(str(path), vfs=vfs)
        try:
            connection.set_busy_timeout(_BUSY_MS)
            pragma(connection, f"page_size={page_size}")
            if pragma(connection, "journal_mode=WAL") != "wal":
                raise JournalUnsupported(f"{path.name} cannot be in WAL mode: is it on a network drive?")
            pragma(connection, f"synchronous={synchronous}")
            pragma(connection, "wal_autocheckpoint=0")
            pragma(connection, "foreign_keys=ON")
        except BaseException:
            connection.close()
            raise
        return connection


def make_private(path: Path) -> None:
    """Create a database's file, or change its mode, so that only its owner can read it.

    SQLite gives its WAL the mode of the database. The mode of the directory is the operator's choice.
    """
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    for file in (path, path.with_name(path.name + "-wal"), path.with_name(path.name + "-shm")):
        with contextlib.suppress(FileNotFoundError, PermissionError):
            mode = file.stat().st_mode
            if mode & 0o077:
                file.chmod(mode & 0o700)


def pragma(connection: apsw.Connection, text: str) -> object:
    """Run one pragma and return its first value."""
    row = connection.execute(f"PRAGMA {text}").fetchone()
    return None if row is None else row[0]


@contextmanager
def translated(
    otherwise: type[CommitFailed] | type[JournalUnavailable],
    where: str,
    damaged: type[JournalDamaged] = JournalDamaged,
) -> Iterator[None]:
    """Turn SQLite's exceptions into the journal's: those of a broken file become `damaged`, others `otherwise`."""
    try:
        yield
    except JournalError:
        raise
    except apsw.FullError as error:
        raise otherwise("disk_full", f"{where}: {error}") from error
    except (apsw.CorruptError, apsw.NotADBError, UnicodeDecodeError) as error:
        raise damaged(f"{where}: {error}") from error
    except (apsw.IOError, OSError) as error:
        full = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
        raise otherwise("disk_full" if full else reason_of(error, "io_error"), f"{where}: {error}") from error
    except apsw.CantOpenError as error:
        reason = reason_of(error, "refused" if otherwise is CommitFailed else "database_error")
        raise otherwise(reason, f"{where}: {type(error).__name__}: {error}") from error
    except apsw.Error as error:
        if isinstance(error, apsw.SQLError) and damaged is not JournalDamaged:
            # The statements are fixed, so the schema is not what it was.
            raise damaged(f"{where}: {error}") from error
        reason = "refused" if otherwise is CommitFailed else "database_error"
        raise otherwise(reason, f"{where}: {type(error).__name__}: {error}") from error
