"""Rendering of accepted messages as envelopes."""

import msgspec

from tocsin.core.messages.message import Message
from tocsin.core.messages.model import UNENDING
from tocsin.core.protocol.envelope import VERSIONS
from tocsin.core.protocol.priority import apm_name, priority_name
from tocsin.core.protocol.timestamps import iso

__all__ = ["metadata_json", "render_envelope", "ttl_s"]

_ENCODER = msgspec.json.Encoder()
_EMPTY = b"{}"


def render_envelope(
    message: Message,
    message_type: str,
    types: tuple[str, str],
    version: str,
    content: tuple[bytes, bytes],
    attempt: int,
) -> bytes:
    """Return an envelope in a version.

    Args:
        message: The message; only what does not change is read.
        message_type: Name of its type in that version.
        types: Types of sender and recipient.
        version: Protocol version of the envelope.
        content: Payload and metadata, as accepted.
        attempt: Retries used.
    """
    old = version == VERSIONS[0]
    envelope: dict[str, object] = {
        "version": version,
        "messageId": message.message_id,
        "timestamp": iso(message.sent_at),
        "sender": {"agentId": message.sender, "type": types[0]},
        "receiver": {"agentId": message.recipient, "type": types[1]},
        "messageType": message_type,
        "priority": apm_name(message.priority) if old else priority_name(message.priority),
        "payload": msgspec.Raw(content[0]),
        "metadata": msgspec.Raw(metadata_json(message, content[1], attempt)),
    }
    if message.correlation_id is not None:
        envelope["correlationId"] = message.correlation_id
    if not old:
        envelope["qos"] = {
            "deliveryClass": message.delivery_class,
            "importance": message.importance,
            "decayRate": message.decay_rate,
        }
    return _ENCODER.encode(envelope)


def metadata_json(message: Message, accepted: bytes, attempt: int) -> bytes:
    """Return a message's metadata with the retries so far and its time to live."""
    known: dict[str, object] = msgspec.json.decode(accepted) if accepted != _EMPTY else {}
    known["retryCount"] = attempt
    ttl = ttl_s(message)
    if ttl is not None:
        known["ttl"] = ttl
    return _ENCODER.encode(known)


def ttl_s(message: Message) -> float | None:
    """Return a message's time to live, in seconds, or null if it does not expire; a redrive does not change it."""
    if message.expires_at == UNENDING:
        return None
    return (message.expires_at - message.enqueued_at) / 1_000_000
