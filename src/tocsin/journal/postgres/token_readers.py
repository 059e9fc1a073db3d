"""Processes that use the tokens of a project without owning it: what each of them has read, and the wait for that.

Theory of operation. Every change of tokens gives the project's tokens a new version, in the same transaction. A reader
has a row with the version that it has read and the time of the database server, which it writes after every reading and
every `beat_s`. The owner answers a change when no reader has an older version, leaving out those whose row is older
than their lease. A reader counts its own lease from before it wrote the row, by a clock that never goes back, so it
stops using the tokens before the owner stops waiting for it. Notifications only save time: both sides look again
without them. They are no part of the change, because NOTIFY locks the whole database until its commit ends.
"""

from tocsin.journal.postgres.connection import Connection

__all__ = ["announce", "await_readers", "count_change", "leave", "listen", "show_read", "version_of", "wait_for_change"]

_CHANGED, _READ = "tocsin_tokens", "tocsin_tokens_read"
_COUNT = """
INSERT INTO tocsin.token_versions (project, version) VALUES (%s, 1)
ON CONFLICT (project) DO UPDATE SET version = token_versions.version + 1 RETURNING version"""
_VERSION = "SELECT version FROM tocsin.token_versions WHERE project = %s"
_SHOW = """
INSERT INTO tocsin.token_readers (reader, project, version, lease_s, read_at) VALUES (%s, %s, %s, %s, now())
ON CONFLICT (reader) DO UPDATE SET version = EXCLUDED.version, read_at = EXCLUDED.read_at"""
#: The time until the next lease ends of a reader that has not read a version.
_BEHIND = """
SELECT min(extract(epoch FROM read_at + lease_s * interval '1 second' - now()))::float8 FROM tocsin.token_readers
WHERE project = %s AND version < %s AND read_at + lease_s * interval '1 second' > now()"""
#: Rows of readers that have been gone for a long time.
_FORGET = "DELETE FROM tocsin.token_readers WHERE read_at < now() - 100 * lease_s * interval '1 second'"
_LEAVE = "DELETE FROM tocsin.token_readers WHERE reader = %s"
_TELL = "SELECT pg_notify(%s, %s)"


def count_change(connection: Connection, project: str) -> int:
    """Give the tokens of a project a new version inside the caller's transaction, and return it."""
    row = connection.execute(_COUNT, (project,)).fetchone()
    return 0 if row is None else int(row[0])


def announce(connection: Connection, project: str) -> None:
    """Notify the readers of a project that its tokens have changed."""
    connection.execute(_TELL, (_CHANGED, project))


def await_readers(connection: Connection, project: str, version: int) -> None:
    """Return when every reader has read a version, or has not been heard of for its lease."""
    connection.execute(f"LISTEN {_READ}".encode())
    try:
        while True:
            row = connection.execute(_BEHIND, (project, version)).fetchone()
            if row is None or row[0] is None:
                return
            list(connection.notifies(timeout=row[0], stop_after=1))
    finally:
        connection.execute(f"UNLISTEN {_READ}".encode())


def version_of(connection: Connection, project: str) -> int:
    """Return the version of the tokens of a project; 0 if they have never been changed."""
    row = connection.execute(_VERSION, (project,)).fetchone()
    return 0 if row is None else int(row[0])


def listen(connection: Connection) -> None:
    """Receive notifications of changes on a connection."""
    connection.execute(f"LISTEN {_CHANGED}".encode())


def wait_for_change(connection: Connection, timeout_s: float) -> None:
    """Return after a notification, or after a time."""
    list(connection.notifies(timeout=timeout_s, stop_after=1))


def show_read(connection: Connection, reader: str, project: str, version: int, lease_s: float) -> None:
    """Show that a reader works, and which version it has read."""
    connection.execute(_SHOW, (reader, project, version, lease_s))
    connection.execute(_TELL, (_READ, project))


def leave(connection: Connection, reader: str) -> None:
    """Remove a reader, and those that have been gone for a long time."""
    connection.execute(_LEAVE, (reader,))
    connection.execute(_FORGET)
    connection.execute(_TELL, (_READ, ""))
