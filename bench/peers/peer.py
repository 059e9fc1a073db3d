"""What a system must be able to do to be compared: take a message, hand it out, be told that it was handled.

Each system gets its best reasonable configuration, by the same three rules. What is sent at the same time may share a
round trip and a commit, as long as each sender waits for its own confirmation. Where a system knows no priorities, a
queue per level is read in order, as its users would build it. What a confirmation promises is said in the row, and only
promises of one kind are compared.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import ClassVar, NamedTuple, Protocol

__all__ = ["LEVELS", "Grouped", "Letter", "Peer"]

#: Priorities, lowest first; the last is Critical.
LEVELS = 4


class Letter(NamedTuple):
    """A message to be sent."""

    mailbox: int
    priority: int
    body: str


class Peer(Protocol):
    """One system, with its server where it has one."""

    #: Its row in the table.
    title: ClassVar[str]
    #: What holds once a send is confirmed.
    promise: ClassVar[str]
    #: Whether a confirmed message is on disk: a power cut cannot take it back.
    fsynced: ClassVar[bool]
    #: How priorities are come by.
    priorities: ClassVar[str]

    async def start(self, folder: Path, mailboxes: int) -> None:
        """Start the server with its data in a folder, and make the mailboxes."""

    async def send(self, letter: Letter) -> None:
        """Send a message and come back when it is confirmed."""

    async def fill(self, letters: Sequence[Letter]) -> None:
        """Send many, as fast as they are taken, and come back when all are confirmed."""

    def consume(self, mailbox: int, ahead: int) -> AsyncGenerator[str, None]:
        """Hand out bodies; coming back for the next one acknowledges. Up to `ahead` may be taken from the server."""

    async def close(self) -> None:
        """Let go of everything, and end the server."""


class Grouped:
    """Lets those who wait at the same time share one round trip: client-side group commit."""

    def __init__(self, write: Callable[[list[Letter]], Awaitable[None]], *, lines: int, most: int) -> None:
        self._write = write
        self._most = most
        self._waiting: list[tuple[Letter, asyncio.Future[None]]] = []
        self._work = asyncio.Semaphore(0)
        loop = asyncio.get_running_loop()
        self._lines = [loop.create_task(self._carry()) for _ in range(lines)]

    async def send(self, letter: Letter) -> None:
        """Wait for the next trip, and until it has arrived."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((letter, done))
        self._work.release()
        await done

    async def close(self) -> None:
        """Stop carrying."""
        for line in self._lines:
            line.cancel()
        await asyncio.gather(*self._lines, return_exceptions=True)

    async def _carry(self) -> None:
        while True:
            await self._work.acquire()
            load, self._waiting = self._waiting[: self._most], self._waiting[self._most :]
            if not load:
                continue  # another line took it along
            try:
                await self._write([letter for letter, _ in load])
            except Exception as error:
                for _, done in load:
                    done.set_exception(error)
                raise
            for _, done in load:
                if not done.done():
                    done.set_result(None)
