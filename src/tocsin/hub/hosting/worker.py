"""A thread for blocking jobs of the event loop; results are returned to the loop."""

import asyncio
import queue
import threading
from collections.abc import Callable
from typing import TypeVar

__all__ = ["Worker"]

Result = TypeVar("Result")
Job = Callable[[], None]


class Worker:
    """One thread that runs jobs in order."""

    def __init__(self, name: str, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def start(self, job: Callable[[], Result], done: Callable[[Result | None, Exception | None], None]) -> None:
        """Run a job; `done` gets its result, or its exception, on the event loop."""

        def run() -> None:
            try:
                result = job()
            except Exception as error:  # the loop decides what it means
                self._loop.call_soon_threadsafe(done, None, error)
            else:
                self._loop.call_soon_threadsafe(done, result, None)

        self._jobs.put(run)

    async def run(self, job: Callable[[], Result]) -> Result:
        """Run a job and wait for its result."""
        future: asyncio.Future[Result] = self._loop.create_future()

        def done(result: Result | None, error: Exception | None) -> None:
            if future.cancelled():
                return
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(result)  # type: ignore[arg-type]

        self.start(job, done)
        return await future

    async def close(self) -> None:
        """Finish the jobs so far, and end the thread."""
        self._jobs.put(None)
        await asyncio.to_thread(self._thread.join)

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()
