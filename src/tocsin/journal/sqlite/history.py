"""The statements that read the past out of SQLite."""

from typing import Any

from tocsin.journal.history import BRIEF_COLUMNS, Wanted

__all__ = [
    "BY_ID",
    "BY_RECIPIENT",
    "BY_THREAD",
    "CONVERSATIONS",
    "DEAD",
    "EXPIRING",
    "INDEX",
    "LATEST",
    "PRUNE_BROADCASTS",
    "SEARCH",
    "UNINDEXED",
    "find",
]

#: Later than any sequence number.
LATEST = (1 << 63) - 1

# The statements are put together from constants of this module.
# ruff: noqa: S608

_SIGNAL = """
q.seq, q.signal_id, q.message_id, q.sender, q.recipient, q.message_type, q.priority, q.level, q.state, q.delivery_class,
q.correlation_id, q.publish_path, q.recipient_state, q.attempts, q.created_at, q.expires_at, q.offered_at,
q.delivered_at, q.acked_at, q.processed_at, q.expired_at, q.recalled_at, q.dead_at,
CAST(coalesce(q.payload, b.payload) AS BLOB), CAST(coalesce(q.metadata, b.metadata) AS BLOB), CAST(q.life AS BLOB)"""
_FROM = "FROM signal_queue q LEFT JOIN broadcasts b ON b.seq = q.broadcast_seq"

BY_ID = f"SELECT {_SIGNAL} {_FROM} WHERE q.message_id = ? ORDER BY q.seq DESC"
BY_THREAD = f"SELECT {_SIGNAL} {_FROM} WHERE q.correlation_id = ? AND q.seq > ? ORDER BY q.seq LIMIT ?"
BY_RECIPIENT = f"""
SELECT {_SIGNAL} {_FROM} WHERE q.recipient = ?1 AND q.state IN (SELECT value FROM json_each(?2)) AND q.seq > ?3
ORDER BY q.seq LIMIT ?4"""
DEAD = f"""
SELECT {_SIGNAL}, q.failures, q.first_failed_at, q.last_failed_at, q.failure_reason, q.failure_code, q.dead_seq
{_FROM} WHERE q.state = 'dead' AND q.remembered IS TRUE AND q.dead_seq > ? ORDER BY q.dead_seq LIMIT ?"""
SEARCH = f"""
SELECT {_SIGNAL} {_FROM} WHERE q.seq IN (SELECT rowid FROM signal_search WHERE signal_search MATCH ?) AND q.seq < ?
ORDER BY q.seq DESC LIMIT ?"""
_BRIEF = ", ".join(f"q.{name}" for name in BRIEF_COLUMNS)
#: The first conditions are those of an index.
EXPIRING = f"""
SELECT {_BRIEF} FROM signal_queue q
WHERE q.expires_at IS NOT NULL AND q.delivered_at IS NULL AND q.expired_at IS NULL AND q.recalled_at IS NULL
AND q.expires_at > ? AND q.state IN ('held', 'queued', 'offered') ORDER BY q.expires_at LIMIT ?"""
CONVERSATIONS = """
SELECT sender, recipient, count(*), max(created_at)
FROM (SELECT sender, recipient, created_at FROM signal_queue ORDER BY seq DESC LIMIT ?)
GROUP BY sender, recipient ORDER BY 3 DESC, 4 DESC LIMIT ?"""
UNINDEXED = "SELECT seq FROM signal_queue WHERE seq > (SELECT indexed_seq FROM standing) ORDER BY seq LIMIT ?"
INDEX = f"""
INSERT INTO signal_search (rowid, payload) SELECT q.seq, coalesce(q.payload, b.payload)
{_FROM} WHERE q.seq BETWEEN ? AND ?"""
PRUNE_BROADCASTS = """
DELETE FROM broadcasts WHERE seq = ?1 AND NOT EXISTS (SELECT 1 FROM signal_queue WHERE broadcast_seq = ?1)"""


def find(wanted: Wanted, words: str) -> tuple[str, list[Any]]:
    """Write the statement that finds messages, and its first values; before, floor and limit follow them."""
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
    if words:
        conditions.append("q.seq IN (SELECT rowid FROM signal_search WHERE signal_search MATCH ?)")
        values.append(words)
    conditions += ["q.seq < ?", "q.seq >= ?"]
    return f"SELECT {_BRIEF} FROM signal_queue q WHERE {' AND '.join(conditions)} ORDER BY q.seq DESC LIMIT ?", values
