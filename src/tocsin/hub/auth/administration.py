"""Where tokens are made, replaced and taken away while the hub serves: on a thread of its own, one after the other.

The store may be slow, or away; neither may hold up who only shows a token, nor anything else that the hub does. So the
event loop never waits for the store, changes happen in the order in which they were asked for, and a store that fails
is told as what it is. What a revocation stops, it stops before it waits for anything.
"""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from msgspec import UNSET, UnsetType

from tocsin.core.errors import refusal
from tocsin.hub.auth.authority import Authority
from tocsin.hub.auth.tokens import Grant, Issued
from tocsin.hub.worker import Worker
from tocsin.journal.errors import JournalError

__all__ = ["TokenAdministration"]

Result = TypeVar("Result")


class TokenAdministration:
    """Changes the tokens of one project."""

    def __init__(self, authority: Authority) -> None:
        self._authority = authority
        self._worker = Worker(f"tokens {authority.project}", asyncio.get_running_loop())

    async def issue(self, agent: str, role: str, *, admin: bool = False, lifetime_s: float | None = None) -> Issued:
        """Make a token for an agent."""
        return await self._done(lambda: self._authority.issue(agent, role, admin=admin, lifetime_s=lifetime_s))

    async def rotate(
        self, agent: str, *, overlap_s: float = 0.0, lifetime_s: float | UnsetType | None = UNSET
    ) -> Issued:
        """Give an agent a new token in place of all it has."""
        return await self._done(lambda: self._authority.rotate(agent, overlap_s=overlap_s, lifetime_s=lifetime_s))

    async def revoke(self, agent: str) -> list[Grant]:
        """Take all tokens of an agent away: they are refused from now on, and it is durable when this returns."""
        self._authority.stop(agent)
        return await self._done(lambda: self._authority.revoke(agent))

    async def close(self) -> None:
        """Finish what has been asked for."""
        await self._worker.close()

    async def _done(self, change: Callable[[], Result]) -> Result:
        try:
            return await self._worker.run(change)
        except JournalError as error:
            raise refusal("E_HUB_007", f"the tokens cannot be stored: {error}") from None
