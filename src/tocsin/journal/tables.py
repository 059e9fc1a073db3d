"""Batches of changes for the tables that follow the journal, and the interface of a store's tables.

The tables are the SQL view of a project and its recovery point in one: they hold everything that the state holds,
together with the sequence number of the last event that they include.
"""

from collections.abc import Iterable, Iterator
from typing import Protocol

import msgspec

from tocsin.journal.columns import Row, Table
from tocsin.journal.history import Brief, Conversation, DeadLetter, Page, Signal, Wanted

__all__ = ["Batch", "Line", "Segment", "Standing", "Tables"]


class Line(msgspec.Struct, frozen=True):
    """What was added to one of the state's lines of ended messages, and how far it has been forgotten."""

    #: `settled` or `acknowledged`.
    name: str
    #: Number of the first entry that is still remembered; entries are counted from the project's beginning.
    head: int
    #: Number of the entry after the last one.
    end: int
    #: The new entries, `(at, seq)`.
    added: list[tuple[int, int]]


class Standing(msgspec.Struct, frozen=True):
    """What a project's tables are true of, beside their rows."""

    #: Sequence number of the last event that the tables know.
    seq: int = 0
    #: When that was.
    at: int = 0
    policy_version: int = 0
    #: Decay rate of new messages.
    rate: float = 0.0
    rate_changed_at: int = 0
    #: The recent processing latencies, `(at, latency_us)`.
    latencies: list[tuple[int, int]] = []
    #: How many entries of each line have been forgotten.
    settled_head: int = 0
    acknowledged_head: int = 0


class Batch(msgspec.Struct, frozen=True):
    """Everything that changed between two projections, to be written in one transaction."""

    standing: Standing
    #: Rows by table, each in the order of its columns; they can be read once.
    rows: list[tuple[Table, Iterable[Row]]]
    #: Messages that the state no longer holds; their rows stay as history.
    forgotten: list[int]
    lines: list[Line]
    #: The thread idle longest that the state still holds: rows before it are gone; null where it holds none.
    oldest_thread: str | None
    #: Bytes that the life of one message may take.
    life_bytes_max: int
    #: Documents that the state no longer holds, by kind and id.
    removed: list[tuple[str, str]] = []


class Segment(msgspec.Struct, frozen=True):
    """One file that was cut out of the journal."""

    first_seq: int
    last_seq: int
    #: Path below the segments' root.
    path: str
    #: Bytes on disk.
    size: int
    #: When it was cut.
    cut_at: int


class Tables(Protocol):
    """One project's tables; belongs to one thread at a time."""

    def standing(self) -> Standing:
        """Return what the tables are true of."""

    def write(self, batch: Batch) -> None:
        """Write a batch in one transaction."""

    def harden(self) -> None:
        """Make sure that no power cut undoes what has been written; until then one may, batch by whole batch."""

    def rows(self, table: Table, where: str = "", order: str = "") -> Iterator[Row]:
        """Read rows in the order of the table's columns; `where` and `order` are SQL of both stores."""

    def line(self, name: str) -> list[tuple[int, int]]:
        """Return the entries of a line that are still remembered."""

    def index(self, limit: int) -> int:
        """Add up to `limit` messages to the search index; return how many there were to add."""

    def prune(self, before_at: int, limit: int) -> int:
        """Drop up to `limit` ended messages that no state remembers and that ended before a time; count them."""

    def exported_seq(self) -> int:
        """Return up to where segments have been cut."""

    def record_segment(self, segment: Segment) -> None:
        """Remember that a segment is in its place."""

    def segments(self, after_seq: int, limit: int) -> list[Segment]:
        """List segments by sequence range."""

    def signals(self, message_id: str) -> list[Signal]:
        """Find all copies of a message by messageId, or one by signal id, newest first."""

    def thread(self, correlation_id: str, after: int, limit: int) -> Page[Signal]:
        """List the messages of a thread, oldest first."""

    def mailbox(self, recipient: str, states: Iterable[str], after: int, limit: int) -> Page[Signal]:
        """List what came for an agent, oldest first."""

    def dead_letters(self, after: int, limit: int) -> Page[DeadLetter]:
        """List the dead letters, oldest death first."""

    def search(self, query: str, before: int, limit: int) -> Page[Signal]:
        """Find messages by words of their payload, newest first."""

    def find(self, wanted: Wanted, before: int, limit: int, depth: int) -> Page[Brief]:
        """Find messages by what they are, newest first; one page looks at no more than `depth` sequence numbers."""

    def expiring(self, after_at: int, limit: int) -> list[Brief]:
        """List what has not been delivered and expires after a time, soonest first."""

    def conversations(self, latest: int, limit: int) -> list[Conversation]:
        """Count who said how much to whom among the latest messages, most first."""

    def close(self) -> None:
        """Let go of the connection."""
