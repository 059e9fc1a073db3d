"""A received message, and the operations of its recipient on it."""

# `type` is the name of a message's type on every interface.
# ruff: noqa: A002

from collections.abc import Callable
from datetime import datetime
from typing import Any, Protocol, TypeVar, Unpack

import msgspec

from tocsin.client.messages.envelopes import Received
from tocsin.core.commands import Acknowledged, AckStatus, Delivery, Done, Rejected
from tocsin.core.protocol.contracts import DeliveryClass
from tocsin.core.protocol.priority import PRIORITY_NAMES, VOCABULARY, Priority
from tocsin.core.protocol.rendering import metadata_json, ttl_s
from tocsin.core.protocol.timestamps import as_datetime
from tocsin.wire.drafts import Options, Payload
from tocsin.wire.messages import Sent

__all__ = ["LocalMessage", "Message", "Recipient"]

Shape = TypeVar("Shape")


class Recipient(Protocol):
    """The agent that received a message."""

    def confirm(self, message: "Message") -> None:
        """Confirm its receipt."""

    async def acknowledge(self, message: "Message", status: AckStatus, notes: str) -> Acknowledged:
        """Acknowledge it."""

    async def reject(self, message: "Message", reason: str, code: str, can_retry: bool, suggested_fix: str) -> Rejected:
        """Reject it."""

    async def mark_processed(self, message: "Message") -> Done:
        """Mark it as processed."""

    async def reply(
        self, message: "Message", payload: Payload, message_type: str | None, **options: Unpack[Options]
    ) -> Sent:
        """Answer it."""


class Message:
    """A received message, and the operations of its recipient on it."""

    __slots__ = ("_payload", "_received", "_recipient", "_ttl_s", "attempt", "interrupts", "offer", "signal_id")

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
        self._recipient = recipient
        self._received = received
        self._payload: Any = None
        #: Id of this recipient's copy.
        self.signal_id: str = signal_id
        #: How often it was offered, from 1.
        self.offer: int = offer
        #: Retries so far.
        self.attempt: int = attempt
        self._ttl_s: float | None = ttl_s
        #: The messageId of the work that it interrupts, if it does.
        self.interrupts: str | None = interrupts

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.signal_id} {self.type} from {self.sender}>"

    @property
    def repeated(self) -> bool:
        """Return whether it was offered before without a receipt, so that it may have been seen."""
        return self.offer > 1

    @property
    def ttl_s(self) -> float | None:
        """Return its time to live, seconds from its acceptance."""
        return self._ttl_s

    @property
    def message_id(self) -> str:
        """Return the id that its sender gave it."""
        return self._received.message_id

    @property
    def sender(self) -> str:
        """Return the agent that sent it."""
        return self._received.sender.agent_id

    @property
    def receiver(self) -> str:
        """Return the agent it was sent to, or `*`."""
        return self._received.receiver.agent_id

    @property
    def sender_type(self) -> str:
        """Return the type of the agent that sent it."""
        return self._received.sender.type

    @property
    def type(self) -> str:
        """Return its message type."""
        return self._received.message_type

    @property
    def priority(self) -> str:
        """Return the name of its priority."""
        return self._received.priority or PRIORITY_NAMES[Priority.INFO]

    @property
    def level(self) -> int:
        """Return its priority as a number, from 0."""
        return VOCABULARY.get(self.priority, Priority.INFO)

    @property
    def correlation_id(self) -> str | None:
        """Return the thread that it belongs to."""
        return self._received.correlation_id

    @property
    def timestamp(self) -> datetime:
        """Return the time at which its sender wrote it, by the sender's clock."""
        return self._received.timestamp

    @property
    def delivery_class(self) -> DeliveryClass | None:
        """Return its delivery class."""
        return self._received.qos.delivery_class

    @property
    def importance(self) -> int | None:
        """Return its importance inside its priority, 1 to 10."""
        return self._received.qos.importance

    @property
    def payload(self) -> dict[str, Any]:
        """Return its payload."""
        if self._payload is None:
            self._payload = msgspec.json.decode(self._payload_json)
        known: dict[str, Any] = self._payload
        return known

    @property
    def _payload_json(self) -> bytes | msgspec.Raw:
        return self._received.payload

    def payload_as(self, shape: Callable[..., Shape]) -> Shape:
        """Return its payload as a struct or dataclass; raise `msgspec.ValidationError` if it does not fit."""
        fitting: Shape = msgspec.json.decode(self._payload_json, type=shape)
        return fitting

    @property
    def metadata(self) -> dict[str, Any]:
        """Return its metadata."""
        known: dict[str, Any] = msgspec.json.decode(self._received.metadata)
        return known

    def confirm(self) -> None:
        """Confirm its receipt; by default the inbox does it."""
        self._recipient.confirm(self)

    async def acknowledge(self, status: AckStatus = "received", notes: str = "") -> Acknowledged:
        """Acknowledge it: `received`, `queued` or `processed`."""
        return await self._recipient.acknowledge(self, status, notes)

    async def reject(
        self, reason: str, *, can_retry: bool = False, code: str = "", suggested_fix: str = ""
    ) -> Rejected:
        """Reject it: with `can_retry` it is delivered again later, otherwise it becomes a dead letter."""
        return await self._recipient.reject(self, reason, code, can_retry, suggested_fix)

    async def mark_processed(self) -> Done:
        """Mark it as processed."""
        return await self._recipient.mark_processed(self)

    async def reply(self, payload: Payload, *, type: str | None = None, **options: Unpack[Options]) -> Sent:
        """Answer it in its thread; `options` are the fields of `Draft`."""
        return await self._recipient.reply(self, payload, type, **options)


class LocalMessage(Message):
    """A message from a project in this process: its fields are read from the delivery when they are asked for."""

    __slots__ = ("_delivery",)

    def __init__(self, recipient: Recipient, delivery: Delivery) -> None:
        self._recipient = recipient
        self._delivery = delivery
        self._payload = None
        self.signal_id = delivery.signal_id
        self.offer = delivery.offer
        self.attempt = delivery.attempt
        self.interrupts = delivery.interrupts

    @property
    def ttl_s(self) -> float | None:
        """Return its time to live, seconds from its acceptance."""
        return ttl_s(self._delivery.message)

    @property
    def message_id(self) -> str:
        """Return the id that its sender gave it."""
        return self._delivery.message.message_id

    @property
    def sender(self) -> str:
        """Return the agent that sent it."""
        return self._delivery.message.sender

    @property
    def receiver(self) -> str:
        """Return the agent it was sent to."""
        return self._delivery.message.recipient

    @property
    def sender_type(self) -> str:
        """Return the type of the agent that sent it."""
        return self._delivery.sender_type

    @property
    def type(self) -> str:
        """Return its message type."""
        return self._delivery.message_type

    @property
    def priority(self) -> str:
        """Return the name of its priority."""
        return PRIORITY_NAMES[self._delivery.message.priority]

    @property
    def level(self) -> int:
        """Return its priority as a number, from 0."""
        return self._delivery.message.priority

    @property
    def correlation_id(self) -> str | None:
        """Return the thread that it belongs to."""
        return self._delivery.message.correlation_id

    @property
    def timestamp(self) -> datetime:
        """Return the time at which its sender wrote it, by the sender's clock."""
        return as_datetime(self._delivery.message.sent_at)

    @property
    def delivery_class(self) -> DeliveryClass | None:
        """Return its delivery class."""
        return self._delivery.message.delivery_class

    @property
    def importance(self) -> int | None:
        """Return its importance inside its priority, 1 to 10."""
        return self._delivery.message.importance

    @property
    def _payload_json(self) -> bytes:
        return self._delivery.payload

    @property
    def metadata(self) -> dict[str, Any]:
        """Return its metadata."""
        delivery = self._delivery
        known: dict[str, Any] = msgspec.json.decode(
            metadata_json(delivery.message, delivery.metadata, delivery.attempt)
        )
        return known
