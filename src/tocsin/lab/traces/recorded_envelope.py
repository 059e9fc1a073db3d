"""Envelopes of recorded sends, as the exchange takes them.

An envelope was checked when it was sent, so that these are decoded without the checks of `Envelope`, and by position.
"""

from datetime import UTC, datetime, timedelta

from tocsin.core.protocol.contracts import DeliveryClass
from tocsin.core.protocol.envelope import NO_METADATA, AgentRef, Envelope, Qos

__all__ = ["RecordedAgent", "RecordedEnvelope", "recorded_envelope"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EMPTY = b"{}"


class RecordedAgent(AgentRef, frozen=True, array_like=True, gc=False):
    """An agent as named in a recorded envelope."""

    agent_id: str
    type: str


class RecordedQos(Qos, frozen=True, array_like=True, gc=False):
    """The quality-of-service fields of a recorded envelope."""

    delivery_class: DeliveryClass | None = None
    importance: int | None = None
    decay_rate: float | None = None


class RecordedEnvelope(Envelope, frozen=True, array_like=True, gc=False):
    """An envelope as far as it is known from events; unset fields are filled in by the policy."""

    version: str
    message_id: str
    timestamp: datetime
    sender: RecordedAgent
    receiver: RecordedAgent
    message_type: str
    payload: bytes = _EMPTY  # type: ignore[assignment]
    #: Name of a priority in the version's vocabulary, if the sender named one.
    priority: str | None = None
    correlation_id: str | None = None
    metadata: bytes = NO_METADATA  # type: ignore[assignment]
    qos: RecordedQos | None = None


def recorded_envelope(
    message_id: str,
    sender: str,
    sender_type: str,
    receiver: str,
    receiver_type: str,
    message_type: str,
    version: str,
    sent_at: int,
    *,
    priority: str | None = None,
    correlation_id: str | None = None,
    delivery_class: DeliveryClass | None = None,
    importance: int | None = None,
    decay_rate: float | None = None,
    metadata: bytes = _EMPTY,
    payload: bytes = _EMPTY,
) -> RecordedEnvelope:
    """Make the envelope of a recorded send."""
    unset = delivery_class is None and importance is None and decay_rate is None
    return RecordedEnvelope(
        version,
        message_id,
        _EPOCH + timedelta(microseconds=sent_at),
        RecordedAgent(sender, sender_type),
        RecordedAgent(receiver, receiver_type),
        message_type,
        payload,
        priority,
        correlation_id,
        NO_METADATA if metadata == _EMPTY else metadata,
        None if unset else RecordedQos(delivery_class, importance, decay_rate),
    )
