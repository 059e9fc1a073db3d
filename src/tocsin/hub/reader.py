"""Reading history: the tables, on a thread and a connection of their own, so that no question holds up a decision.

The tables follow the journal at some distance. A fresh answer waits until they have what was durable when the question
came, and hurries them; after a time limit the caller is told to try again rather than told something old.

A connection does not outlive its server. A question that the tables cannot answer is put once more to newly opened ones
before the caller is told, so that history is back as soon as the store is.
"""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from tocsin.core.errors import refusal
from tocsin.hub.worker import Worker
from tocsin.journal.base import Journal
from tocsin.journal.errors import JournalError, JournalUnavailable
from tocsin.journal.tables import Standing, Tables

__all__ = ["Reader"]

Answer = TypeVar("Answer")
#: Between two looks at how far the tables are, seconds.
_LOOK_S = 0.002


class Reader:
    """Asks the tables of one project."""

    def __init__(self, journal: Journal, tables: Tables, timeout_s: float, hurry: Callable[[], None]) -> None:
        self._journal = journal
        self._hurry = hurry
        self._tables = tables
        self._timeout_s = timeout_s
        self._worker = Worker(f"reader {journal.project}", asyncio.get_running_loop())

    async def ask(self, question: Callable[[Tables], Answer], *, fresh: bool = True) -> Answer:
        """Ask one question; a fresh answer knows all that is durable now."""
        try:
            if fresh:
                await self._caught_up(self._journal.last_seq())
            return await self._worker.run(lambda: self._answer(question))
        except JournalError as error:
            raise refusal("E_HUB_007", f"the history cannot be read: {error}") from None

    async def close(self) -> None:
        """Let go of the tables."""
        await self._worker.close()
        self._tables.close()

    async def _caught_up(self, seq: int) -> None:
        try:
            async with asyncio.timeout(self._timeout_s):
                while (await self._worker.run(lambda: self._answer(_standing))).seq < seq:
                    self._hurry()
                    await asyncio.sleep(_LOOK_S)
        except TimeoutError:
            detail = "the history has not caught up yet: ask again, or with fresh=false"
            raise refusal("E_HUB_006", detail, retry_after_s=1.0) from None

    def _answer(self, question: Callable[[Tables], Answer]) -> Answer:
        """Answer from the tables that are open, or else from new ones."""
        try:
            return question(self._tables)
        except JournalUnavailable:
            self._tables.close()
            self._tables = self._journal.tables()
            return question(self._tables)


def _standing(tables: Tables) -> Standing:
    return tables.standing()
