"""The tables that follow the journal: what columns they have, and what a store must be able to do with them.

They are the SQL view of a project and its recovery point in one: everything that the state holds is in a column, along
with the sequence number up to which all of it is true. Both stores build their statements from the declarations here;
each has its own data definition in numbered migrations.
"""

from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Any, Protocol

import msgspec

from tocsin.journal.history import Brief, Conversation, DeadLetter, Page, Signal, Wanted

__all__ = [
    "AGENTS",
    "BROADCASTS",
    "DOCUMENTS",
    "MESSAGES",
    "POLICIES",
    "SEGMENTS",
    "SESSIONS",
    "THREADS",
    "Batch",
    "Column",
    "Kind",
    "Line",
    "Segment",
    "Standing",
    "Table",
    "Tables",
    "Update",
]


class Kind(Enum):
    """What a column holds."""

    INT = "int"
    REAL = "real"
    TEXT = "text"
    BOOL = "bool"
    BYTES = "bytes"
    #: Microseconds since the epoch in a row; null where it never happened.
    TIME = "time"
    #: UTF-8 bytes in a row, text in the database.
    BODY = "body"


class Update(Enum):
    """What becomes of a column when its row is written again."""

    #: It takes the new value.
    SET = "set"
    #: It keeps the first value.
    KEEP = "keep"
    #: It takes the new value unless that is null.
    IF_GIVEN = "if_given"
    #: The new text is added at the end, up to a limit.
    APPEND = "append"


class Column(msgspec.Struct, frozen=True):
    """One column."""

    name: str
    kind: Kind
    update: Update = Update.SET


class Table(msgspec.Struct, frozen=True):
    """One table, and what tells its rows apart within a project."""

    name: str
    key: str
    columns: tuple[Column, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the columns, in the order of a row."""
        return tuple(column.name for column in self.columns)


def _columns(kind: Kind, names: str, update: Update = Update.SET) -> tuple[Column, ...]:
    return tuple(Column(name, kind, update) for name in names.split())


MESSAGES = Table(
    "signal_queue",
    "seq",
    (
        *_columns(Kind.INT, "seq", Update.KEEP),
        *_columns(Kind.TEXT, "signal_id message_id sender recipient message_type", Update.KEEP),
        *_columns(Kind.INT, "priority", Update.KEEP),
        *_columns(Kind.INT, "level"),
        *_columns(Kind.INT, "requested importance", Update.KEEP),
        *_columns(Kind.REAL, "decay_rate", Update.KEEP),
        *_columns(Kind.TEXT, "delivery_class", Update.KEEP),
        *_columns(Kind.BOOL, "ack_required", Update.KEEP),
        *_columns(Kind.TEXT, "state"),
        *_columns(Kind.TIME, "created_at", Update.KEEP),
        *_columns(Kind.TIME, "enqueued_at expires_at"),
        *_columns(Kind.TIME, "sent_at", Update.KEEP),
        *_columns(Kind.BODY, "payload metadata", Update.IF_GIVEN),
        *_columns(Kind.TEXT, "correlation_id broadcast_id", Update.KEEP),
        *_columns(Kind.INT, "broadcast_seq", Update.KEEP),
        *_columns(Kind.TEXT, "recipient_state publish_path resolved_session"),
        *_columns(Kind.BOOL, "pushed"),
        *_columns(Kind.INT, "attempts offers boosts"),
        *_columns(Kind.BOOL, "overdue backing_off"),
        *_columns(
            Kind.TIME, "ready_at offered_at delivered_at acked_at processed_at expired_at recalled_at dead_at ended_at"
        ),
        *_columns(Kind.TEXT, "session"),
        *_columns(Kind.BYTES, "digest"),
        *_columns(Kind.INT, "failures"),
        *_columns(Kind.TIME, "first_failed_at last_failed_at"),
        *_columns(Kind.TEXT, "failure_reason failure_code"),
        *_columns(Kind.INT, "offered_seq dead_seq", Update.IF_GIVEN),
        *_columns(Kind.BOOL, "remembered"),
        *_columns(Kind.INT, "own_level lent"),
        *_columns(Kind.BODY, "life", Update.APPEND),
    ),
)

AGENTS = Table(
    "agents",
    "agent",
    (
        *_columns(Kind.TEXT, "agent", Update.KEEP),
        *_columns(Kind.INT, "registered_seq"),
        *_columns(Kind.TEXT, "agent_type role version supported capabilities"),
        *_columns(Kind.TIME, "registered_at retired_at"),
        *_columns(Kind.REAL, "tokens"),
        *_columns(Kind.TIME, "tokens_at"),
        *_columns(Kind.REAL, "critical_quota blocking_quota"),
        *_columns(Kind.TIME, "quotas_at"),
        *_columns(Kind.BYTES, "usage"),
        *_columns(Kind.BOOL, "gaming"),
    ),
)

SESSIONS = Table(
    "sessions",
    "session",
    (
        *_columns(Kind.TEXT, "session", Update.KEEP),
        *_columns(Kind.INT, "opened_seq"),
        *_columns(Kind.TEXT, "agent kind"),
        *_columns(Kind.TIME, "opened_at heartbeat_at closed_at"),
        *_columns(Kind.INT, "flight_window"),
        *_columns(Kind.BOOL, "stale"),
    ),
)

BROADCASTS = Table(
    "broadcasts",
    "seq",
    (
        *_columns(Kind.INT, "seq", Update.KEEP),
        *_columns(Kind.TEXT, "broadcast sender message_type receiver_type failed", Update.KEEP),
        *_columns(Kind.INT, "accepted", Update.KEEP),
        *_columns(Kind.TIME, "created_at", Update.KEEP),
        *_columns(Kind.BODY, "payload metadata", Update.KEEP),
    ),
)

THREADS = Table(
    "threads",
    "correlation_id",
    (
        *_columns(Kind.TEXT, "correlation_id", Update.KEEP),
        *_columns(Kind.TEXT, "message_id message_type sender"),
        *_columns(Kind.TIME, "opened_at last_at"),
        *_columns(Kind.INT, "touched_seq"),
    ),
)

POLICIES = Table(
    "policies",
    "version",
    (
        *_columns(Kind.INT, "version", Update.KEEP),
        *_columns(Kind.INT, "seq", Update.KEEP),
        *_columns(Kind.TIME, "adopted_at", Update.KEEP),
        *_columns(Kind.TEXT, "adopted_by reason", Update.KEEP),
        *_columns(Kind.BODY, "document", Update.KEEP),
    ),
)

DOCUMENTS = Table(
    "documents",
    "kind, id",
    (
        *_columns(Kind.TEXT, "kind id", Update.KEEP),
        *_columns(Kind.BODY, "document"),
    ),
)

SEGMENTS = Table(
    "segments",
    "first_seq",
    (
        *_columns(Kind.INT, "first_seq last_seq", Update.KEEP),
        *_columns(Kind.TEXT, "path", Update.KEEP),
        *_columns(Kind.INT, "size", Update.KEEP),
        *_columns(Kind.TIME, "cut_at", Update.KEEP),
    ),
)


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
    rows: list[tuple[Table, Iterable[tuple[Any, ...]]]]
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

    def rows(self, table: Table, where: str = "", order: str = "") -> Iterator[tuple[Any, ...]]:
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
