"""Batches of changes for the tables that follow the journal, and the interface of a store's tables.

The tables are the SQL view of a project and its recovery point in one: they hold everything that the state holds,
together with the sequence number of the last event that they include.
"""

from collections.abc import Iterable, Iterator
from typing import Protocol

import msgspec

from tocsin.journal.columns import Row, Table
from tocsin.journal.history import Brief, Conversation, DeadLetter, Page, Signal, Wanted

__all__ = ["Batch", "EndedQueue", "Segment", "Standing", "Tables"]


class EndedQueue(msgspec.Struct, frozen=True):
    """New entries of one of the state's queues of ended messages, and the part of it that has been forgotten."""

    #: `settled` or `acknowledged`.
    name: str
    #: Number of the first entry that the state still holds; entries are counted from the project's beginning.
    head: int
    #: Number of the entry after the last one.
    end: int
    #: The new entries, `(at, seq)`.
    added: list[tuple[int, int]]


class Standing(msgspec.Struct, frozen=True):
    """Position of a project's tables in the journal, and values of the state that are in no row."""

    #: Sequence number of the last event that the tables include.
    seq: int = 0
    #: Time of that event.
    at: int = 0
    policy_version: int = 0
    #: Decay rate of new messages.
    rate: float = 0.0
    rate_changed_at: int = 0
    #: The recent processing latencies, `(at, latency_us)`.
    latencies: list[tuple[int, int]] = []
    #: Number of forgotten entries of each queue of ended messages.
    settled_head: int = 0
    acknowledged_head: int = 0


class Batch(msgspec.Struct, frozen=True):
    """Changes between two projections, to be written in one transaction."""

    standing: Standing
    #: Rows by table, each in the order of its columns, to be inserted, or updated if they are there.
    rows: list[tuple[Table, list[Row]]]
    #: Rows of messages that are not in the table; they can be read once.
    new_messages: Iterable[Row]
    #: Rows of messages that are in the table; they can be read once.
    changed_messages: Iterable[Row]
    #: Messages, other than new ones, that the state no longer holds; their rows stay as history.
    forgotten: list[int]
    ended: list[EndedQueue]
    #: The longest idle thread that the state holds: older rows are deleted; null if it holds none.
    oldest_thread: str | None
    #: Limit of the stored history of one message, bytes.
    life_bytes_max: int
    #: Documents that the state no longer holds, by kind and id.
    removed: list[tuple[str, str]] = []


class Segment(msgspec.Struct, frozen=True):
    """One segment file."""

    first_seq: int
    last_seq: int
    #: Path below the segments' root.
    path: str
    #: Bytes on disk.
    size: int
    #: When it was written.
    cut_at: int


class Tables(Protocol):
    """One project's tables; belongs to one thread at a time."""

    def standing(self) -> Standing:
        """Return the position of the tables in the journal."""

    def write(self, batch: Batch) -> None:
        """Write a batch in one transaction."""

    def harden(self) -> None:
        """Make every batch so far safe from a power failure; before that, one may undo whole batches."""

    def rows(self, table: Table, where: str = "", order: str = "") -> Iterator[Row]:
        """Read rows in the order of the table's columns; `where` and `order` are SQL of both stores."""

    def ended_queue(self, name: str) -> list[tuple[int, int]]:
        """Return the entries of a queue of ended messages that the state still holds."""

    def index(self, limit: int) -> int:
        """Add up to `limit` messages to the search index; return the number added."""

    def prune(self, before_at: int, limit: int) -> int:
        """Delete up to `limit` ended messages that the state has forgotten and that ended before a time; count them."""

    def exported_seq(self) -> int:
        """Return the last sequence number in a segment."""

    def record_segment(self, segment: Segment) -> None:
        """Record a finished segment."""

    def segments(self, after_seq: int, limit: int) -> list[Segment]:
        """List segments by sequence range."""

    def signals(self, message_id: str) -> list[Signal]:
        """Find all copies of a message by messageId, or one by signal id, newest first."""

    def thread(self, correlation_id: str, after: int, limit: int) -> Page[Signal]:
        """List the messages of a thread, oldest first."""

    def mailbox(self, recipient: str, states: Iterable[str], after: int, limit: int) -> Page[Signal]:
        """List the messages to an agent, oldest first."""

    def dead_letters(self, after: int, limit: int) -> Page[DeadLetter]:
        """List the dead letters, in the order in which they became dead letters."""

    def search(self, query: str, before: int, limit: int) -> Page[Signal]:
        """Find messages by words of their payload, newest first."""

    def find(self, wanted: Wanted, before: int, limit: int, depth: int) -> Page[Brief]:
        """Find messages by their columns, newest first; one page covers at most `depth` sequence numbers."""

    def expiring(self, after_at: int, limit: int) -> list[Brief]:
        """List undelivered messages that expire after a time, soonest first."""

    def conversations(self, latest: int, limit: int) -> list[Conversation]:
        """Count the latest messages by sender and recipient, most first."""

    def close(self) -> None:
        """Close the connection."""
