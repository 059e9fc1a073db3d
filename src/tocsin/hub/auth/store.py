"""Stores of grants: what every store does, and the conversion between grants and rows.

Grants are few and change rarely, so they are read once, at the start, and every change is written at once. Only the hub
that owns the project writes. A store that fails raises `JournalError`; writing the same grants again is safe.

A row whose checksum does not match is left out and logged: its token is refused, and the others are valid.
"""

import logging
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from tocsin.core.errors import TocsinError, refusal
from tocsin.hub.auth.tokens import Grant
from tocsin.journal.checksums import key_of
from tocsin.journal.columns import Row
from tocsin.journal.token_table import GRANTS, checksum_of, damage_of

__all__ = [
    "AnnouncedGrants",
    "GrantStore",
    "ReadableGrants",
    "damaged_token",
    "granted",
    "grants_of",
    "must_be_live",
    "must_still_be_live",
    "row_of",
]

_log = logging.getLogger("tocsin.auth")


class ReadableGrants(Protocol):
    """The grants of one project, as a process reads them."""

    @property
    def damaged(self) -> frozenset[str]:
        """Return the ids of the tokens that were left out when grants were last read, because their row is damaged."""

    def load(self) -> list[Grant]:
        """Return all grants, oldest first."""

    def changed(self) -> bool:
        """Tell whether another process may have written since the last call; raise if that is not known."""

    def now(self) -> int:
        """Return the time by the clock that all processes with this store share, microseconds since the epoch."""

    def close(self) -> None:
        """Close the database."""


class GrantStore(ReadableGrants, Protocol):
    """Keeps the grants of one project."""

    def write(self, grants: list[Grant], by: str | None = None, at: int = 0) -> None:
        """Make new or changed grants durable, all or none, and known to every process that uses them.

        Refuse, in the same transaction, if the token with the id `by` is stored here and is not valid at a time.
        """


class AnnouncedGrants:
    """Grants of another store; the ids of tokens are announced before the tokens are stored."""

    def __init__(self, store: GrantStore, announce: Callable[[list[str]], None]) -> None:
        self._store = store
        self._announce = announce
        self.load, self.changed, self.now, self.close = store.load, store.changed, store.now, store.close

    @property
    def damaged(self) -> frozenset[str]:
        """Return the ids of the tokens whose row is damaged."""
        return self._store.damaged

    def write(self, grants: list[Grant], by: str | None = None, at: int = 0) -> None:
        """Make new or changed grants durable, all or none, and known to every process that uses them."""
        self._announce([grant.token_id for grant in grants])
        self._store.write(grants, by, at)


def grants_of(rows: Iterable[Row], project: str, where: str) -> tuple[list[Grant], frozenset[str]]:
    """Return the grants of a project, and the ids of damaged rows, which are logged."""
    found: list[Grant] = []
    damaged: set[str] = set()
    for row in rows:
        if (wrong := damage_of(row)) is not None:
            name = key_of(GRANTS, row)
            _log.error("%s: token %s is refused: %s", where, name, wrong)
            damaged.add(name)
        elif (grant := granted(row)).project == project:
            found.append(grant)
    return found, frozenset(damaged)


def granted(row: Row) -> Grant:
    """Return the grant of an intact row."""
    token_id, project, agent, role, admin, digest, created_at, expires_at, revoked_at, types, issued_by, mac, _ = row
    return Grant(
        token_id,
        project,
        agent,
        role,
        bool(admin),
        digest,
        created_at,
        expires_at,
        revoked_at,
        None if types is None else tuple(types.split(",")),
        issued_by,
        mac,
    )


def row_of(grant: Grant) -> tuple[Any, ...]:
    """Return the row of a grant, with its checksum."""
    values = (
        grant.token_id,
        grant.project,
        grant.agent,
        grant.role,
        grant.admin,
        grant.digest,
        grant.created_at,
        grant.expires_at,
        grant.revoked_at,
        None if grant.types is None else ",".join(grant.types),
        grant.issued_by,
        grant.mac,
    )
    return (*values, checksum_of(*values))


def must_be_live(grant: Grant, now: int) -> None:
    """Refuse a grant that was revoked or has expired."""
    if grant.revoked_at is not None:
        raise refusal("E_AUTH_005", f"token {grant.token_id} has been revoked")
    if not grant.is_live(now):
        raise refusal("E_AUTH_004", f"token {grant.token_id} has expired")


def must_still_be_live(row: Row, now: int, written: list[Grant]) -> None:
    """Refuse a change whose author's stored token is not valid, unless that is what this change has done before."""
    if damage_of(row) is not None:
        raise damaged_token(key_of(GRANTS, row))
    grant = granted(row)
    if grant not in written:
        must_be_live(grant, now)


def damaged_token(token_id: str) -> TocsinError:
    """Return the refusal of a token that is not stored as it was issued."""
    detail = f"what is stored of token {token_id} is damaged"
    return refusal("E_AUTH_008", detail, expected="a new token: ask an administrator")
