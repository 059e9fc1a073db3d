"""The statements that read the past out of SQLite."""

__all__ = [
    "BY_ID",
    "BY_RECIPIENT",
    "BY_THREAD",
    "DEAD",
    "INDEX",
    "LATEST",
    "PRUNE_BROADCASTS",
    "SEARCH",
    "UNINDEXED",
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
UNINDEXED = "SELECT seq FROM signal_queue WHERE seq > (SELECT indexed_seq FROM standing) ORDER BY seq LIMIT ?"
INDEX = f"""
INSERT INTO signal_search (rowid, payload) SELECT q.seq, coalesce(q.payload, b.payload)
{_FROM} WHERE q.seq BETWEEN ? AND ?"""
PRUNE_BROADCASTS = """
DELETE FROM broadcasts WHERE seq = ?1 AND NOT EXISTS (SELECT 1 FROM signal_queue WHERE broadcast_seq = ?1)"""
