"""Huey's SQLite storage with fsync: a queue library with priorities and without acknowledgements.

One database, one thread that sends and one that receives, and one commit per message: the library cannot group them.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, ClassVar

from huey.storage import SqliteStorage

from bench.peers.peer import Letter

__all__ = ["HueyQueue"]


class HueyQueue:
    """Huey on SQLite, in this process."""

    title: ClassVar[str] = "Huey's SQLite storage, fsync"
    promise: ClassVar[str] = "on disk (SQLite, synchronous=FULL); taking deletes, there is no acknowledgement"
    fsynced: ClassVar[bool] = True
    priorities: ClassVar[str] = "its own"

    def __init__(self) -> None:
        self._sender, self._taker = ThreadPoolExecutor(1), ThreadPoolExecutor(1)
        self._queues: list[Any] = []
        self._wake: list[asyncio.Event] = []

    async def start(self, folder: Path, mailboxes: int) -> None:
        def opened(mailbox: int) -> Any:
            return SqliteStorage(f"q{mailbox}", str(folder / "huey.db"), fsync=True, strict_fifo=True, timeout=30)

        for mailbox in range(mailboxes):
            self._queues.append(opened(mailbox))
            self._wake.append(asyncio.Event())

    async def send(self, letter: Letter) -> None:
        enqueue = self._queues[letter.mailbox].enqueue
        await self._do(self._sender, enqueue, letter.body.encode(), letter.priority)
        self._wake[letter.mailbox].set()

    async def fill(self, letters: Sequence[Letter]) -> None:
        def put() -> None:
            with self._queues[0].db(commit=True) as cursor:  # The library's statement, many per commit.
                cursor.executemany(
                    "insert into task (queue, data, priority) values (?, ?, ?)",
                    [(f"q{letter.mailbox}", letter.body.encode(), letter.priority) for letter in letters],
                )

        await self._do(self._sender, put)
        for mailbox in {letter.mailbox for letter in letters}:
            self._wake[mailbox].set()

    async def consume(self, mailbox: int, ahead: int) -> AsyncGenerator[str, None]:
        queue, wake = self._queues[mailbox], self._wake[mailbox]
        while True:
            wake.clear()
            data = await self._do(self._taker, queue.dequeue)
            if data is None:
                await wake.wait()
            else:
                yield bytes(data).decode()

    async def close(self) -> None:
        for threads in (self._sender, self._taker):
            threads.shutdown(cancel_futures=True)

    @staticmethod
    async def _do(threads: ThreadPoolExecutor, function: Any, *arguments: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(threads, function, *arguments)
