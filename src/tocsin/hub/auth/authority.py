"""Issuing, rotating and revoking tokens.

A new token is durable before it is returned or valid. A revoked token is refused from the moment of the request,
whether or not the store answers; the caller gets its answer once the revocation is durable and every process that uses
the token has read it. If the store fails, the token stays refused by this hub, and a second request stores the
revocation.

The holder of an admin token administers all tokens. A human or a director without one administers the tokens of agents
whose role is below its own, now and before, and never an admin token; what it issues ends no later than its own token.

Changes are made by one thread at a time.
"""

import re
from collections.abc import Callable

import msgspec
from msgspec import UNSET, UnsetType

from tocsin.core.commands import SYSTEM
from tocsin.core.errors import refusal
from tocsin.core.policy import microseconds
from tocsin.hub.auth.store import GrantStore
from tocsin.hub.auth.tokens import ROLES, UNAUTHENTICATED, Grant, Issued, fresh_secret, hash_of, with_mac
from tocsin.hub.auth.verifier import TokenVerifier

__all__ = ["ADMIN", "Authority"]

#: Agent of a project's first token.
ADMIN = "admin"

_AGENT_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.\-]{0,63}")


class Authority(TokenVerifier):
    """Administers the tokens of one project."""

    def __init__(
        self,
        store: GrantStore,
        project: str,
        clock: Callable[[], int],
        *,
        tokens_per_agent_max: int,
        tokens_max: int,
        parent: TokenVerifier | None = None,
        is_current: Callable[[], bool] = lambda: True,
    ) -> None:
        super().__init__(store, project, clock, parent=parent, is_current=is_current)
        self._store = store
        self._tokens_per_agent_max = tokens_per_agent_max
        self._tokens_max = tokens_max

    def must_allow(self, agent: str, role: str) -> None:
        """Refuse an invalid agent id or role, a second role for an agent, and a token above the limit."""
        if not _AGENT_ID.fullmatch(agent) or agent == SYSTEM.agent:
            raise refusal(
                "E_VALIDATION_004",
                f"{agent[:64]!r} cannot be an agent's id",
                field="$.agent",
                found=agent[:64],
                expected="up to 64 letters, digits, dots, dashes, underscores, and not the bus's own name",
            )
        if role not in ROLES:
            expected = "one of " + ", ".join(ROLES)
            raise refusal("E_VALIDATION_003", f"{role[:64]!r} is no role", field="$.role", expected=expected)
        live = self._live(agent)
        if any(grant.role != role for grant in live):
            raise refusal("E_STATE_002", f"{agent} has a token as {live[0].role}: revoke it first", field="$.role")
        if len(live) >= self._tokens_per_agent_max:
            raise refusal("E_ADMISSION_008", f"{agent} has its {self._tokens_per_agent_max} tokens: revoke one first")

    def must_administer(self, by: Grant | None, agent: str, *roles: str, admin: bool = False) -> None:
        """Refuse a holder that may not administer the tokens of an agent that has, had or gets these roles.

        Null is the operator, who may do everything.
        """
        if by is None or by.admin:
            return
        known = [grant for grant in self._grants.values() if grant.agent == agent]
        above = {*roles, *(grant.role for grant in known)}.difference(by.administers)
        if admin or above or any(grant.admin for grant in known):
            what = "admin tokens" if not above else f"the tokens of a {min(above)}"
            detail = f"{by.agent} is {by.role} and may not administer {what}"
            raise refusal("E_AUTH_003", detail, expected="an admin token, or an agent whose role is below the caller's")

    def issue(
        self,
        agent: str,
        role: str,
        *,
        admin: bool = False,
        lifetime_s: float | None = None,
        types: tuple[str, ...] | None = None,
        by: Grant | None = None,
    ) -> Issued:
        """Issue a token for an agent; an agent has one role at a time. Without types it grants any agent type."""
        self.must_administer(by, agent, role, admin=admin)
        self.must_allow(agent, role)
        issued = self._make(agent, role, admin, _lifetime(lifetime_s), types, by, self._clock())
        self._keep([issued.grant], by)
        return issued

    def rotate(
        self,
        agent: str,
        *,
        overlap_s: float = 0.0,
        lifetime_s: float | UnsetType | None = UNSET,
        by: Grant | None = None,
    ) -> Issued:
        """Replace all tokens of an agent with a new one; the old ones stay valid for `overlap_s`.

        By default it has the lifetime of the newest of them; null is no expiry.
        """
        self.must_administer(by, agent)
        old, now = [self._as_checked(grant) for grant in self._must_have(agent)], self._clock()
        newest = old[-1]
        lifetime_us = newest.lifetime_us if isinstance(lifetime_s, UnsetType) else _lifetime(lifetime_s)
        # Of the same time as the revocation: a token that rotates its own agent issues no void one.
        issued = self._make(agent, newest.role, any(grant.admin for grant in old), lifetime_us, newest.types, by, now)
        self._keep([issued.grant, *(_ended(grant, now, microseconds(overlap_s)) for grant in old)], by)
        return issued

    def stop(self, agent: str, *, by: Grant | None = None) -> list[Grant]:
        """Refuse all tokens of an agent from now on, and return them; `revoke` makes that durable."""
        self.must_administer(by, agent)
        now, old = self._clock(), self._must_have(agent)
        others = [grant for grant in self.grants() if grant.agent != agent and grant.is_live(now)]
        if any(grant.admin for grant in old) and not any(grant.admin for grant in others):
            raise refusal("E_STATE_002", f"{agent} is the only one who can administer tokens: rotate it instead")
        for grant in old:
            self._stopped.setdefault(grant.token_id, now)
        self._changes += 1
        return [self._as_checked(grant) for grant in old]

    def revoke(self, agent: str, *, by: Grant | None = None) -> list[Grant]:
        """Revoke all tokens of an agent."""
        revoked = self.stop(agent, by=by)
        self._keep(revoked, by)
        return revoked

    def keep_mac(self, grant: Grant) -> None:
        """Store the MAC of a token of an earlier version."""
        known = self._grants[grant.token_id]
        if known.mac is None:
            self._keep([msgspec.structs.replace(known, mac=grant.mac)], None)

    def _live(self, agent: str) -> list[Grant]:
        now = self._clock()
        return [grant for grant in self._grants.values() if grant.agent == agent and grant.is_live(now)]

    def _must_have(self, agent: str) -> list[Grant]:
        live = self._live(agent)
        if not live:
            raise refusal("E_ROUTING_001", f"{agent[:64]} has no token", found=agent[:64])
        return live

    def _make(
        self,
        agent: str,
        role: str,
        admin: bool,
        lifetime_us: int | None,
        types: tuple[str, ...] | None,
        by: Grant | None,
        now: int,
    ) -> Issued:
        author = None if by is None or by.token_id == UNAUTHENTICATED else by.token_id
        if by is not None and author is not None:
            self.check(by)
        secret = fresh_secret()
        expires_at = None if lifetime_us is None else now + lifetime_us
        if by is not None and not by.admin:
            if len(self._grants) >= self._tokens_max:
                detail = f"the project has its {self._tokens_max} tokens"
                raise refusal("E_ADMISSION_008", detail, expected="an admin token")
            expires_at = min((end for end in (expires_at, by.expires_at) if end is not None), default=None)
        digest = hash_of(secret.secret)
        grant = Grant(secret.token_id, self.project, agent, role, admin, digest, now, expires_at, None, types, author)
        return Issued(with_mac(grant, secret), secret)

    def _keep(self, grants: list[Grant], by: Grant | None) -> None:
        """Store new or changed grants, if the token of their author is still valid where it is stored."""
        author = None if by is None or by.token_id == UNAUTHENTICATED else by
        if author is not None and self._parent is not None and not self.has(author):
            self._parent.check(author)
        self._store.write(grants, None if author is None else author.token_id, self._clock())
        self._grants = self._grants | {grant.token_id: grant for grant in grants}
        self._changes += 1


def _lifetime(lifetime_s: float | None) -> int | None:
    return None if lifetime_s is None else microseconds(lifetime_s)


def _ended(grant: Grant, now: int, overlap_us: int) -> Grant:
    if not overlap_us:
        return msgspec.structs.replace(grant, revoked_at=now)
    end = now + overlap_us
    return msgspec.structs.replace(grant, expires_at=end if grant.expires_at is None else min(end, grant.expires_at))
