"""Receipts and moments, as an embedded client is told them."""

from datetime import UTC, datetime

from tocsin.client import replies
from tocsin.core import commands as cmd
from tocsin.core.messages.model import NEVER
from tocsin.core.protocol.priority import liminal_name

__all__ = ["moment", "receipt_of"]


def moment(at: int | None) -> datetime | None:
    """Write a time down, if there is one."""
    return None if at is None or at == NEVER else datetime.fromtimestamp(at / 1_000_000, UTC)


def receipt_of(receipt: cmd.Receipt) -> replies.Receipt:
    """Write a receipt down."""
    return replies.Receipt(
        signal_id=receipt.signal_id,
        message_id=receipt.message_id,
        delivered=receipt.delivered,
        queued=receipt.queued,
        recipient=receipt.recipient,
        recipient_state=receipt.recipient_state,
        delivery_class=receipt.delivery_class,
        expires_at=datetime.fromtimestamp(receipt.expires_at / 1_000_000, UTC),
        resolved_to_session=receipt.resolved_to_session,
        publish_path=receipt.publish_path,
        priority=liminal_name(receipt.priority),
        requested_priority=liminal_name(receipt.requested_priority),
        duplicate=receipt.duplicate,
        durability=receipt.durability,
        copies=receipt.copies,
        held=receipt.held,
    )
