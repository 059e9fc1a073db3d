"""What the tables tell about the past: messages with their lives, page by page.

A page is asked for by the cursor of the page before (0 for the first), so that listing a long history costs the same on
every page. Nothing here touches the exchange.
"""

from typing import Any, Generic, TypeVar

import msgspec

__all__ = ["DeadLetter", "Page", "Signal", "dead_page_of", "life_of", "page_of"]

Item = TypeVar("Item")


class Page(msgspec.Struct, Generic[Item], frozen=True):
    """Some rows, and where to go on."""

    items: list[Item]
    #: Cursor of the next page; null where this is the last.
    next: int | None


class Signal(msgspec.Struct, frozen=True):
    """One recipient's copy of a message, as the tables know it."""

    seq: int
    signal_id: str
    message_id: str
    sender: str
    recipient: str
    message_type: str
    #: As admitted.
    priority: int
    #: As it counts now.
    level: int
    state: str
    delivery_class: str
    correlation_id: str | None
    publish_path: str
    recipient_state: str
    attempts: int
    created_at: int
    expires_at: int
    offered_at: int | None
    delivered_at: int | None
    acked_at: int | None
    processed_at: int | None
    expired_at: int | None
    recalled_at: int | None
    dead_at: int | None
    payload: bytes
    metadata: bytes
    #: Everything that happened to it, one JSON object per line, oldest first.
    life: bytes


class DeadLetter(msgspec.Struct, frozen=True):
    """A message that could not be delivered, and why."""

    signal: Signal
    #: Times that it failed.
    failures: int
    first_failed_at: int | None
    last_failed_at: int | None
    reason: str | None
    code: str | None


def life_of(signal: Signal) -> list[dict[str, Any]]:
    """Decode what happened to a message, oldest first."""
    return [msgspec.json.decode(line) for line in signal.life.splitlines()]


def page_of(rows: list[tuple[Any, ...]], limit: int) -> Page[Signal]:
    """Make a page out of up to one row more than fit it."""
    signals = [Signal(*row) for row in rows[:limit]]
    return Page(signals, signals[-1].seq if len(rows) > limit else None)


def dead_page_of(rows: list[tuple[Any, ...]], limit: int) -> Page[DeadLetter]:
    """Make a page of dead letters out of rows that end with the event of the death, which is the cursor."""
    width = len(Signal.__struct_fields__)
    letters = [DeadLetter(Signal(*row[:width]), *row[width:-1]) for row in rows[:limit]]
    return Page(letters, rows[limit - 1][-1] if len(rows) > limit else None)
