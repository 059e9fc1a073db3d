"""What the tables tell about the past: messages with their lives, page by page.

A page is asked for by the cursor of the page before (0 for the first), so that listing a long history costs the same on
every page. Nothing here touches the exchange.
"""

from typing import Any, Generic, TypeVar

import msgspec

__all__ = [
    "BRIEF_COLUMNS",
    "SIGNAL_COLUMNS",
    "Brief",
    "Conversation",
    "DeadLetter",
    "Page",
    "Signal",
    "Wanted",
    "brief_page_of",
    "dead_page_of",
    "life_of",
    "page_of",
]

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
    #: Null for a row from before there was such a column.
    publish_path: str | None
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


#: The columns that a `Signal` is made of, in order.
SIGNAL_COLUMNS = Signal.__struct_fields__


class Brief(msgspec.Struct, frozen=True):
    """One recipient's copy of a message without its content: what lists show."""

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
    #: Null for a row from before there was such a column.
    publish_path: str | None
    recipient_state: str
    attempts: int
    created_at: int
    #: Null for a row from before there was such a column: it never expires.
    expires_at: int | None
    ended_at: int | None


#: The columns that a `Brief` is made of, in order.
BRIEF_COLUMNS = Brief.__struct_fields__


class Wanted(msgspec.Struct, frozen=True):
    """Which messages to find: what is null is not asked about."""

    #: Words of the payload.
    words: str = ""
    states: tuple[str, ...] = ()
    #: As it counts now.
    level: int | None = None
    sender: str | None = None
    recipient: str | None = None
    message_type: str | None = None
    delivery_class: str | None = None
    correlation_id: str | None = None
    #: `unknown` finds rows from before there was such a column.
    publish_path: str | None = None
    #: Accepted from then on, and before then, microseconds since the epoch.
    since_at: int | None = None
    until_at: int | None = None

    def equal(self) -> dict[str, Any]:
        """Return the columns that must have a value."""
        names = ["level", "sender", "recipient", "message_type", "delivery_class", "correlation_id"]
        names += [] if self.pathless else ["publish_path"]
        return {name: value for name in names if (value := getattr(self, name)) is not None}

    @property
    def pathless(self) -> bool:
        """Tell whether rows without a publish path are wanted."""
        return self.publish_path == "unknown"


class Conversation(msgspec.Struct, frozen=True):
    """How much one agent said to another."""

    sender: str
    recipient: str
    messages: int
    last_at: int


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


def brief_page_of(rows: list[tuple[Any, ...]], limit: int, floor: int, oldest: int) -> Page[Brief]:
    """Make a page out of up to one row more than fit it; it goes on below `floor`, where looking has ended."""
    briefs = [Brief(*row) for row in rows[:limit]]
    if len(rows) > limit:
        return Page(briefs, briefs[-1].seq)
    return Page(briefs, floor if floor > oldest else None)


def dead_page_of(rows: list[tuple[Any, ...]], limit: int) -> Page[DeadLetter]:
    """Make a page of dead letters out of rows that end with the event of the death, which is the cursor."""
    width = len(Signal.__struct_fields__)
    letters = [DeadLetter(Signal(*row[:width]), *row[width:-1]) for row in rows[:limit]]
    return Page(letters, rows[limit - 1][-1] if len(rows) > limit else None)
