"""A capture is freed a part at a time once it is written, so that no thread waits for all of it."""

from itertools import pairwise

from tests.ids import SeededIds
from tests.workload import Workload
from tocsin.journal.changes import ObservedExchange
from tocsin.journal.projection import discard


def test_a_capture_is_freed_in_parts() -> None:
    exchange = ObservedExchange(SeededIds(1))
    for _ in Workload(1).play(exchange, 6000):
        pass
    capture = exchange.capture()
    left = [len(capture.events) + len(capture.messages)]
    assert len(capture.events) > 3000
    assert len(capture.messages) > 1000

    discard(capture, lambda: left.append(len(capture.events) + len(capture.messages)))

    assert left[-1] == 0
    parts = [before - after for before, after in pairwise(left)]
    assert max(parts) <= 1000
    assert min(parts) > 0
