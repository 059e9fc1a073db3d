"""A thread for blocking jobs of the event loop; results are returned to the loop."""

import asyncio
import queue
import threading
from collections.abc import Callable
from typing import TypeVar

__all__ = ["Worker"]

Result = TypeVar("Result")
Job = Callable[[], None]

#: How long the event loop waits at most for the thread to begin with a job, seconds.
_BEGIN_MAX_S = 0.001


class Worker:
    """One thread that runs jobs in order."""

    def __init__(self, name: str, loop: asyncio.AbstractEventLoop) -> None:
        #: Name of the thread.
        self.name = name
        self._loop = loop
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        #: Jobs that have not reported their end to the loop.
        self._under_way = 0
        #: Held by the loop; released by the thread when it begins with a job.
        self._begun = threading.Lock()
        self._begun.acquire()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def start(self, job: Callable[[], Result], done: Callable[[Result | None, Exception | None], None]) -> None:
        """Run a job; `done` gets its result, or its exception, on the event loop.

        The thread needs the interpreter to begin, which a busy loop keeps until it has nothing to do. So the loop waits
        for a moment: a thread that is free begins before this returns, and works while the loop goes on.
        """
        self._begun.acquire(blocking=False)
        self._put(job, done)
        if self._under_way == 1:
            self._begun.acquire(timeout=_BEGIN_MAX_S)

    def _put(self, job: Callable[[], Result], done: Callable[[Result | None, Exception | None], None]) -> None:
        def run() -> None:
            try:
                result = job()
            except Exception as error:  # the loop decides what it means
                self._loop.call_soon_threadsafe(ended, None, error)
            else:
                self._loop.call_soon_threadsafe(ended, result, None)

        # Quoted, because an annotation of an inner function is evaluated at every call of the outer one.
        def ended(result: "Result | None", error: "Exception | None") -> None:
            self._under_way -= 1
            done(result, error)

        self._under_way += 1
        self._jobs.put(run)

    async def run(self, job: Callable[[], Result]) -> Result:
        """Run a job and wait for its result."""
        future: asyncio.Future[Result] = self._loop.create_future()

        def done(result: "Result | None", error: "Exception | None") -> None:
            if future.cancelled():
                return
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(result)  # type: ignore[arg-type]

        self._put(job, done)
        return await future

    async def close(self) -> None:
        """Finish the jobs so far, and end the thread."""
        self._jobs.put(None)
        await asyncio.to_thread(self._thread.join)

    def _run(self) -> None:
        begun = self._begun
        while (job := self._jobs.get()) is not None:
            if begun.locked():
                begun.release()
            job()
