"""What the frame bus's tests share: a clock that is set by hand, and a channel that tells who waits at it."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tocsin.frames import Channel
from tocsin.frames.port import Ticket
from tocsin.frames.waiting import Waiter

#: How long a test waits for a signal that must come; it says nothing about speed.
#: The longest time that a subscriber may be waited for.
PATIENCE_S = 60.0


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds


class SignallingChannel(Channel[int]):
    """A channel that tells when a publisher waits for room, and when a reader waits for a frame."""

    def __init__(self, capacity: int) -> None:
        super().__init__(capacity)
        self.publisher_waits = threading.Semaphore(0)
        self.reader_waits = threading.Semaphore(0)

    def park(self, frame: int, waiter: Waiter) -> Ticket:
        ticket = super().park(frame, waiter)
        self.publisher_waits.release()
        return ticket

    def _fall_asleep(self, waiter: Waiter) -> bool:
        asleep = super()._fall_asleep(waiter)
        if asleep:
            self.reader_waits.release()
        return asleep


class RefusingChannel(Channel[int]):
    """A channel that makes no room, and keeps for how long publishers were ready to wait for it."""

    def __init__(self, capacity: int) -> None:
        super().__init__(capacity)
        self.timeouts_s: list[float] = []

    def park(self, frame: int, waiter: Waiter) -> Ticket:
        return RefusedTicket(self.timeouts_s)


class RefusedTicket(Ticket):
    """A wait that ends at once and in vain."""

    def __init__(self, timeouts_s: list[float]) -> None:
        self.timeouts_s = timeouts_s

    def wait(self, timeout_s: float) -> bool:
        self.timeouts_s.append(timeout_s)
        return False

    async def wait_async(self, timeout_s: float) -> bool:
        return self.wait(timeout_s)


def drain(channel: Channel[Any]) -> list[Any]:
    """Take all that waits."""
    return [channel.get_nowait() for _ in range(len(channel))]


def signalled(semaphore: threading.Semaphore) -> None:
    """Wait for a signal that must come."""
    if not semaphore.acquire(timeout=PATIENCE_S):
        raise AssertionError("the signal did not come")


@contextmanager
def running(*targets: Any) -> Iterator[None]:
    """Run functions in threads of their own, and see them all end well."""
    errors: list[BaseException] = []

    def guarded(target: Any) -> None:
        try:
            target()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(target,), daemon=True) for target in targets]
    for thread in threads:
        thread.start()
    yield
    for thread in threads:
        thread.join(PATIENCE_S)
        if thread.is_alive():
            raise AssertionError("a thread did not end")
    if errors:
        raise errors[0]
