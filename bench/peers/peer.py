"""Interface of the compared systems: accept a message, deliver it, and acknowledge it.

Each system gets its best reasonable configuration, by the same three rules. Messages sent at the same time may share a
round trip and a commit, as long as each sender waits for its own confirmation. For a system without priorities, one
queue per level is read in order. The guarantee of a confirmation is part of the row, and only equal guarantees are
compared.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import ClassVar, NamedTuple, Protocol

__all__ = ["LEVELS", "Grouped", "Letter", "Peer"]

#: Number of priorities, lowest first; the last is Critical.
LEVELS = 4


class Letter(NamedTuple):
    """A message to be sent."""

    mailbox: int
    priority: int
    body: str


class Peer(Protocol):
    """One system, with its server if it has one."""

    #: Title of its row in the table.
    title: ClassVar[str]
    #: Guarantee of a confirmation.
    promise: ClassVar[str]
    #: Whether a confirmed message is on disk and survives a power failure.
    fsynced: ClassVar[bool]
    #: How priorities are implemented.
    priorities: ClassVar[str]

    async def start(self, folder: Path, mailboxes: int) -> None:
        """Start the server with its data in a folder, and create the mailboxes."""

    async def send(self, letter: Letter) -> None:
        """Send a message and return when it is confirmed."""

    async def fill(self, letters: Sequence[Letter]) -> None:
        """Send many messages as fast as possible, and return when all are confirmed."""

    def consume(self, mailbox: int, ahead: int) -> AsyncGenerator[str, None]:
        """Yield message bodies; requesting the next one acknowledges. Up to `ahead` messages may be prefetched."""

    async def close(self) -> None:
        """Close all connections and stop the server."""


class Grouped:
    """Client-side group commit: sends that wait at the same time share one round trip."""

    def __init__(self, write: Callable[[list[Letter]], Awaitable[None]], *, lines: int, most: int) -> None:
        self._write = write
        self._most = most
        self._waiting: list[tuple[Letter, asyncio.Future[None]]] = []
        self._work = asyncio.Semaphore(0)
        loop = asyncio.get_running_loop()
        self._lines = [loop.create_task(self._carry()) for _ in range(lines)]

    async def send(self, letter: Letter) -> None:
        """Send with the next group, and wait until it is confirmed."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((letter, done))
        self._work.release()
        await done

    async def close(self) -> None:
        """Stop sending."""
        for line in self._lines:
            line.cancel()
        await asyncio.gather(*self._lines, return_exceptions=True)

    async def _carry(self) -> None:
        while True:
            await self._work.acquire()
            load, self._waiting = self._waiting[: self._most], self._waiting[self._most :]
            if not load:
                continue  # Another group included it.
            try:
                await self._write([letter for letter, _ in load])
            except Exception as error:
                for _, done in load:
                    done.set_exception(error)
                raise
            for _, done in load:
                if not done.done():
                    done.set_result(None)
