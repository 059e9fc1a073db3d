"""Tocsin over WebSocket: `tocsin serve` in a separate process, and the SDK in this one."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import ClassVar

from bench.hub import Hub
from bench.peers.tocsin_agents import POLICY, Senders
from tocsin.client import Agent
from tocsin.client.config import client_config

__all__ = ["TocsinSocket"]


class TocsinSocket(Senders):
    """A hub on loopback."""

    title: ClassVar[str] = "Tocsin, over WebSocket"
    promise: ClassVar[str] = "on disk (SQLite, synchronous=FULL), with its history; receipts of consumers likewise"
    fsynced: ClassVar[bool] = True
    priorities: ClassVar[str] = "its own"

    def __init__(self) -> None:
        super().__init__()
        self._hub: Hub | None = None
        self._tokens: list[str] = []

    async def start(self, folder: Path, mailboxes: int) -> None:
        hub = self._hub = await asyncio.to_thread(Hub, folder / "hub", POLICY)
        self._tokens = [await asyncio.to_thread(hub.token, f"mailbox{number}") for number in range(mailboxes)]
        for token in self._tokens:  # Registered, so that messages to them are queued.
            async with Agent.connect(hub.url, token=token, type="Manager"):
                pass
        await self._join(
            lambda name: Agent.connect(hub.url, token=hub.token(name), type="Manager")  # Once, before the work.
        )

    async def consume(self, mailbox: int, ahead: int) -> AsyncGenerator[str, None]:
        if self._hub is None:
            raise RuntimeError("not started")
        config = client_config(window=ahead)
        async with Agent.connect(self._hub.url, token=self._tokens[mailbox], config=config) as agent:
            async for message in agent.inbox(receipts="handled"):  # Requesting the next one confirms.
                yield message.payload["text"]

    async def close(self) -> None:
        await self._leave()
        if self._hub is not None:
            await asyncio.to_thread(self._hub.close)
