"""The reader of received envelopes; `tocsin.wire.envelope_writer` writes those that are sent."""

from datetime import datetime

import msgspec
from msgspec import Raw

from tocsin.core.protocol.contracts import DeliveryClass
from tocsin.core.protocol.envelope import AgentRef

__all__ = ["EnvelopeReader", "Received"]


class _Metadata(msgspec.Struct, frozen=True, rename="camel"):
    retry_count: int = 0
    ttl: float | None = None


class _Qos(msgspec.Struct, frozen=True, rename="camel"):
    delivery_class: DeliveryClass | None = None
    importance: int | None = None
    decay_rate: float | None = None


class Received(msgspec.Struct, frozen=True, rename="camel"):
    """A received envelope; its payload and metadata are still JSON."""

    message_id: str
    timestamp: datetime
    sender: AgentRef
    receiver: AgentRef
    message_type: str
    payload: Raw
    priority: str | None = None
    correlation_id: str | None = None
    metadata: Raw = Raw(b"{}")
    qos: _Qos = _Qos()


class EnvelopeReader:
    """Reads received envelopes."""

    def __init__(self) -> None:
        self._envelopes = msgspec.json.Decoder(Received)
        self._metadata = msgspec.json.Decoder(_Metadata)

    def read(self, envelope: Raw) -> tuple[Received, int, float | None]:
        """Return an envelope, the retries so far, and its time to live in seconds."""
        received = self._envelopes.decode(envelope)
        known = self._metadata.decode(received.metadata)
        return received, known.retry_count, known.ttl
