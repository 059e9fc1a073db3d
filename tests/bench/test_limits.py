"""The bench of the limits covers the whole table of operations, and measures how long the loop is held."""

import asyncio
import time

import pytest
from bench.limits import cases
from bench.limits.measuring import MODULES
from bench.limits.meter import MeteredLoop

from tocsin.wire.table import OPERATIONS


def test_every_operation_has_a_case_or_a_reason() -> None:
    assert len(MODULES) == len({one.ground for one in cases.CASES.values()})
    assert cases.gaps() == []


def test_a_new_operation_without_a_case_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(OPERATIONS, "do_more", OPERATIONS["get_me"])
    assert cases.gaps() == ["do_more has no case"]


def test_a_case_of_an_operation_that_is_gone_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(OPERATIONS, "list_agents")
    assert cases.gaps() == ["list_agents is not an operation"]


def test_the_meter_finds_the_longest_iteration() -> None:
    def compute(seconds: float) -> None:
        until = time.thread_time() + seconds
        while time.thread_time() < until:
            pass

    async def run() -> tuple[float, float]:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, MeteredLoop)
        await asyncio.sleep(0)
        loop.longest()
        loop.call_soon(compute, 0.03)
        loop.call_soon(compute, 0.03)
        await asyncio.sleep(0.001)
        both = loop.longest().cpu_s
        loop.call_soon(compute, 0.01)
        await asyncio.sleep(0.001)
        return both, loop.longest().cpu_s

    with asyncio.Runner(loop_factory=MeteredLoop) as runner:
        both, last = runner.run(run())
    # Callbacks of one iteration count together; an earlier one does not count again.
    assert both >= 0.06 > last >= 0.01
