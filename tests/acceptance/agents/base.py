"""What every agent can do, whichever door it came through."""

import asyncio
import itertools
import json
from datetime import UTC, datetime
from typing import Any, NamedTuple

from tests.envelopes import envelope
from tests.patience import PATIENCE_S

__all__ = ["PATIENCE_S", "Driver", "Letter", "Refused"]

#: How long a test waits for something that should come.
#: Between two looks, for those who are not pushed to.
LOOK_S = 0.02

_numbers = itertools.count(1)


class Letter(NamedTuple):
    """A message as agents see it."""

    sender: str
    message_type: str
    payload: dict[str, Any]
    correlation_id: str | None = None
    message_id: str = ""
    priority: str | None = None
    ttl_s: float | None = None

    @classmethod
    def fresh(cls, sender: str, message_type: str, payload: dict[str, Any], **more: Any) -> "Letter":
        """Write a letter with an id of its own."""
        return cls(sender, message_type, payload, message_id=f"msg_{sender.replace('_', '-')}_{next(_numbers)}", **more)

    @classmethod
    def of(cls, envelope: dict[str, Any]) -> "Letter":
        """Read an envelope."""
        return cls(
            envelope["sender"]["agentId"],
            envelope["messageType"],
            envelope["payload"],
            envelope.get("correlationId"),
            envelope["messageId"],
            envelope["priority"],
        )

    def envelope(self, receiver: str) -> dict[str, Any]:
        """Write it as an envelope."""
        return envelope(
            self.message_id,
            self.sender,
            receiver,
            sender_type="Implementation",
            timestamp=datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            messageType=self.message_type,
            payload=self.payload,
            correlationId=self.correlation_id,
            priority=self.priority,
            metadata=None if self.ttl_s is None else {"ttl": self.ttl_s},
        )

    def same_content(self, other: "Letter") -> bool:
        """Tell whether another letter says the same."""
        mine = (self.message_id, self.sender, self.message_type, self.correlation_id, self.payload)
        return mine == (other.message_id, other.sender, other.message_type, other.correlation_id, other.payload)


class Refused(Exception):
    """The hub refused; `code` is the catalogue's."""

    def __init__(self, problem: dict[str, Any]) -> None:
        super().__init__(json.dumps(problem))
        self.code: str = problem["code"]
        self.problem = problem


class Driver:
    """An agent over one gateway; what came and nobody has asked for yet is kept."""

    def __init__(self, agent: str) -> None:
        self.agent = agent
        self.kept: list[Letter] = []

    async def send(self, receiver: str, letter: Letter) -> dict[str, Any]:
        """Send, and return the receipt."""
        raise NotImplementedError

    async def look(self) -> None:
        """Take what has come into `kept`, waiting a little if nothing has."""
        raise NotImplementedError

    async def acknowledge(self, letter: Letter) -> None:
        """Acknowledge in the gateway's own way."""
        raise NotImplementedError

    async def reject(self, letter: Letter, *, can_retry: bool) -> None:
        """Reject in the gateway's own way."""
        raise NotImplementedError

    async def recall(self, message_id: str) -> str:
        """Take a message back, and return the outcome."""
        raise NotImplementedError

    async def receive(self, message_id: str) -> Letter:
        """Wait for a message."""
        return await self._first(lambda letter: letter.message_id == message_id)

    async def receive_report(self, message_id: str) -> Letter:
        """Wait for the bus to report on a message."""
        return await self._first(
            lambda letter: (
                letter.message_type == "ERROR_REPORT"
                and letter.payload.get("context", {}).get("messageId") == message_id
            )
        )

    async def _first(self, wanted: Any) -> Letter:
        async with asyncio.timeout(PATIENCE_S):
            while True:
                for letter in self.kept:
                    if wanted(letter):
                        self.kept.remove(letter)
                        return letter
                await self.look()
