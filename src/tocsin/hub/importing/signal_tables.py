"""Messages of a SQLite table of signals, also of one from before it had a TTL and a publish path."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import apsw
import msgspec

from tocsin.core.protocol.priority import VOCABULARY, Priority
from tocsin.hub.importing.found import (
    UNKNOWN,
    Found,
    Rejected,
    agent_name,
    correlation_of,
    message_id_of,
    type_name,
)
from tocsin.journal.errors import JournalUnavailable
from tocsin.journal.sqlite.connection import translated

__all__ = ["COLUMNS", "read_table"]

#: Names that a column may have, by what it holds; the first one that the table has is read.
COLUMNS: dict[str, tuple[str, ...]] = {
    "id": ("signal_id", "id", "message_id"),
    "sender": ("from_identity", "sender", "from_agent", "from"),
    "recipient": ("to_identity", "recipient", "to_agent", "to"),
    "type": ("signal_type", "message_type", "type"),
    "priority": ("category", "priority"),
    "payload": ("payload", "body", "content", "message", "text"),
    "created_at": ("created_at", "sent_at", "timestamp"),
    "delivery_class": ("delivery_class",),
    "expires_at": ("expires_at",),
    "expired_at": ("expired_at",),
    "recalled_at": ("recalled_at",),
    "delivered_at": ("delivered_at",),
    "correlation_id": ("correlation_id",),
    "publish_path": ("publish_path",),
}
_NEEDED = ("id", "recipient", "created_at")
_PATHS = frozenset({"pushed_to_ws", "buffered_for_piggyback", "queued_offline"})
_ENDS = ("delivered_at", "expired_at", "recalled_at")
#: Numbers above these are milliseconds and microseconds, below them seconds.
_MILLISECONDS, _MICROSECONDS = 10**11, 10**14


def read_table(
    file: Path, table: str, source: str, known: frozenset[str], named: dict[str, str]
) -> Iterator[Found | tuple[str, str, Any]]:
    """Yield the messages of a table, oldest first; for a malformed row its place, what is wrong, and the row."""
    with translated(JournalUnavailable, file.name):
        connection = apsw.Connection(str(file), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            columns = [str(row[1]) for row in connection.execute("SELECT * FROM pragma_table_info(?)", (table,))]
            places = _places(columns, table, named)
            names = {what: columns[place] for what, place in places.items()}
            quoted = table.replace('"', '""')
            order = names["created_at"].replace('"', '""')
            cursor = connection.execute(f'SELECT * FROM "{quoted}" ORDER BY "{order}", rowid')  # noqa: S608
            for number, row in enumerate(cursor, 1):
                values = {what: row[place] for what, place in places.items()}
                where = f"row {number} (id {str(values['id'])[:64]})"
                try:
                    yield _found(where, values, source, known)
                except Rejected as error:
                    yield where, str(error), dict(zip(columns, row, strict=True))
        finally:
            connection.close()


def _places(columns: list[str], table: str, named: dict[str, str]) -> dict[str, int]:
    """Return the place of each value in a row."""
    if not columns:
        raise Rejected(f"there is no table {table}")
    for what, column in named.items():
        if what not in COLUMNS:
            raise Rejected(f"{what} is not a value of a message: expected one of {', '.join(COLUMNS)}")
        if column not in columns:
            raise Rejected(f"table {table} has no column {column}: it has {', '.join(columns)}")
    found = {
        what: columns.index(name)
        for what, names in COLUMNS.items()
        if (name := named.get(what) or next((one for one in names if one in columns), None)) is not None
    }
    for what in _NEEDED:
        if what not in found:
            expected = ", ".join(COLUMNS[what])
            raise Rejected(f"table {table} has no column for {what}: expected {expected}, or --column {what}=NAME")
    return found


def _found(where: str, values: dict[str, Any], source: str, known: frozenset[str]) -> Found:
    if values["id"] is None:
        raise Rejected("it has no id")
    ends = [name for name in _ENDS if values.get(name) is not None]
    if len(ends) > 1:
        raise Rejected(f"{' and '.join(ends)} are both set: a message ends once")
    path, delivery = values.get("publish_path"), values.get("delivery_class") or "async"
    if path is not None and path not in (*_PATHS, UNKNOWN):
        raise Rejected(f"publish_path is {str(path)[:40]!r}: expected one of {', '.join(sorted(_PATHS))}, or nothing")
    if delivery not in ("sync", "async"):
        raise Rejected(f"delivery_class is {str(delivery)[:40]!r}: expected sync or async")
    created_at = _time(values["created_at"], "created_at")
    if created_at is None:
        raise Rejected("it has no created_at")
    sender = values.get("sender")
    original = {"imported": {"source": source, "id": str(values["id"])[:128]}}
    return Found(
        where=where,
        message_id=message_id_of(values["id"], source),
        sender=UNKNOWN if sender is None else agent_name(sender, "the sender"),
        recipient=agent_name(values["recipient"], "the recipient"),
        type=type_name(values.get("type"), known),
        priority=_priority(values.get("priority")),
        payload=_payload(values.get("payload")),
        metadata=msgspec.json.encode(original),
        correlation_id=correlation_of(values.get("correlation_id")),
        created_at=created_at,
        expires_at=_time(values.get("expires_at"), "expires_at"),
        delivery_class=delivery,
        publish_path=None if path == UNKNOWN else path,
        version="1.1.0",
        delivered_at=_time(values.get("delivered_at"), "delivered_at"),
        expired_at=_time(values.get("expired_at"), "expired_at"),
        recalled_at=_time(values.get("recalled_at"), "recalled_at"),
    )


def _priority(value: Any) -> Priority | None:
    if value is None:
        return None
    if isinstance(value, int) and 0 <= value <= Priority.CRITICAL:
        return Priority(value)
    if isinstance(value, str) and value in VOCABULARY and VOCABULARY[value] <= Priority.CRITICAL:
        return VOCABULARY[value]
    raise Rejected(f"the priority is {str(value)[:40]!r}: expected BLOCKER, ASK, TASK or INFO")


def _payload(value: Any) -> bytes:
    """Return the payload as a JSON object; a text that is none becomes its `text`."""
    if value is None:
        return b"{}"
    try:
        data = value if isinstance(value, bytes) else str(value).encode("utf-8")
        text = data.decode("utf-8")
    except UnicodeError:
        raise Rejected("the payload is not UTF-8") from None
    try:
        decoded = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError):
        return msgspec.json.encode({"text": text})
    return data if isinstance(decoded, dict) else msgspec.json.encode({"text": text})


def _time(value: Any, what: str) -> int | None:
    """Return a time in microseconds; numbers are seconds, milliseconds or microseconds, by their size."""
    if value is None or value == "":
        return None
    try:
        if isinstance(value, int | float):
            if value < 0:
                raise ValueError
            scale = 1 if value >= _MICROSECONDS else 1000 if value >= _MILLISECONDS else 1_000_000
            return int(value * scale)
        moment = datetime.fromisoformat(str(value))
        return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1_000_000)
    except (ValueError, OverflowError):
        raise Rejected(f"{what} is {str(value)[:40]!r}: expected ISO 8601, or a number since 1970") from None
