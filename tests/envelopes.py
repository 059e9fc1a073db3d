"""Envelopes as agents send them."""

from typing import Any

import msgspec

from tocsin.core.protocol.envelope import Envelope
from tocsin.core.protocol.parsing import parse_envelope

__all__ = ["envelope", "parsed"]


def envelope(
    message: int | str,
    sender: str = "ada",
    receiver: str = "bob",
    *,
    sender_type: str = "Manager",
    receiver_type: str = "*",
    **fields: Any,
) -> dict[str, Any]:
    """Return an envelope by the id of its message, or by a number for it; a field that is None is left out."""
    document = {
        "version": "1.1.0",
        "messageId": f"msg_{message}_x" if isinstance(message, int) else message,
        "timestamp": "2025-11-12T10:30:45.000Z",
        "sender": {"agentId": sender, "type": sender_type},
        "receiver": {"agentId": receiver, "type": receiver_type},
        "messageType": "StatusUpdate",
        "priority": "Info",
        "payload": {"text": f"number {message}"},
    } | fields
    return {name: value for name, value in document.items() if value is not None}


def parsed(*arguments: Any, **fields: Any) -> Envelope:
    """Return an envelope as a gateway hands it to the exchange."""
    return parse_envelope(msgspec.json.encode(envelope(*arguments, **fields)), 1 << 20)
