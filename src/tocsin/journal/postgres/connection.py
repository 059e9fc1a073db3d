"""Connections to PostgreSQL: required version, settings, time limits, and translation of exceptions.

Every statement has the time limit of its connection. The limit is measured here, because a server that is stopped or
cut off does not enforce its own. A connection whose statement took too long is closed: its state is not known.
"""

import math
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psycopg
from psycopg import errors, sql
from psycopg.abc import PQGen

from tocsin.journal.errors import CommitFailed, JournalDamaged, JournalError, JournalUnavailable, JournalUnsupported
from tocsin.journal.open_files import reason_of

__all__ = ["Connection", "connect", "hang_up", "translated", "use_schema"]

#: Time to connect where no other limit is given, seconds.
_CONNECT_S = 10.0
#: Interval at which the driver looks for signals while it waits, seconds.
_INTERVAL_S = 0.1
_VERSION_MIN = 150000


class Connection(psycopg.Connection[tuple[Any, ...]]):
    """A connection whose statements have a time limit."""

    #: Time for one statement, seconds; null is no limit.
    timeout_s: float | None = None

    def wait(self, gen: PQGen[Any], interval: float = _INTERVAL_S, timeout: float | None = None) -> Any:
        """Wait for a statement; close the connection and raise if that takes too long."""
        limit = self.timeout_s if timeout is None else timeout
        try:
            return super().wait(gen, interval, limit)
        except errors._WaitTimeout:
            if timeout is not None:
                raise  # the caller's own limit
            self.pgconn.finish()
            raise psycopg.OperationalError(f"the database did not answer within {limit:g} s") from None


def connect(
    dsn: str,
    purpose: str,
    synchronous_commit: str = "remote_apply",
    timeout_s: float | None = None,
    *,
    schema: str | None = None,
) -> Connection:
    """Open a connection that commits every statement by itself; `timeout_s` limits each statement.

    Tables without a schema in their names are those of `schema`.
    """
    with translated(JournalUnavailable):
        connection = Connection.connect(
            dsn,
            autocommit=True,
            connect_timeout=math.ceil(timeout_s or _CONNECT_S),
            application_name=f"tocsin {purpose}",
        )
        connection.timeout_s = timeout_s
        try:
            if connection.info.server_version < _VERSION_MIN:
                found = connection.info.parameter_status("server_version")
                raise JournalUnsupported(f"PostgreSQL {found} is too old: 15 or newer is needed")
            connection.execute(sql.SQL("SET synchronous_commit = {}").format(sql.Literal(synchronous_commit)))
            connection.execute("SET client_min_messages = warning")
            if schema is not None:
                use_schema(connection, schema)
        except BaseException:
            connection.close()
            raise
        return connection


def use_schema(connection: Connection, schema: str) -> None:
    """Find tables without a schema in their names in a schema from now on."""
    with translated(JournalUnavailable):
        connection.execute(sql.SQL("SET search_path = {}").format(sql.Identifier(schema)))


def hang_up(connection: Connection) -> None:
    """Shut a connection down, so that another thread stops waiting on it.

    Closing it would free the number of its socket for the next connection, on which that thread would wait forever.
    """
    with suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(connection.fileno())) as line:
        line.shutdown(socket.SHUT_RDWR)


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
    except (psycopg.OperationalError, psycopg.InterfaceError, errors.ReadOnlySqlTransaction, OSError) as error:
        raise otherwise(reason_of(error, "connection_lost"), str(error)) from error
    except psycopg.Error as error:
        reason = "refused" if otherwise is CommitFailed else "database_error"
        raise otherwise(reason, f"{type(error).__name__}: {error}") from error
