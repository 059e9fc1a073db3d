"""A message that has come, and what its recipient can do about it."""

# `type` is what everyone calls a message's type.
# ruff: noqa: A002

from collections.abc import Callable
from datetime import datetime
from typing import Any, Protocol, TypeVar, Unpack

import msgspec

from tocsin.client.envelopes import Options, Payload, Received
from tocsin.client.replies import Acknowledged, Nothing, Rejected, Sent
from tocsin.core.protocol.contracts import DeliveryClass
from tocsin.core.protocol.priority import Priority, liminal_name

__all__ = ["Arrived", "Message", "Recipient"]

Shape = TypeVar("Shape")


class Recipient(Protocol):
    """Whoever a message came to."""

    def confirm(self, message: "Message") -> None:
        """Let its receipt go."""

    async def acknowledge(self, message: "Message", status: str, notes: str) -> Acknowledged:
        """Acknowledge it."""

    async def reject(self, message: "Message", reason: str, code: str, can_retry: bool, suggested_fix: str) -> Rejected:
        """Reject it."""

    async def processed(self, message: "Message") -> Nothing:
        """Say that it has been dealt with."""

    async def reply(
        self, message: "Message", payload: Payload, message_type: str | None, **options: Unpack[Options]
    ) -> Sent:
        """Answer it."""


class Arrived:
    """One message, as its recipient sees it: what it says."""

    __slots__ = ("_payload", "_received", "attempt", "interrupts", "offer", "signal_id", "ttl_s")

    def __init__(
        self,
        signal_id: str,
        offer: int,
        received: Received,
        attempt: int,
        ttl_s: float | None,
        interrupts: str | None = None,
    ) -> None:
        self._received = received
        self._payload: Any = None
        #: Names this recipient's copy.
        self.signal_id = signal_id
        #: Times that it was offered.
        self.offer = offer
        #: Retries so far.
        self.attempt = attempt
        #: Time to live, seconds from its acceptance.
        self.ttl_s = ttl_s
        #: messageId of the work that it interrupts, where it does.
        self.interrupts = interrupts

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.signal_id} {self.type} from {self.sender}>"

    @property
    def message_id(self) -> str:
        """Return the id that its sender knows it by."""
        return self._received.message_id

    @property
    def sender(self) -> str:
        """Return who sent it."""
        return self._received.sender.agent_id

    @property
    def receiver(self) -> str:
        """Return whom it was sent to: this agent, or `*`."""
        return self._received.receiver.agent_id

    @property
    def sender_type(self) -> str:
        """Return the type of the agent that sent it."""
        return self._received.sender.type

    @property
    def type(self) -> str:
        """Return its type."""
        return self._received.message_type

    @property
    def priority(self) -> str:
        """Return its priority, by LIMINAL's name."""
        return self._received.priority or liminal_name(Priority.INFO)

    @property
    def correlation_id(self) -> str | None:
        """Return the thread that it belongs to."""
        return self._received.correlation_id

    @property
    def timestamp(self) -> datetime:
        """Return when its sender says that it was written."""
        return self._received.timestamp

    @property
    def delivery_class(self) -> DeliveryClass | None:
        """Return what would have happened had nobody been there."""
        return self._received.qos.delivery_class

    @property
    def importance(self) -> int | None:
        """Return its importance inside its priority, 1 to 10."""
        return self._received.qos.importance

    @property
    def payload(self) -> dict[str, Any]:
        """Return what it says."""
        if self._payload is None:
            self._payload = msgspec.json.decode(self._received.payload)
        known: dict[str, Any] = self._payload
        return known

    def payload_as(self, shape: Callable[..., Shape]) -> Shape:
        """Return what it says as a struct or dataclass; `msgspec.ValidationError` where it does not fit."""
        fitting: Shape = msgspec.json.decode(self._received.payload, type=shape)
        return fitting

    @property
    def metadata(self) -> dict[str, Any]:
        """Return what travels beside the payload."""
        known: dict[str, Any] = msgspec.json.decode(self._received.metadata)
        return known


class Message(Arrived):
    """One message, and what its recipient can do about it."""

    __slots__ = ("_recipient",)

    def __init__(
        self,
        recipient: Recipient,
        signal_id: str,
        offer: int,
        received: Received,
        attempt: int,
        ttl_s: float | None,
        interrupts: str | None = None,
    ) -> None:
        super().__init__(signal_id, offer, received, attempt, ttl_s, interrupts)
        self._recipient = recipient

    def confirm(self) -> None:
        """Let the receipt go; the inbox does it by itself unless told otherwise."""
        self._recipient.confirm(self)

    async def ack(self, status: str = "received", notes: str = "") -> Acknowledged:
        """Acknowledge it: `received`, `queued` or `processed`."""
        return await self._recipient.acknowledge(self, status, notes)

    async def nack(self, reason: str, *, can_retry: bool = False, code: str = "", suggested_fix: str = "") -> Rejected:
        """Reject it, for now (`can_retry`) or for good."""
        return await self._recipient.reject(self, reason, code, can_retry, suggested_fix)

    async def processed(self) -> Nothing:
        """Say that it has been dealt with."""
        return await self._recipient.processed(self)

    async def reply(self, payload: Payload, *, type: str | None = None, **options: Unpack[Options]) -> Sent:
        """Answer in its thread; `options` are as in `Agent.send`."""
        return await self._recipient.reply(self, payload, type, **options)
