"""The thread for blocking jobs begins while the event loop is busy, and never holds the loop up."""

import asyncio
import threading
import time

from tests.patience import PATIENCE_S
from tocsin.hub.hosting.worker import Worker


async def test_a_job_has_begun_when_starting_it_returns() -> None:
    """A commit does not wait until a busy loop gives the interpreter away by itself."""
    worker = Worker("test", asyncio.get_running_loop())
    go_on, ended = threading.Event(), asyncio.Event()
    begun: list[bool] = []

    def job() -> None:
        begun.append(True)
        go_on.wait(PATIENCE_S)

    # The limit of the wait is short, and a loaded machine may need longer to start a thread: one of many is enough.
    for _ in range(50):
        worker.start(job, lambda *_: ended.set())
        found = bool(begun)
        go_on.set()
        await asyncio.wait_for(ended.wait(), PATIENCE_S)
        if found:
            break
        for each in (begun, go_on, ended):
            each.clear()
    assert found
    await worker.close()


async def test_the_loop_does_not_wait_for_a_thread_that_is_busy() -> None:
    worker = Worker("test", asyncio.get_running_loop())
    go_on = threading.Event()
    ended: list[int] = []
    both = asyncio.Event()

    def note(number: int) -> None:
        ended.append(number)
        if len(ended) == 2:
            both.set()

    worker.start(lambda: go_on.wait(PATIENCE_S), lambda *_: note(1))
    worker.start(lambda: None, lambda *_: note(2))
    assert ended == [], "the second job waits for the first, and the loop for neither"
    go_on.set()
    await asyncio.wait_for(both.wait(), PATIENCE_S)
    assert ended == [1, 2]
    await worker.close()


async def test_a_job_that_fails_reports_its_exception() -> None:
    worker = Worker("test", asyncio.get_running_loop())
    found: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()

    def fail() -> None:
        raise OSError("no disk")

    worker.start(fail, lambda _, error: found.set_result(error))
    assert str(await asyncio.wait_for(found, PATIENCE_S)) == "no disk"
    assert await worker.run(lambda: time.monotonic()) > 0, "the thread goes on"
    await worker.close()
