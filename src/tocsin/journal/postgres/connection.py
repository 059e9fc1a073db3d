"""Connections to PostgreSQL: required version, settings, migrations, and translation of exceptions."""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psycopg
from psycopg import errors, sql

from tocsin.journal.errors import CommitFailed, JournalDamaged, JournalError, JournalUnavailable, JournalUnsupported
from tocsin.journal.migrations import migrations, pending

__all__ = ["Connection", "connect", "hang_up", "migrate", "translated"]

Connection = psycopg.Connection[tuple[Any, ...]]

_VERSION_MIN = 150000
#: Serialises hubs that bring the schema up to date at the same time.
_MIGRATION_LOCK = 0x70C51


def connect(dsn: str, purpose: str, synchronous_commit: str = "remote_apply") -> Connection:
    """Open a connection that commits every statement by itself."""
    with translated(JournalUnavailable):
        connection = psycopg.connect(dsn, autocommit=True, connect_timeout=10, application_name=f"tocsin {purpose}")
        try:
            if connection.info.server_version < _VERSION_MIN:
                found = connection.info.parameter_status("server_version")
                raise JournalUnsupported(f"PostgreSQL {found} is too old: 15 or newer is needed")
            connection.execute(sql.SQL("SET synchronous_commit = {}").format(sql.Literal(synchronous_commit)))
            connection.execute("SET client_min_messages = warning")
        except BaseException:
            connection.close()
            raise
        return connection


def hang_up(connection: Connection) -> None:
    """Shut a connection down, so that another thread stops waiting on it.

    Closing it would free the number of its socket for the next connection, on which that thread would wait forever.
    """
    with suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(connection.fileno())) as line:
        line.shutdown(socket.SHUT_RDWR)


def migrate(connection: Connection, upto: int | None = None) -> int:
    """Apply the numbered steps that the schema lacks, in one transaction; return its version."""
    steps = migrations("tocsin.journal.postgres", "migrations")
    with translated(JournalUnavailable), connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (_MIGRATION_LOCK,))
        connection.execute("CREATE SCHEMA IF NOT EXISTS tocsin")
        connection.execute(
            "CREATE TABLE IF NOT EXISTS tocsin.migrations"
            " (version int PRIMARY KEY, name text NOT NULL, applied_at timestamptz NOT NULL)"
        )
        row = connection.execute("SELECT coalesce(max(version), 0) FROM tocsin.migrations").fetchone()
        version = 0 if row is None else int(row[0])
        for step in pending(steps, version, "the database")[: None if upto is None else max(0, upto - version)]:
            connection.execute(step.sql.encode())
            connection.execute("INSERT INTO tocsin.migrations VALUES (%s, %s, now())", (step.number, step.name))
            version = step.number
    return version


@contextmanager
def translated(otherwise: type[CommitFailed] | type[JournalUnavailable]) -> Iterator[None]:
    """Turn PostgreSQL's exceptions into the journal's; temporary ones become `otherwise`."""
    try:
        yield
    except JournalError:
        raise
    except errors.DiskFull as error:
        raise otherwise("disk_full", str(error)) from error
    except (errors.DataCorrupted, errors.IndexCorrupted) as error:
        raise JournalDamaged(str(error)) from error
    except errors.UniqueViolation as error:
        raise otherwise("conflict", str(error)) from error
    except errors.IoError as error:
        raise otherwise("io_error", str(error)) from error
    except (psycopg.OperationalError, psycopg.InterfaceError, errors.ReadOnlySqlTransaction) as error:
        raise otherwise("connection_lost", str(error)) from error
    except psycopg.Error as error:
        reason = "refused" if otherwise is CommitFailed else "database_error"
        raise otherwise(reason, f"{type(error).__name__}: {error}") from error
