"""Tocsin embedded in this process: `Tocsin.open`, on SQLite with an fsync before every receipt."""

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import ClassVar

from bench.peers.tocsin_agents import POLICY, Senders
from tocsin import Tocsin
from tocsin.client.config import client_config
from tocsin.policies import parse_policy

__all__ = ["TocsinEmbedded"]


class TocsinEmbedded(Senders):
    """A project in this process."""

    title: ClassVar[str] = "Tocsin, embedded"
    promise: ClassVar[str] = "on disk (SQLite, synchronous=FULL), with its history; receipts of consumers likewise"
    fsynced: ClassVar[bool] = True
    priorities: ClassVar[str] = "its own"

    def __init__(self) -> None:
        super().__init__()
        self._bus: Tocsin | None = None

    async def start(self, folder: Path, mailboxes: int) -> None:
        bus = self._bus = await Tocsin.open(folder, policy=parse_policy(POLICY))
        for mailbox in range(mailboxes):  # Registered, so that messages to them are queued.
            async with bus.join(f"mailbox{mailbox}"):
                pass
        await self._join(lambda name: bus.join(name, type="Manager"))

    async def consume(self, mailbox: int, ahead: int) -> AsyncGenerator[str, None]:
        if self._bus is None:
            raise RuntimeError("not started")
        async with self._bus.join(f"mailbox{mailbox}", config=client_config(window=ahead)) as agent:
            async for message in agent.inbox(receipts="handled"):  # Requesting the next one confirms.
                yield message.payload["text"]

    async def close(self) -> None:
        await self._leave()
        if self._bus is not None:
            await self._bus.close()
