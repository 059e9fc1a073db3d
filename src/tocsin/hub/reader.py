"""Queries on a project's tables, on a thread and a connection of their own, so that no query delays a decision.

The tables are written some time after the journal. A fresh query has them brought up to date and waits until they
include every event that was durable when it arrived. It waits as long as rows are being written, up to a limit: after
many messages in a short time the tables need longer. If nothing is written for a time, it fails, and the caller may try
again.

A connection ends with its server. A query that fails is run once more on a new connection before the caller gets the
error, so that history is available again as soon as the store is. A caller waits for its query no longer than a limit;
a query whose caller has gone is not begun.
"""

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

from tocsin.core.errors import refusal
from tocsin.hub.hosting.worker import Worker
from tocsin.journal.base import Journal
from tocsin.journal.errors import JournalError, JournalUnavailable
from tocsin.journal.tables import Tables

__all__ = ["Reader"]

Answer = TypeVar("Answer")


class Reader:
    """Runs queries on the tables of one project; `projected` brings them up to an event and waits for it."""

    def __init__(
        self,
        journal: Journal,
        tables: Tables,
        projected: Callable[[int], "asyncio.Future[None]"],
        progressed_at: Callable[[], float],
        *,
        fresh_timeout_s: float,
        fresh_max_s: float,
        query_timeout_s: float,
    ) -> None:
        self._journal = journal
        self._projected = projected
        self._tables = tables
        self._progressed_at = progressed_at
        self._fresh_timeout_s = fresh_timeout_s
        self._fresh_max_s = fresh_max_s
        self._query_timeout_s = query_timeout_s
        self._worker = Worker(f"reader {journal.project}", asyncio.get_running_loop())

    async def ask(self, question: Callable[[Tables], Answer], *, fresh: bool = True) -> Answer:
        """Run a query; a fresh one includes every event that is durable now."""
        try:
            if fresh:
                await self._caught_up(self._journal.last_seq())
            return await self._run(question)
        except JournalError as error:
            raise refusal("E_HUB_007", f"the history cannot be read: {error}") from None

    async def close(self) -> None:
        """Close the tables."""
        await self._worker.close()
        self._tables.close()

    async def _caught_up(self, seq: int) -> None:
        """Wait until the tables include an event."""
        reached = self._projected(seq)
        began_at = time.monotonic()
        while not reached.done():
            until = min(max(began_at, self._progressed_at()) + self._fresh_timeout_s, began_at + self._fresh_max_s)
            if (left_s := until - time.monotonic()) <= 0:
                detail = "the history has not caught up yet: try again, or use fresh=false"
                raise refusal("E_HUB_006", detail, retry_after_s=1.0)
            await asyncio.wait({reached}, timeout=left_s)
        await reached

    async def _run(self, question: Callable[[Tables], Answer]) -> Answer:
        """Run a query on the thread, within the time limit."""
        abandoned = False

        def job() -> Answer:
            if abandoned:
                raise JournalUnavailable("timeout", "the caller no longer waits")
            return self._answer(question)

        limit = asyncio.timeout(self._query_timeout_s)
        try:
            async with limit:
                return await self._worker.run(job)
        except TimeoutError:
            if not limit.expired():
                raise  # the caller's own limit
            raise JournalUnavailable("timeout", f"no answer within {self._query_timeout_s:g} s") from None
        finally:
            abandoned = True

    def _answer(self, question: Callable[[Tables], Answer]) -> Answer:
        """Query the open tables, or new ones if that fails."""
        try:
            return question(self._tables)
        except JournalUnavailable:
            self._tables.close()
            self._tables = self._journal.tables()
            return question(self._tables)
