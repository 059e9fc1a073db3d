"""Queries of the history: waiting for the tables, and for a store that does not answer."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.hub.hosting.test_host import ADA, hosted, message
from tocsin.core.commands import Receipt
from tocsin.core.errors import TocsinError
from tocsin.hub.hosting.host import Host
from tocsin.hub.reader import Reader

#: The tables are written on request only.
SLOW = "storage: {projection_interval_s: 600, projection_events_max: 1000000}"


@asynccontextmanager
async def reading(
    path: Path,
    projected: Callable[[Host, int], "asyncio.Future[None]"],
    progressed_at: Callable[[], float],
    query_timeout_s: float = 30,
) -> AsyncIterator[Reader]:
    """Open a reader of a project with one message that the tables lack, and that nothing writes by itself."""
    async with hosted(path, SLOW) as (host, journal):
        assert isinstance(await host.submit(message(1), ADA), Receipt)
        reader = Reader(
            journal,
            journal.tables(),
            lambda seq: projected(host, seq),
            progressed_at,
            fresh_timeout_s=1e-3,
            fresh_max_s=600,
            query_timeout_s=query_timeout_s,
        )
        yield reader
        await reader.close()


def never(_: Host, seq: int) -> "asyncio.Future[None]":
    """Project nothing."""
    return asyncio.get_running_loop().create_future()


async def test_a_reader_waits_as_long_as_rows_are_written(tmp_path: Path) -> None:
    """Many messages in a short time leave the tables behind for longer than the time without progress."""
    looks = 0
    looked_often = asyncio.Event()

    def progressed_at() -> float:
        nonlocal looks
        looks += 1
        if looks >= 20:
            looked_often.set()
        return time.monotonic()

    async def later(host: Host, seq: int) -> None:
        await looked_often.wait()
        await host.projected(seq)

    async with reading(tmp_path, lambda *at: asyncio.ensure_future(later(*at)), progressed_at) as reader:
        assert len(await reader.ask(lambda tables: tables.signals("msg_1_x", None))) == 1
        assert looks >= 20


async def test_a_reader_of_tables_that_stand_still_is_asked_to_try_again(tmp_path: Path) -> None:
    async with reading(tmp_path, never, lambda: 0.0) as reader:
        with pytest.raises(TocsinError) as refused:
            await reader.ask(lambda tables: tables.signals("msg_1_x", None))
        assert (refused.value.code, refused.value.problem.retryable) == ("E_HUB_006", True)
        assert await reader.ask(lambda tables: tables.signals("msg_1_x", None), fresh=False) == []


async def test_a_query_that_takes_too_long_is_given_up_and_one_that_nobody_waits_for_is_not_begun(
    tmp_path: Path,
) -> None:
    async with reading(tmp_path, never, lambda: 0.0, query_timeout_s=0.1) as reader:
        hanging, begun = threading.Event(), threading.Event()
        first = asyncio.create_task(reader.ask(lambda _: hanging.wait(), fresh=False))
        second = asyncio.create_task(reader.ask(lambda _: begun.set(), fresh=False))
        for task in (first, second):
            with pytest.raises(TocsinError, match="no answer within") as refused:
                await task
            assert (refused.value.code, refused.value.problem.retryable) == ("E_HUB_007", True)
        hanging.set()
        assert (await reader.ask(lambda tables: tables.standing(), fresh=False)).seq >= 0
        assert not begun.is_set()
