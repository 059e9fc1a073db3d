"""Ownership of a project in PostgreSQL: the lock, the epoch, and the lease that the owner renews.

Theory of operation. The owner's writing session holds the project's advisory lock, so a standby that waits for the
lock gets it as soon as the owner closes or dies. An owner that hangs keeps its session. It therefore renews a lease: a
number in `tocsin.ownership` that it counts up. A standby remembers when it saw that number change, by its own clock;
the clocks of two machines are never compared. When the number has not changed for the lease, the standby ends the
owner's session, gets the lock and takes the next epoch. What the former owner still sends is refused by its epoch.
"""

import time

import msgspec
from psycopg import errors

from tocsin.journal.errors import JournalUnavailable, OwnershipLost
from tocsin.journal.postgres.connection import Connection, translated
from tocsin.journal.postgres.schemas import lock_key

__all__ = [
    "Sighting",
    "Watch",
    "clock",
    "depose",
    "end_former_owner",
    "end_session",
    "lock",
    "lock_key",
    "look",
    "renew",
    "session_name",
    "take",
    "unlock",
]

#: Keeps counting while the machine sleeps, where the system has such a clock.
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)

_TAKE = """
INSERT INTO tocsin.projects (project, epoch, owner, address, owned_at) VALUES (%s, 1, %s, %s, now())
ON CONFLICT (project) DO UPDATE SET epoch = projects.epoch + 1, owner = EXCLUDED.owner, address = EXCLUDED.address,
owned_at = EXCLUDED.owned_at RETURNING epoch"""
_LEASE = """
INSERT INTO tocsin.ownership (project, epoch, renewals, lease_s) VALUES (%s, %s, 0, %s)
ON CONFLICT (project) DO UPDATE SET epoch = EXCLUDED.epoch, renewals = ownership.renewals + 1,
lease_s = EXCLUDED.lease_s"""
_RENEW = "UPDATE tocsin.ownership SET renewals = renewals + 1 WHERE project = %s AND epoch = %s"
_LOOK = """
SELECT p.epoch, p.owner, p.address, coalesce(o.renewals, 0), coalesce(o.lease_s, 0)
FROM tocsin.projects p LEFT JOIN tocsin.ownership o ON o.project = p.project AND o.epoch = p.epoch
WHERE p.project = %s"""
_HOLDER = """
FROM pg_locks l WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1
AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
AND l.classid::bigint = %s AND l.objid::bigint = %s AND l.pid <> pg_backend_pid()"""
#: The conditions on the lease are part of the statement: a new owner's session is not ended by mistake.
_DEPOSE = f"""
SELECT pg_terminate_backend(l.pid) {_HOLDER}
AND EXISTS (SELECT FROM tocsin.ownership WHERE project = %s AND epoch = %s AND renewals = %s)"""  # noqa: S608
#: The sessions of an owner; the key in their names is that of its project.
_END_ALL = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND split_part(application_name, ' ', 1) = 'tocsin'
AND split_part(application_name, ' ', 2) = ANY(%s) AND split_part(application_name, ' ', 3) = %s"""
_OWNER_PURPOSES = ["writer", "reader", "tables", "lease", "tokens"]
_END = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid = %s AND backend_start::text = %s"


class Sighting(msgspec.Struct, frozen=True):
    """The owner of a project as a standby saw it."""

    epoch: int
    #: Name of the hub that owns the project.
    hub: str
    #: Address at which that hub serves.
    address: str
    renewals: int
    #: Lease of the owner, seconds; 0 for one that does not renew.
    lease_s: float


class Watch:
    """Measures for how long an owner has not renewed; time in which nobody looked does not count."""

    def __init__(self) -> None:
        self._last: Sighting | None = None
        self._changed_at = 0.0
        self._looked_at = 0.0

    def is_over(self, seen: Sighting, now: float) -> bool:
        """Note what was seen, and tell whether the owner's lease has ended."""
        gap, self._looked_at = now - self._looked_at, now
        last, self._last = self._last, seen
        if last is None or (last.epoch, last.renewals) != (seen.epoch, seen.renewals) or gap > seen.lease_s / 2:
            self._changed_at = now
        return seen.lease_s > 0 and now - self._changed_at >= seen.lease_s


def clock() -> float:
    """Return a time in seconds that never goes back, for measuring leases."""
    return time.clock_gettime(_CLOCK)


def session_name(purpose: str, project: str) -> str:
    """Return the name of a session; PostgreSQL cuts long names off at the end."""
    return f"{purpose} {lock_key(project) & ((1 << 64) - 1):016x} {project}"


def lock(connection: Connection, project: str, wait_s: float) -> bool:
    """Take the project's lock, waiting for it up to a time; return whether it was taken."""
    key, until = lock_key(project), time.monotonic() + wait_s
    with translated(JournalUnavailable):
        row = connection.execute("SELECT pg_try_advisory_lock(%s)", (key,)).fetchone()
        if row is not None and row[0]:
            return True
        left_ms = int((until - time.monotonic()) * 1000)
        if left_ms <= 0:
            return False
        limit = connection.timeout_s
        if limit is not None:
            connection.timeout_s = limit + wait_s
        connection.execute(f"SET lock_timeout = {left_ms:d}".encode())
        try:
            connection.execute("SELECT pg_advisory_lock(%s)", (key,))
            return True
        except errors.LockNotAvailable:
            return False
        finally:
            connection.timeout_s = limit
            if not connection.closed:
                connection.execute("SET lock_timeout = 0")


def unlock(connection: Connection, project: str) -> None:
    """Release the project's lock, if the session still lives."""
    if not connection.closed:
        with translated(JournalUnavailable):
            connection.execute("SELECT pg_advisory_unlock(%s)", (lock_key(project),))


def take(connection: Connection, project: str, hub: str, address: str, lease_s: float) -> int:
    """Take the next epoch of a project whose lock this session holds, and begin its lease; return the epoch."""
    with translated(JournalUnavailable), connection.transaction():
        epoch = int(connection.execute(_TAKE, (project, hub, address)).fetchone()[0])  # type: ignore[index]
        connection.execute(_LEASE, (project, epoch, lease_s))
    return epoch


def look(connection: Connection, project: str) -> Sighting | None:
    """Return the owner of a project; null where nobody has owned it yet."""
    with translated(JournalUnavailable):
        row = connection.execute(_LOOK, (project,)).fetchone()
    return None if row is None else Sighting(*row)


def renew(connection: Connection, project: str, epoch: int) -> None:
    """Renew the lease of an owner, or raise if another has taken over."""
    with translated(JournalUnavailable):
        if not connection.execute(_RENEW, (project, epoch)).rowcount:
            raise OwnershipLost(project, epoch)


def depose(connection: Connection, project: str, seen: Sighting) -> int:
    """End the session of an owner that has not renewed since it was seen; return the number of sessions ended."""
    key = lock_key(project) & ((1 << 64) - 1)
    values = (key >> 32, key & ((1 << 32) - 1), project, seen.epoch, seen.renewals)
    with translated(JournalUnavailable):
        return sum(bool(row[0]) for row in connection.execute(_DEPOSE.encode(), values).fetchall())


def end_former_owner(connection: Connection, project: str) -> None:
    """End all sessions of former owners, while this session holds the project's lock.

    A hub that was stopped in the middle of a transaction holds the row of the epoch locked.
    """
    with translated(JournalUnavailable):
        connection.execute(_END_ALL, (_OWNER_PURPOSES, session_name("", project).split()[0]))


def end_session(connection: Connection, session: tuple[int, str]) -> None:
    """End a former session of this hub, so that it releases its locks; it may wait for a lost standby otherwise."""
    with translated(JournalUnavailable):
        connection.execute(_END, session)
