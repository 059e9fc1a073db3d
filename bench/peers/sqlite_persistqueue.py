"""persist-queue's SQLite queue with acknowledgements: one per mailbox and level, because it has no priorities.

One commit per message: the library cannot group them, but each queue is a separate file, so several threads help.
Acknowledged messages are deleted at intervals.
"""

import asyncio
import pickle
import time
from collections.abc import AsyncGenerator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, ClassVar

from persistqueue import Empty, SQLiteAckQueue

from bench.peers.peer import LEVELS, Letter

__all__ = ["PersistQueue"]

CLEAR_EVERY = 500


class PersistQueue:
    """persist-queue, in this process."""

    title: ClassVar[str] = "persist-queue, SQLite with acknowledgements"
    promise: ClassVar[str] = "on disk (SQLite, synchronous=FULL)"
    fsynced: ClassVar[bool] = True
    priorities: ClassVar[str] = "a queue per level"

    def __init__(self) -> None:
        self._senders, self._takers = ThreadPoolExecutor(4), ThreadPoolExecutor(4)
        self._queues: list[list[Any]] = []
        self._wake: list[asyncio.Event] = []

    async def start(self, folder: Path, mailboxes: int) -> None:
        def opened(mailbox: int, level: int) -> Any:
            return SQLiteAckQueue(str(folder / f"q{mailbox}-{level}"), multithreading=True)

        for mailbox in range(mailboxes):
            self._queues.append([opened(mailbox, level) for level in range(LEVELS)])
            self._wake.append(asyncio.Event())

    async def send(self, letter: Letter) -> None:
        put = self._queues[letter.mailbox][letter.priority].put
        await asyncio.get_running_loop().run_in_executor(self._senders, put, letter.body)
        self._wake[letter.mailbox].set()

    async def fill(self, letters: Sequence[Letter]) -> None:
        for mailbox, queues in enumerate(self._queues):
            for level, queue in enumerate(queues):
                chosen = [letter for letter in letters if (letter.mailbox, letter.priority) == (mailbox, level)]
                if chosen:
                    self._put_many(queue, [letter.body for letter in chosen])

    async def consume(self, mailbox: int, ahead: int) -> AsyncGenerator[str, None]:
        queues, wake, done = self._queues[mailbox], self._wake[mailbox], 0

        def take() -> tuple[Any, Any]:
            for queue in reversed(queues):
                try:
                    return queue, queue.get(block=False, raw=True)
                except Empty:
                    continue
            return None, None

        while True:
            wake.clear()
            queue, item = await self._do(take)
            if queue is None:
                await wake.wait()
                continue
            yield item["data"]
            await self._do(queue.ack, item)
            done += 1
            if done % CLEAR_EVERY == 0:
                for each in queues:
                    await self._do(lambda queue: queue.clear_acked_data(max_delete=CLEAR_EVERY, keep_latest=0), each)

    async def close(self) -> None:
        for threads in (self._senders, self._takers):
            threads.shutdown(cancel_futures=True)

    async def _do(self, function: Any, *arguments: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._takers, function, *arguments)

    def _put_many(self, queue: Any, bodies: list[str]) -> None:
        """Insert a backlog in one commit, bypassing the library, so that it does not take half an hour."""
        with queue.tran_lock, queue._putter as transaction:
            transaction.executemany(queue._sql_insert, [(pickle.dumps(body), time.time()) for body in bodies])
        queue.total += len(bodies)
