"""Messages that no exchange has seen, for tests of what looks at a message alone."""

from typing import Any

from tocsin.core.messages.message import Message
from tocsin.core.messages.model import PublishPath, RecipientState, State
from tocsin.core.protocol.contracts import DeliveryClass

__all__ = ["letter"]

_PLAIN = Message(
    seq=1,
    message_id="msg_1_a",
    sender="impl_001",
    recipient="impl_002",
    type="CUSTOM_NOTE",
    priority=1,
    level=1,
    requested=1,
    importance=5,
    decay_rate=0.0,
    delivery_class=DeliveryClass.ASYNC,
    ack_required=False,
    state=State.QUEUED,
    created_at=0,
    enqueued_at=0,
    expires_at=3_600_000_000,
    sent_at=0,
    payload=b"{}",
    metadata=b"{}",
    correlation_id=None,
    broadcast_id=None,
    recipient_state=RecipientState.OFFLINE,
    publish_path=PublishPath.QUEUED,
    resolved_session=None,
)


def letter(**changes: Any) -> Message:
    """Make a queued message with some fields of its own."""
    made = _PLAIN.copy()
    for name, value in changes.items():
        setattr(made, name, value)
    return made
