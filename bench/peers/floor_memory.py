"""Floor: asyncio's priority queue, without durability; the upper limit for Python."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import ClassVar

from bench.peers.peer import Letter

__all__ = ["Memory"]


class Memory:
    """Queues in this process."""

    title: ClassVar[str] = "floor: asyncio queue in memory"
    promise: ClassVar[str] = "nothing: it ends with the process"
    fsynced: ClassVar[bool] = False
    priorities: ClassVar[str] = "its own"

    def __init__(self) -> None:
        self._queues: list[asyncio.PriorityQueue[tuple[int, int, str]]] = []
        self._count = 0

    async def start(self, folder: Path, mailboxes: int) -> None:
        self._queues = [asyncio.PriorityQueue() for _ in range(mailboxes)]

    async def send(self, letter: Letter) -> None:
        self._put(letter)
        await asyncio.sleep(0)

    async def fill(self, letters: Sequence[Letter]) -> None:
        for letter in letters:
            self._put(letter)

    async def consume(self, mailbox: int, ahead: int) -> AsyncGenerator[str, None]:
        queue = self._queues[mailbox]
        while True:
            yield (await queue.get())[2]
            queue.task_done()

    async def close(self) -> None:
        self._queues.clear()

    def _put(self, letter: Letter) -> None:
        self._count += 1
        self._queues[letter.mailbox].put_nowait((-letter.priority, self._count, letter.body))
