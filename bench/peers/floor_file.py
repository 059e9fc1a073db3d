"""Floor: an append-only file with one `fdatasync` for all waiting senders, and in-memory queues behind it.

No system in Python that is durable before it confirms can be faster. Acknowledgements are not stored, and nothing can
be read back.
"""

import asyncio
import os
import time
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import ClassVar

from bench.peers.floor_memory import Memory
from bench.peers.peer import Grouped, Letter

__all__ = ["File"]

FILL = 1000


class File:
    """A file, and queues in this process."""

    title: ClassVar[str] = "floor: append-only file, fdatasync"
    promise: ClassVar[str] = "on disk (fdatasync), and no more: no reading back, acknowledgements are not kept"
    fsynced: ClassVar[bool] = True
    priorities: ClassVar[str] = "its own"

    def __init__(self) -> None:
        self._memory = Memory()
        self._descriptor = -1
        self._grouped: Grouped | None = None
        #: Time of each commit: from handing a group to the writing thread until the loop knows that it is on disk.
        self.commits_ms: list[float] = []

    async def start(self, folder: Path, mailboxes: int) -> None:
        await self._memory.start(folder, mailboxes)
        self._descriptor = os.open(folder / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._grouped = Grouped(self._write, lines=1, most=4096)

    async def send(self, letter: Letter) -> None:
        if self._grouped is None:
            raise RuntimeError("not started")
        await self._grouped.send(letter)

    async def fill(self, letters: Sequence[Letter]) -> None:
        for begin in range(0, len(letters), FILL):
            await self._write(list(letters[begin : begin + FILL]))

    def consume(self, mailbox: int, ahead: int) -> AsyncGenerator[str, None]:
        return self._memory.consume(mailbox, ahead)

    async def close(self) -> None:
        if self._grouped is not None:
            await self._grouped.close()
        os.close(self._descriptor)

    async def _write(self, letters: list[Letter]) -> None:
        lines = "".join(f"{letter.mailbox} {letter.priority} {letter.body}\n" for letter in letters).encode()
        begin = time.perf_counter()
        await asyncio.to_thread(self._flush, lines)
        self.commits_ms.append((time.perf_counter() - begin) * 1e3)
        await self._memory.fill(letters)

    def _flush(self, lines: bytes) -> None:
        os.write(self._descriptor, lines)
        os.fdatasync(self._descriptor)
