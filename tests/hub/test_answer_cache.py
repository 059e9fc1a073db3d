"""Answers that serve everybody who asks the same within a while."""

import asyncio

import pytest

from tocsin.hub.answer_cache import Shared


class Oracle:
    """Answers with how often it was asked, when it is let."""

    def __init__(self) -> None:
        self.asked = 0
        self.may_answer = asyncio.Event()

    async def __call__(self) -> int:
        self.asked += 1
        mine = self.asked
        await self.may_answer.wait()
        if mine == 1 and self.asked == 1:
            raise RuntimeError("not yet")
        return mine


async def test_who_asks_meanwhile_or_soon_after_is_given_the_same() -> None:
    shared, oracle = Shared(), Oracle()
    oracle.asked = 1  # past its failure
    waiting = [asyncio.create_task(shared.ask("list", 3600, oracle)) for _ in range(3)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    oracle.may_answer.set()
    assert await asyncio.gather(*waiting[1:]) == [2, 2]
    assert await shared.ask("list", 3600, oracle) == 2
    assert await shared.ask("another", 3600, oracle) == 3
    assert await shared.ask("list", 0, oracle) == 4


async def test_a_failure_is_not_kept() -> None:
    shared, oracle = Shared(), Oracle()
    oracle.may_answer.set()
    with pytest.raises(RuntimeError, match="not yet"):
        await shared.ask("list", 3600, oracle)
    assert await shared.ask("list", 3600, oracle) == 2
