"""History queries: messages with their history, conversations and dead letters, page by page.

A page is requested with the cursor of the page before (0 for the first), so that every page of a long history costs the
same. Nothing here uses the exchange.
"""

from collections.abc import Iterable
from typing import Any, Generic, TypeVar

import msgspec

__all__ = [
    "BRIEF_COLUMNS",
    "EXCERPT_CHARS",
    "LATEST",
    "SIGNAL_COLUMNS",
    "Brief",
    "Conversation",
    "DeadLetter",
    "Page",
    "Signal",
    "Wanted",
    "brief_page_of",
    "dead_page_of",
    "fitting",
    "page_of",
]

Item = TypeVar("Item")
#: Later than any sequence number.
LATEST = (1 << 63) - 1
#: Characters of a payload that a list reads: enough for a line of its text, however large the payload is.
EXCERPT_CHARS = 2000


class Page(msgspec.Struct, Generic[Item], frozen=True):
    """Some rows, and the cursor of the next page."""

    items: list[Item]
    #: Cursor of the next page; null where this is the last.
    next: int | None


class Signal(msgspec.Struct, frozen=True):
    """One recipient's copy of a message, as stored in the tables."""

    seq: int
    signal_id: str
    message_id: str
    sender: str
    recipient: str
    message_type: str
    #: Priority as admitted.
    priority: int
    #: Present priority.
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
    #: Everything that happened to it, as text that `tocsin.journal.records.life_of` reads.
    life: bytes


#: The columns that a `Signal` is made of, in order.
SIGNAL_COLUMNS = Signal.__struct_fields__


class Brief(msgspec.Struct, frozen=True):
    """One recipient's copy of a message with the beginning of its payload, for lists."""

    seq: int
    signal_id: str
    message_id: str
    sender: str
    recipient: str
    message_type: str
    #: Priority as admitted.
    priority: int
    #: Present priority.
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
    #: The first `EXCERPT_CHARS` characters of the payload.
    excerpt: bytes


#: The columns that a `Brief` is made of, in order, without the excerpt.
BRIEF_COLUMNS = Brief.__struct_fields__[:-1]


class Wanted(msgspec.Struct, frozen=True):
    """Filter of a message search; null fields are not compared."""

    #: Words of the payload.
    words: str = ""
    states: tuple[str, ...] = ()
    #: Present priority.
    level: int | None = None
    sender: str | None = None
    recipient: str | None = None
    message_type: str | None = None
    delivery_class: str | None = None
    correlation_id: str | None = None
    #: `unknown` finds rows from before there was such a column.
    publish_path: str | None = None
    #: First time of acceptance, and the time before which it was accepted, microseconds since the epoch.
    since_at: int | None = None
    until_at: int | None = None
    #: Only what this agent sent or received.
    viewer: str | None = None

    def equal(self) -> dict[str, Any]:
        """Return the columns that must be equal to a value."""
        names = ["level", "sender", "recipient", "message_type", "delivery_class", "correlation_id"]
        names += [] if self.pathless else ["publish_path"]
        return {name: value for name in names if (value := getattr(self, name)) is not None}

    @property
    def pathless(self) -> bool:
        """Tell whether rows without a publish path are wanted."""
        return self.publish_path == "unknown"


class Conversation(msgspec.Struct, frozen=True):
    """Number of messages from one agent to another."""

    sender: str
    recipient: str
    messages: int
    last_at: int


class DeadLetter(msgspec.Struct, frozen=True):
    """A message that could not be delivered, and why."""

    signal: Signal
    #: Number of failures.
    failures: int
    first_failed_at: int | None
    last_failed_at: int | None
    reason: str | None
    code: str | None


def fitting(rows: Iterable[tuple[Any, ...]], limit: int, bytes_max: int) -> tuple[list[tuple[Any, ...]], bool]:
    """Return the rows that fit a page, the first one in any case, and whether there are more; the rest is not read."""
    taken: list[tuple[Any, ...]] = []
    size = 0
    for row in rows:
        size += sum(len(value) for value in row if isinstance(value, bytes))
        if len(taken) >= limit or (taken and size > bytes_max):
            return taken, True
        taken.append(row)
    return taken, False


def page_of(rows: Iterable[tuple[Any, ...]], limit: int, bytes_max: int) -> Page[Signal]:
    """Make a page out of what fits it of some rows, one of which follows it where there are more."""
    taken, more = fitting(rows, limit, bytes_max)
    signals = [Signal(*row) for row in taken]
    return Page(signals, signals[-1].seq if more else None)


def brief_page_of(rows: list[tuple[Any, ...]], limit: int, floor: int, oldest: int) -> Page[Brief]:
    """Make a page out of up to one row more than fit it; the next one continues below `floor`."""
    briefs = [Brief(*row) for row in rows[:limit]]
    if len(rows) > limit:
        return Page(briefs, briefs[-1].seq)
    return Page(briefs, floor if floor > oldest else None)


def dead_page_of(rows: Iterable[tuple[Any, ...]], limit: int, bytes_max: int) -> Page[DeadLetter]:
    """Make a page of dead letters out of rows whose last value, the event of the death, is the cursor."""
    taken, more = fitting(rows, limit, bytes_max)
    width = len(Signal.__struct_fields__)
    letters = [DeadLetter(Signal(*row[:width]), *row[width:-1]) for row in taken]
    return Page(letters, taken[-1][-1] if more else None)
