"""The turnstile: so much in one turn of the loop, the urgent at once, nobody for ever in line."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from tocsin.gateways.websocket.fair_queue import FairQueue


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(test, 10))


def test_a_turn_lets_so_much_in_and_the_next_goes_on() -> None:
    async def test() -> None:
        fair_queue = FairQueue(64)
        places = [fair_queue.enter(32, urgent=False) for _ in range(6)]
        assert places[:2] == [None, None]
        waiting = [place for place in places if place is not None]
        assert [place.done() for place in waiting] == [False] * 4
        await asyncio.sleep(0)
        assert [place.done() for place in waiting] == [True, True, False, False]
        await asyncio.sleep(0)
        assert [place.done() for place in waiting] == [True] * 4

    run(test())


def test_the_urgent_does_not_stand_in_line_but_has_a_limit() -> None:
    async def test() -> None:
        fair_queue = FairQueue(64)
        for _ in range(10):
            fair_queue.enter(32, urgent=False)
        assert fair_queue.enter(1, urgent=True) is None
        assert fair_queue.enter(64, urgent=True) is None
        assert fair_queue.enter(1, urgent=True) is not None, "a flood of the urgent stands in line too"
        await asyncio.sleep(0)
        assert fair_queue.enter(1, urgent=True) is None

    run(test())


def test_whoever_gives_up_takes_no_place() -> None:
    async def test() -> None:
        fair_queue = FairQueue(1)
        fair_queue.enter(1, urgent=False)
        first, second = fair_queue.enter(1, urgent=False), fair_queue.enter(1, urgent=False)
        assert first is not None
        assert second is not None
        first.cancel()
        await asyncio.sleep(0)
        assert second.done()

    run(test())


def test_an_idle_turnstile_stops_turning() -> None:
    async def test() -> None:
        fair_queue = FairQueue(1)
        fair_queue.enter(1, urgent=False)
        for _ in range(4):
            await asyncio.sleep(0)
        assert not fair_queue._turning

    run(test())
