"""SQL statements of history queries, for SQLite."""

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
    "EXPIRING",
    "FORGET",
    "INDEX",
    "LIVES",
    "PRUNE_BROADCASTS",
    "SEARCH",
    "SEGMENTS_AFTER",
    "UNINDEXED",
    "find",
]

# The statements are put together from constants of this module.
# ruff: noqa: S608

#: Columns whose null means that the row of the broadcast has the value.
_CONTENT = ("payload", "metadata")


def _selected(name: str) -> str:
    column = f"coalesce(q.{name}, b.{name})" if name in _CONTENT else f"q.{name}"
    return f"CAST({column} AS BLOB)" if MESSAGES.kinds[name] is Kind.BODY else column


_SIGNAL = ", ".join(map(_selected, SIGNAL_COLUMNS))
_FAILURE = ", ".join(_selected(column.name) for column in FAILURE_COLUMNS)
_FROM = "FROM signal_queue q LEFT JOIN broadcasts b ON b.seq = q.broadcast_seq"


def _seen_by(viewer: str) -> str:
    """Return the condition that the viewer, a parameter, sent or received a message; null sees all."""
    return f"({viewer} IS NULL OR {viewer} IN (q.sender, q.recipient))"


BY_ID = f"""
SELECT {_SIGNAL} {_FROM} WHERE q.message_id = ?1 AND ?2 IN (q.message_id, q.signal_id) AND {_seen_by("?3")}
ORDER BY q.seq DESC LIMIT ?4"""
BY_THREAD = f"""
SELECT {_SIGNAL} {_FROM} WHERE q.correlation_id = ?1 AND q.seq > ?2 AND {_seen_by("?4")} ORDER BY q.seq LIMIT ?3"""
BY_RECIPIENT = f"""
SELECT {_SIGNAL} {_FROM} WHERE q.recipient = ?1 AND q.state IN (SELECT value FROM json_each(?2)) AND q.seq > ?3
ORDER BY q.seq LIMIT ?4"""
DEAD = f"""
SELECT {_SIGNAL}, {_FAILURE}, q.dead_seq {_FROM}
WHERE q.state = 'dead' AND q.remembered IS TRUE AND q.dead_seq > ?1 AND {_seen_by("?3")}
ORDER BY q.dead_seq LIMIT ?2"""
SEARCH = f"""
SELECT {_SIGNAL} {_FROM} WHERE q.seq IN (SELECT rowid FROM signal_search WHERE signal_search MATCH ?1) AND q.seq < ?2
AND {_seen_by("?4")} ORDER BY q.seq DESC LIMIT ?3"""
_EXCERPT = f"CAST(substr(coalesce(q.payload, b.payload), 1, {EXCERPT_CHARS}) AS BLOB)"
_BRIEF = ", ".join([*map(_selected, BRIEF_COLUMNS), _EXCERPT])
#: The first conditions match a partial index.
EXPIRING = f"""
SELECT {_BRIEF} {_FROM}
WHERE q.expires_at IS NOT NULL AND q.delivered_at IS NULL AND q.expired_at IS NULL AND q.recalled_at IS NULL
AND q.expires_at > ? AND q.state IN ('held', 'queued', 'offered') ORDER BY q.expires_at LIMIT ?"""
LIVES = f"SELECT q.seq, {_selected('life')} FROM signal_queue q WHERE q.seq IN (SELECT value FROM json_each(?))"
CONVERSATIONS = """
SELECT sender, recipient, count(*), max(created_at)
FROM (SELECT sender, recipient, created_at FROM signal_queue ORDER BY seq DESC LIMIT ?)
GROUP BY sender, recipient ORDER BY 3 DESC, 4 DESC LIMIT ?"""
UNINDEXED = "SELECT seq FROM signal_queue WHERE seq > (SELECT indexed_seq FROM standing) ORDER BY seq LIMIT ?"
INDEX = f"""
INSERT INTO signal_search (rowid, payload) SELECT q.seq, coalesce(q.payload, b.payload)
{_FROM} WHERE q.seq BETWEEN ? AND ?"""
FORGET = "UPDATE signal_queue SET remembered = 0 WHERE seq IN (SELECT value FROM json_each(?))"
SEGMENTS_AFTER = f"SELECT {', '.join(SEGMENTS.names)} FROM segments WHERE first_seq > ? ORDER BY first_seq LIMIT ?"
PRUNE_BROADCASTS = """
DELETE FROM broadcasts WHERE seq = ?1 AND NOT EXISTS (SELECT 1 FROM signal_queue WHERE broadcast_seq = ?1)"""


def find(wanted: Wanted, words: str) -> tuple[str, list[Any]]:
    """Return the statement of a message search and its first values; before, floor and limit follow."""
    conditions, values = [f"q.{name} = ?" for name in wanted.equal()], list(wanted.equal().values())
    if wanted.pathless:
        conditions.append("q.publish_path IS NULL")
    if wanted.states:
        conditions.append(f"q.state IN ({', '.join('?' * len(wanted.states))})")
        values += wanted.states
    for comparison, at in (("q.created_at >= ?", wanted.since_at), ("q.created_at < ?", wanted.until_at)):
        if at is not None:
            conditions.append(comparison)
            values.append(at)
    if wanted.viewer is not None:
        conditions.append("? IN (q.sender, q.recipient)")
        values.append(wanted.viewer)
    if words:
        conditions.append("q.seq IN (SELECT rowid FROM signal_search WHERE signal_search MATCH ?)")
        values.append(words)
    conditions += ["q.seq < ?", "q.seq >= ?"]
    return f"SELECT {_BRIEF} {_FROM} WHERE {' AND '.join(conditions)} ORDER BY q.seq DESC LIMIT ?", values
