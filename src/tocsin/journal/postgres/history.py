"""SQL statements of history queries and pruning, for PostgreSQL."""

from typing import Any

from tocsin.journal.columns import Kind
from tocsin.journal.history import BRIEF_COLUMNS, EXCERPT_CHARS, SIGNAL_COLUMNS, Wanted
from tocsin.journal.table_definitions import FAILURE_COLUMNS, MESSAGES, SEGMENTS

__all__ = [
    "BY_ID",
    "BY_RECIPIENT",
    "BY_THREAD",
    "CONVERSATIONS",
    "DEAD",
    "DROP_DOCUMENT",
    "DROP_THREADS",
    "EXPIRING",
    "INDEX",
    "LIVES",
    "OWNED",
    "PRUNABLE",
    "PRUNE",
    "PRUNE_BROADCASTS",
    "PRUNE_SESSIONS",
    "SEARCH",
    "SEGMENTS_AFTER",
    "SPAN",
    "STAND",
    "UNINDEXED",
    "find",
    "moment",
    "readable",
]

# The statements are put together from constants of this module.
# ruff: noqa: S608


def moment(column: str) -> str:
    """Return the expression that reads a time as microseconds since the epoch."""
    return f"(extract(epoch FROM {column}) * 1000000)::bigint"


_MICROSECONDS = "timestamptz 'epoch' + %s * interval '1 microsecond'"
#: Columns whose null means that the row of the broadcast has the value.
_CONTENT = ("payload", "metadata")


def readable(expression: str, kind: Kind) -> str:
    """Return the expression that reads a column of some kind as the value of a row."""
    if kind is Kind.TIME:
        return moment(expression)
    return f"convert_to({expression}, 'UTF8')" if kind is Kind.BODY else expression


def _selected(name: str) -> str:
    return readable(f"coalesce(q.{name}, b.{name})" if name in _CONTENT else f"q.{name}", MESSAGES.kinds[name])


_SIGNAL = ", ".join(map(_selected, SIGNAL_COLUMNS))
_FAILURE = ", ".join(_selected(column.name) for column in FAILURE_COLUMNS)
_FROM = """
FROM signal_queue q LEFT JOIN broadcasts b ON b.project = q.project AND b.seq = q.broadcast_seq
WHERE q.project = %s"""

#: The condition that a viewer, given twice, sent or received a message; null sees all.
_SEEN = "(%s::text IS NULL OR %s::text IN (q.sender, q.recipient))"

BY_ID = f"""
SELECT {_SIGNAL} {_FROM} AND q.message_id = %s AND %s IN (q.message_id, q.signal_id) AND {_SEEN}
ORDER BY q.seq DESC LIMIT %s"""
BY_THREAD = f"SELECT {_SIGNAL} {_FROM} AND q.correlation_id = %s AND q.seq > %s AND {_SEEN} ORDER BY q.seq LIMIT %s"
BY_RECIPIENT = f"""
SELECT {_SIGNAL} {_FROM} AND q.recipient = %s AND q.state = ANY(%s) AND q.seq > %s ORDER BY q.seq LIMIT %s"""
DEAD = f"""
SELECT {_SIGNAL}, {_FAILURE}, q.dead_seq {_FROM} AND q.state = 'dead' AND q.remembered IS TRUE AND q.dead_seq > %s
AND {_SEEN} ORDER BY q.dead_seq LIMIT %s"""
SEARCH = f"""
SELECT {_SIGNAL} {_FROM} AND EXISTS (
    SELECT FROM signal_search s
    WHERE s.project = q.project AND s.seq = q.seq AND s.words @@ plainto_tsquery('simple', %s)
) AND q.seq < %s AND {_SEEN} ORDER BY q.seq DESC LIMIT %s"""
_EXCERPT = f"convert_to(left(coalesce(q.payload, b.payload), {EXCERPT_CHARS}), 'UTF8')"
_BRIEF = ", ".join([*map(_selected, BRIEF_COLUMNS), _EXCERPT])
#: The first conditions match a partial index.
EXPIRING = f"""
SELECT {_BRIEF} {_FROM}
AND q.expires_at IS NOT NULL AND q.delivered_at IS NULL AND q.expired_at IS NULL AND q.recalled_at IS NULL
AND q.expires_at > {_MICROSECONDS} AND q.state IN ('held', 'queued', 'offered') ORDER BY q.expires_at LIMIT %s"""
LIVES = f"SELECT q.seq, {_selected('life')} FROM signal_queue q WHERE q.project = %s AND q.seq = ANY(%s)"
CONVERSATIONS = f"""
SELECT sender, recipient, count(*), {moment("max(created_at)")} FROM (
    SELECT sender, recipient, created_at FROM signal_queue WHERE project = %s ORDER BY seq DESC LIMIT %s
) AS latest GROUP BY sender, recipient ORDER BY 3 DESC, 4 DESC LIMIT %s"""
SPAN = "SELECT coalesce(min(seq), 0), coalesce(max(seq), 0) FROM signal_queue WHERE project = %s"
UNINDEXED = """
SELECT seq FROM signal_queue
WHERE project = %s AND seq > (SELECT indexed_seq FROM standing WHERE project = %s) ORDER BY seq LIMIT %s"""
#: The cut keeps the words of the largest payload within what one index entry can hold.
INDEX = f"""
INSERT INTO signal_search
SELECT q.project, q.seq, to_tsvector('simple', left(coalesce(q.payload, b.payload), 100000))
{_FROM} AND q.seq BETWEEN %s AND %s ON CONFLICT DO NOTHING"""

OWNED = "SELECT 1 FROM tocsin.projects WHERE project = %s AND epoch = %s FOR SHARE"
STAND = """
INSERT INTO standing (project, seq, document, checksum, indexed_seq) VALUES (%s, %s, %s, %s, 0)
ON CONFLICT (project) DO UPDATE
SET seq = EXCLUDED.seq, document = EXCLUDED.document, checksum = EXCLUDED.checksum"""
DROP_DOCUMENT = "DELETE FROM documents WHERE project = %s AND kind = %s AND id = %s"
DROP_THREADS = """
DELETE FROM threads WHERE project = %s AND touched_seq
< (SELECT touched_seq FROM threads WHERE project = %s AND correlation_id = %s)"""
SEGMENTS_AFTER = f"""
SELECT {", ".join(readable(column.name, column.kind) for column in SEGMENTS.columns)} FROM segments
WHERE project = %s AND first_seq > %s ORDER BY first_seq LIMIT %s"""

PRUNABLE = f"""
SELECT seq, broadcast_seq FROM signal_queue
WHERE project = %s AND remembered IS FALSE AND ended_at < {_MICROSECONDS} LIMIT %s"""
PRUNE = (
    "DELETE FROM signal_search WHERE project = %s AND seq = ANY(%s)",
    "DELETE FROM signal_queue WHERE project = %s AND seq = ANY(%s)",
)
PRUNE_BROADCASTS = """
DELETE FROM broadcasts b WHERE project = %s AND seq = ANY(%s)
AND NOT EXISTS (SELECT FROM signal_queue q WHERE q.project = b.project AND q.broadcast_seq = b.seq)"""
PRUNE_SESSIONS = f"DELETE FROM sessions WHERE project = %s AND closed_at < {_MICROSECONDS}"


def find(wanted: Wanted) -> tuple[str, list[Any]]:
    """Return the statement of a message search, and its values between the project and before, floor and limit."""
    conditions, values = [f"q.{name} = %s" for name in wanted.equal()], list(wanted.equal().values())
    if wanted.pathless:
        conditions.append("q.publish_path IS NULL")
    if wanted.states:
        conditions.append("q.state = ANY(%s)")
        values.append(list(wanted.states))
    for comparison, at in ((">=", wanted.since_at), ("<", wanted.until_at)):
        if at is not None:
            conditions.append(f"q.created_at {comparison} {_MICROSECONDS}")
            values.append(at)
    if wanted.viewer is not None:
        conditions.append("%s IN (q.sender, q.recipient)")
        values.append(wanted.viewer)
    if wanted.words:
        conditions.append(
            "EXISTS (SELECT FROM signal_search s WHERE s.project = q.project AND s.seq = q.seq"
            " AND s.words @@ plainto_tsquery('simple', %s))"
        )
        values.append(wanted.words.replace("\0", " "))
    conditions += ["q.seq < %s", "q.seq >= %s"]
    return f"SELECT {_BRIEF} {_FROM} AND {' AND '.join(conditions)} ORDER BY q.seq DESC LIMIT %s", values
