from collections.abc import Iterator

import pytest

from tests.frames.tools import Clock
from tocsin.frames import FrameBus


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def bus(clock: Clock) -> Iterator[FrameBus[int]]:
    with FrameBus[int](clock=clock) as bus:
        yield bus
