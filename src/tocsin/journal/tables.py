"""Batches of changes for the tables that follow the journal, and the interface of a store's tables.

The tables are the SQL view of a project and its recovery point in one: they hold everything that the state holds,
together with the sequence number of the last event that they include.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

import msgspec

from tocsin.journal.checksums import Seals, chunk_checksum, document_checksum
from tocsin.journal.columns import Row, Table
from tocsin.journal.errors import TablesDamaged
from tocsin.journal.history import LATEST, Brief, Conversation, DeadLetter, Page, Signal, Wanted

__all__ = ["LINES", "QUEUES", "Batch", "Segment", "Standing", "StoredQueue", "Tables", "entries_of", "standing_of"]

#: Name of the table of stored queues.
LINES = "lines"
#: Names of the stored queues.
QUEUES = ("settled", "acknowledged", "latencies")


class StoredQueue(msgspec.Struct, frozen=True):
    """New entries of one of the state's queues, and the part of it that has been forgotten.

    They are stored in chunks, one for each batch, because a queue only grows at its end and shrinks at its head.
    """

    #: One of `QUEUES`: the messages that ended `settled` or `acknowledged`, or the `latencies`.
    name: str
    #: Number of the first entry that the state still holds; entries are counted from the project's beginning.
    head: int
    #: Number of the entry after the last one.
    end: int
    #: The new entries, `(at, seq)` or `(at, latency_us)`.
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
    #: The recent processing latencies, `(at, latency_us)`, in a document from before they were a stored queue.
    latencies: list[tuple[int, int]] = []
    #: Number of forgotten entries of each queue of ended messages.
    settled_head: int = 0
    acknowledged_head: int = 0
    #: Number after the last entry of each of those queues; null in a document from before it was recorded.
    settled_end: int | None = None
    acknowledged_end: int | None = None
    #: The same of the queue of latencies; null in a document that has the latencies themselves.
    latencies_head: int = 0
    latencies_end: int | None = None
    #: Number of rows that the state holds, by table; empty in a document from before it was recorded.
    held: dict[str, int] = {}
    #: Tables in which every row that a recovery reads has a checksum; empty in a document from before it was recorded.
    sealed: tuple[str, ...] = ()


class Batch(msgspec.Struct, frozen=True):
    """Changes between two projections, to be written in one transaction."""

    standing: Standing
    #: Rows by table, each in the order of its columns, to be inserted, or updated if they are there.
    rows: list[tuple[Table, list[Row]]]
    #: Rows of messages that are not in the table, some of them short ones of shape `ORDINARY`; they can be read once.
    new_messages: Iterable[Row]
    #: Rows of messages that are in the table; they can be read once.
    changed_messages: Iterable[Row]
    #: Messages, other than new ones, that the state no longer holds; their rows stay as history.
    forgotten: list[int]
    queues: list[StoredQueue]
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

    def back_up(self, pause: Callable[[], None]) -> int:
        """Make a verified copy from which damaged tables can be rebuilt; return its last event.

        `pause` is called between the parts of the work. A store that has backups of its own copies nothing.
        """

    def backed_up_seq(self) -> int:
        """Return the last event of the last such copy; the journal is not pruned beyond it."""

    def rows(self, table: Table, where: str = "", order: str = "") -> Iterator[Row]:
        """Read rows in the order of the table's columns; `where` and `order` are SQL of both stores."""

    def stored_queue(self, name: str, seals: Seals | None = None) -> list[tuple[int, int]]:
        """Return the entries of one of the state's queues; raise if a chunk of it is not what was written."""

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

    # A query with a viewer finds only what that agent sent or received. One with `bytes_max` ends where the payloads,
    # metadata and histories of its messages would be larger in all; the first message always fits.

    def signals(
        self, message_id: str, viewer: str | None = None, limit: int = LATEST, *, bytes_max: int = LATEST
    ) -> list[Signal]:
        """Find the copies of a message by messageId, or one by signal id, newest first."""

    def thread(
        self, correlation_id: str, after: int, limit: int, viewer: str | None = None, *, bytes_max: int = LATEST
    ) -> Page[Signal]:
        """List the messages of a thread, oldest first."""

    def mailbox(
        self, recipient: str, states: Iterable[str], after: int, limit: int, *, bytes_max: int = LATEST
    ) -> Page[Signal]:
        """List the messages to an agent, oldest first."""

    def dead_letters(
        self, after: int, limit: int, viewer: str | None = None, *, bytes_max: int = LATEST
    ) -> Page[DeadLetter]:
        """List the dead letters, in the order in which they became dead letters."""

    def search(
        self, query: str, before: int, limit: int, viewer: str | None = None, *, bytes_max: int = LATEST
    ) -> Page[Signal]:
        """Find messages by words of their payload, newest first."""

    def find(self, wanted: Wanted, before: int, limit: int, depth: int) -> Page[Brief]:
        """Find messages by their columns, newest first; one page covers at most `depth` sequence numbers."""

    def expiring(self, after_at: int, limit: int) -> list[Brief]:
        """List undelivered messages that expire after a time, soonest first."""

    def lives(self, seqs: list[int]) -> dict[int, bytes]:
        """Return the histories of messages by sequence number, as they are stored."""

    def conversations(self, latest: int, limit: int) -> list[Conversation]:
        """Count the latest messages by sender and recipient, most first."""

    def close(self) -> None:
        """Close the connection."""


_STANDING: msgspec.msgpack.Decoder[Standing] = msgspec.msgpack.Decoder(Standing)
_ENTRIES: msgspec.msgpack.Decoder[list[tuple[int, int]]] = msgspec.msgpack.Decoder(list[tuple[int, int]])


def standing_of(row: Row | None, where: str) -> Standing:
    """Decode the row that states the position of the tables: its number, its document and its checksum."""
    if row is None:
        raise TablesDamaged(f"{where}: the row that states the position of the tables is missing")
    seq, document, checksum = row
    if type(seq) is not int or type(document) is not bytes:
        raise TablesDamaged(f"{where}: the position of the tables has values of other types")
    if checksum is not None and checksum != document_checksum(seq, document):
        raise TablesDamaged(f"{where}: the checksum of the position of the tables does not match")
    try:
        standing = _STANDING.decode(document)
    except msgspec.DecodeError as error:
        raise TablesDamaged(f"{where}: the position of the tables cannot be decoded: {error}") from None
    if standing.seq != seq:
        raise TablesDamaged(f"{where}: the position of the tables is {seq}, its document says {standing.seq}")
    if checksum is None and standing.sealed:
        raise TablesDamaged(f"{where}: the checksum of the position of the tables is missing")
    return standing


def entries_of(
    name: str, chunks: list[Any], standing: Standing, where: str, seals: Seals | None = None
) -> list[tuple[int, int]]:
    """Join the chunks of one of the state's queues, `(first, count, entries, checksum)`, from its head on."""
    seals = Seals() if seals is None else seals
    head, end = {
        "settled": (standing.settled_head, standing.settled_end),
        "acknowledged": (standing.acknowledged_head, standing.acknowledged_end),
        "latencies": (standing.latencies_head, standing.latencies_end),
    }[name]
    found: list[tuple[int, int]] = []
    expected = None
    for first, count, data, checksum in chunks:
        if checksum is None and not seals.accepts(LINES):
            raise TablesDamaged(f"{where}: the checksum of queue {name}, chunk {first}, is missing")
        if checksum is not None and checksum != chunk_checksum(name, first, count, data):
            raise TablesDamaged(f"{where}: the checksum of queue {name}, chunk {first}, does not match")
        if expected is not None and first != expected:
            raise TablesDamaged(f"{where}: queue {name}: entries {expected} to {first - 1} are missing")
        entries = _ENTRIES.decode(data)
        expected = first + count
        found += entries[max(0, head - first) :]
    if end is not None and len(found) != end - head:
        raise TablesDamaged(f"{where}: queue {name} has {len(found)} entries instead of {end - head}")
    return found
