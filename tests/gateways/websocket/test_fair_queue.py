"""The fair queue: a limit per iteration of the loop, urgent operations at once, and no starvation."""

import asyncio
from typing import Any

import pytest

from tocsin.gateways.websocket.fair_queue import FairQueue


async def test_an_iteration_admits_up_to_the_limit_and_the_next_continues() -> None:
    fair_queue = FairQueue(64)
    places = [fair_queue.enter(32, urgent=False) for _ in range(6)]
    assert places[:2] == [None, None]
    waiting = [place for place in places if place is not None]
    assert [place.done() for place in waiting] == [False] * 4
    await asyncio.sleep(0)
    assert [place.done() for place in waiting] == [True, True, False, False]
    await asyncio.sleep(0)
    assert [place.done() for place in waiting] == [True] * 4


async def test_urgent_operations_do_not_wait_but_have_a_limit() -> None:
    fair_queue = FairQueue(64)
    for _ in range(10):
        fair_queue.enter(32, urgent=False)
    assert fair_queue.enter(1, urgent=True) is None
    assert fair_queue.enter(64, urgent=True) is None
    assert fair_queue.enter(1, urgent=True) is not None, "urgent operations beyond the limit wait too"
    await asyncio.sleep(0)
    assert fair_queue.enter(1, urgent=True) is None


async def test_what_need_not_wait_is_admitted_unless_others_wait() -> None:
    fair_queue = FairQueue(2)
    assert fair_queue.admit(1)
    assert fair_queue.admit(1)
    assert not fair_queue.admit(1), "the limit of this iteration is reached"
    assert fair_queue.enter(3, urgent=False) is not None
    await asyncio.sleep(0)
    assert not fair_queue.admit(1), "what waited has used the limit of the next one"
    await asyncio.sleep(0)
    assert fair_queue.admit(1)


async def test_a_cancelled_wait_uses_no_capacity() -> None:
    fair_queue = FairQueue(1)
    fair_queue.enter(1, urgent=False)
    first, second = fair_queue.enter(1, urgent=False), fair_queue.enter(1, urgent=False)
    assert first is not None
    assert second is not None
    first.cancel()
    await asyncio.sleep(0)
    assert second.done()


async def test_an_idle_queue_schedules_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()
    scheduled: list[Any] = []
    call_soon = loop.call_soon

    def counted(callback: Any, *arguments: Any, **options: Any) -> Any:
        if getattr(callback, "__self__", None) is fair_queue:
            scheduled.append(callback)
        return call_soon(callback, *arguments, **options)

    monkeypatch.setattr(loop, "call_soon", counted)
    fair_queue = FairQueue(1)
    fair_queue.enter(1, urgent=False)
    await asyncio.sleep(0)
    assert len(scheduled) == 1
    for _ in range(4):
        await asyncio.sleep(0)
    assert len(scheduled) == 1, "no iteration is scheduled for nobody"
