"""What an agent can ask about the project: who is there, what became of a message, what died."""

from typing import Any

import msgspec

from tocsin.client import operations as op
from tocsin.client.connection import Connection
from tocsin.client.replies import DeadLetters, Life, Peer, Record, Records, Redriven

__all__ = ["Questions"]

_PEERS = msgspec.json.Decoder(list[Peer])
_PEER = msgspec.json.Decoder(Peer)
_MESSAGES = msgspec.json.Decoder(list[Record])
_LIVES = msgspec.json.Decoder(list[Life])
_RECORDS = msgspec.json.Decoder(Records)
_DEAD_LETTERS = msgspec.json.Decoder(DeadLetters)
_REDRIVEN = msgspec.json.Decoder(Redriven)


class Questions:
    """Asks for one agent; an agent sees what it sent and received, a director everything."""

    _connection: Connection
    _call_timeout_s: float

    async def agents(self) -> list[Peer]:
        """List the agents and whether they are there."""
        told: list[Peer] = await self._call("agents", _PEERS)
        return told

    async def whois(self, agent: str) -> Peer:
        """Show one agent."""
        told: Peer = await self._call("agent", _PEER, path={"agent": agent})
        return told

    async def message(self, message_id: str) -> list[Record]:
        """Look a message up: every copy that this agent may see, newest first."""
        told: list[Record] = await self._call("message", _MESSAGES, path={"message_id": message_id})
        return told

    async def life(self, message_id: str) -> list[Life]:
        """Tell everything that happened to a message."""
        told: list[Life] = await self._call("life", _LIVES, path={"message_id": message_id})
        return told

    async def thread(self, correlation_id: str, *, after: int = 0, limit: int = 100) -> Records:
        """List the messages of a thread, oldest first."""
        query = {"after": after, "limit": limit}
        told: Records = await self._call("thread", _RECORDS, path={"correlation_id": correlation_id}, query=query)
        return told

    async def search(self, words: str, *, after: int = 0, limit: int = 100) -> Records:
        """Find messages by words of their payload, newest first."""
        told: Records = await self._call("search", _RECORDS, query={"q": words, "after": after, "limit": limit})
        return told

    async def dead_letters(self, *, after: int = 0, limit: int = 100) -> DeadLetters:
        """List the dead letters, oldest death first."""
        told: DeadLetters = await self._call("dead_letters", _DEAD_LETTERS, query={"after": after, "limit": limit})
        return told

    async def redrive(self, *signal_ids: str) -> Redriven:
        """Queue dead letters again: a director's any, a sender's own."""
        told: Redriven = await self._call("redrive", _REDRIVEN, body={"signal_ids": list(signal_ids)})
        return told

    async def _call(
        self,
        operation: str,
        decoder: "msgspec.json.Decoder[Any]",
        *,
        path: dict[str, str] | None = None,
        query: dict[str, Any] | None = None,
        body: dict[str, Any] | None = None,
    ) -> Any:
        call = op.Call(operation=operation, path=path or {}, query=query or {}, body=body or {})
        return await self._connection.submit(call, decoder, self._call_timeout_s)
