"""Rendering of accepted messages as envelopes."""

from typing import Final

import msgspec

from tocsin.core.messages.message import Message
from tocsin.core.messages.model import UNENDING
from tocsin.core.protocol.envelope import VERSIONS, AgentRef, Qos, RenderedEnvelope
from tocsin.core.protocol.priority import apm_name, priority_name
from tocsin.core.protocol.timestamps import iso

__all__ = ["metadata_json", "render_envelope", "ttl_s"]

_EMPTY: Final = b"{}"
# Names that the compiled form reads from a fixed place and not from a dictionary.
_encode: Final = msgspec.json.Encoder().encode
_Rendered: Final = RenderedEnvelope
_AgentRef: Final = AgentRef
_Qos: Final = Qos
_Raw: Final = msgspec.Raw


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
    return _encode(
        _Rendered(
            version,
            message.message_id,
            iso(message.sent_at),
            _AgentRef(message.sender, types[0]),
            _AgentRef(message.recipient, types[1]),
            message_type,
            apm_name(message.priority) if old else priority_name(message.priority),
            _Raw(content[0]),
            _Raw(metadata_json(message, content[1], attempt)),
            message.correlation_id,
            None if old else _Qos(message.delivery_class, message.importance, message.decay_rate),
        )
    )


def metadata_json(message: Message, accepted: bytes, attempt: int) -> bytes:
    """Return a message's metadata with the retries so far and its time to live."""
    known: dict[str, object] = msgspec.json.decode(accepted) if accepted != _EMPTY else {}
    known["retryCount"] = attempt
    ttl = ttl_s(message)
    if ttl is not None:
        known["ttl"] = ttl
    return _encode(known)


def ttl_s(message: Message) -> float | None:
    """Return a message's time to live, in seconds, or null if it does not expire; a redrive does not change it."""
    if message.expires_at == UNENDING:
        return None
    return (message.expires_at - message.enqueued_at) / 1_000_000
