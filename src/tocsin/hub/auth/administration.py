"""Token administration while the hub serves: issuing, rotating and revoking on a thread of its own.

The store may be slow or unavailable. That must not delay callers who present a token, nor anything else in the hub. So
the event loop never waits for the store, and changes are made one after the other in the order of the requests. A
failure of the store is reported to the caller. A revocation takes effect before it waits for the store.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import TypeVar

from msgspec import UNSET, UnsetType

from tocsin.core.errors import refusal
from tocsin.hub.auth.authority import Authority
from tocsin.hub.auth.tokens import Grant, Issued
from tocsin.hub.hosting.worker import Worker
from tocsin.journal.errors import JournalError

__all__ = ["TokenAdministration"]

_log = logging.getLogger("tocsin.auth")

Result = TypeVar("Result")


class TokenAdministration:
    """Changes the tokens of one project."""

    def __init__(self, authority: Authority) -> None:
        self._authority = authority
        self._worker = Worker(f"tokens {authority.project}", asyncio.get_running_loop())
        #: Tokens of an earlier version that were presented, and whose MAC is being stored.
        self._presented: set[str] = set()
        authority.presented = self._keep_mac

    async def issue(
        self,
        agent: str,
        role: str,
        *,
        admin: bool = False,
        lifetime_s: float | None = None,
        types: tuple[str, ...] | None = None,
        by: Grant | None,
    ) -> Issued:
        """Issue a token for an agent, at the request of the holder of another token."""
        return await self._done(
            lambda: self._authority.issue(agent, role, admin=admin, lifetime_s=lifetime_s, types=types, by=by)
        )

    async def rotate(
        self,
        agent: str,
        *,
        overlap_s: float = 0.0,
        lifetime_s: float | UnsetType | None = UNSET,
        by: Grant | None,
    ) -> Issued:
        """Replace all tokens of an agent with a new one."""
        return await self._done(
            lambda: self._authority.rotate(agent, overlap_s=overlap_s, lifetime_s=lifetime_s, by=by)
        )

    async def revoke(self, agent: str, *, by: Grant | None) -> list[Grant]:
        """Revoke all tokens of an agent: they are refused from now on; the revocation is durable when this returns."""
        self._authority.stop(agent, by=by)
        return await self._done(lambda: self._authority.revoke(agent, by=by))

    async def close(self) -> None:
        """Finish the changes that were requested, and stop."""
        await self._worker.close()

    def _keep_mac(self, grant: Grant) -> None:
        """Store the MAC of a token of an earlier version, while its holder goes on."""
        if grant.token_id in self._presented:
            return
        self._presented.add(grant.token_id)

        def done(_: None, error: Exception | None) -> None:
            self._presented.discard(grant.token_id)
            if error is not None:
                _log.warning("the MAC of token %s could not be stored: %s", grant.token_id, error)

        self._worker.start(lambda: self._authority.keep_mac(grant), done)

    async def _done(self, change: Callable[[], Result]) -> Result:
        try:
            return await self._worker.run(change)
        except JournalError as error:
            raise refusal("E_HUB_007", f"the tokens cannot be stored: {error}") from None
