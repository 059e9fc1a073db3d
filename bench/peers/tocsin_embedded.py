"""Tocsin embedded in this process: `Tocsin.open`, on SQLite with an fsync before every receipt."""

from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import ClassVar

from bench.peers.peer import Letter
from bench.peers.tocsin_agents import POLICY, Senders, bodies
from tocsin import Tocsin
from tocsin.client.config import client_config
from tocsin.policies import parse_policy

__all__ = ["TocsinEmbedded"]


class TocsinEmbedded:
    """A project in this process."""

    title: ClassVar[str] = "Tocsin, embedded"
    promise: ClassVar[str] = "on disk (SQLite, synchronous=FULL), with its history; receipts of consumers likewise"
    fsynced: ClassVar[bool] = True
    priorities: ClassVar[str] = "its own"

    def __init__(self) -> None:
        self._bus: Tocsin | None = None
        self._senders = Senders()

    async def start(self, folder: Path, mailboxes: int) -> None:
        bus = self._bus = await Tocsin.open(folder, policy=parse_policy(POLICY))
        for mailbox in range(mailboxes):  # Registered, so that messages to them are queued.
            async with bus.join(f"mailbox{mailbox}"):
                pass
        await self._senders.join(lambda name: bus.join(name, type="Manager"))

    async def send(self, letter: Letter) -> None:
        await self._senders.send(letter)

    async def fill(self, letters: Sequence[Letter]) -> None:
        await self._senders.fill(letters)

    async def consume(self, mailbox: int, ahead: int) -> AsyncGenerator[str, None]:
        if self._bus is None:
            raise RuntimeError("not started")
        async with self._bus.join(f"mailbox{mailbox}", config=client_config(window=ahead)) as agent:
            async for body in bodies(agent):
                yield body

    async def close(self) -> None:
        await self._senders.close()
        if self._bus is not None:
            await self._bus.close()
