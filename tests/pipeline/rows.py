"""Tables from literal rows and back; times are microseconds on both sides."""

from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime
from typing import Any

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import ArrayType, TimestampType

from tocsin.core.events.base import EventBase
from tocsin.pipeline.tables.schemas import DOCUMENTS, EVENT, MESSAGE_LIFE, Column, columns_of, struct_of

__all__ = ["DAY", "S", "T", "day_of", "events", "frame", "life", "lives", "records", "rows"]

#: A second, in microseconds.
S = 1_000_000
#: The beginning of a day, and of the literal rows: 2026-03-02 00:00:00 UTC.
T = 1_772_409_600 * S
DAY = date(2026, 3, 2)

Row = dict[str, Any]


def day_of(at: int) -> date:
    """Return the day of a time."""
    return datetime.fromtimestamp(at // S, UTC).date()


def frame(spark: SparkSession, columns: Iterable[Column], literal: Iterable[Mapping[str, Any]]) -> DataFrame:
    """Make a table from rows; missing columns are null, and unknown ones are an error."""
    columns = tuple(columns)
    names = {column.name for column in columns}
    values = []
    for row in literal:
        unknown = set(row) - names
        assert not unknown, f"no such column: {unknown}"
        values.append(tuple(_value(column.type, row.get(column.name)) for column in columns))
    return spark.createDataFrame(values, struct_of(columns), verifySchema=False)


def _value(kind: str, value: Any) -> Any:
    if value is None:
        return None
    if kind == "timestamp":
        return datetime.fromtimestamp(value // S, UTC).replace(microsecond=value % S)
    if kind.startswith("array<"):
        return [_value(kind[6:-1], item) for item in value]
    if kind == "double":
        return float(value)
    return value


def rows(table: DataFrame) -> list[Row]:
    """Read a table, ordered by its rows."""
    plain = []
    for field in table.schema.fields:
        column = F.col(f"`{field.name}`")
        if isinstance(field.dataType, TimestampType):
            column = F.unix_micros(column)
        elif isinstance(field.dataType, ArrayType) and isinstance(field.dataType.elementType, TimestampType):
            column = F.transform(column, F.unix_micros)
        plain.append(column.alias(field.name))
    found = [row.asDict(recursive=True) for row in table.select(*plain).collect()]
    return sorted(found, key=in_order)


def in_order(row: Row) -> list[str]:
    """Return the sort key of a row: its values as text, numbers padded."""
    return [f"{value:030d}" if type(value) is int else str(value) for value in row.values()]


def records(project: str, numbered: Iterable[tuple[int, EventBase]]) -> list[Row]:
    """Return events as rows of `event`."""
    found = []
    for seq, event in numbered:
        row: Row = {"project": project, "date": day_of(event.at), "seq": seq, "kind": type(event).__name__}
        for field, column in columns_of(type(event)).items():
            value = getattr(event, field)
            row[column] = value.decode() if field in DOCUMENTS else msgspec.to_builtins(value)
        found.append(row)
    return found


def events(spark: SparkSession, *happened: EventBase, project: str = "p") -> DataFrame:
    """Make `event` from events, numbered from 1."""
    return frame(spark, EVENT, records(project, enumerate(happened, 1)))


def life(message: int, created_at: int, **known: Any) -> Row:
    """Return a row of `message_life`; by default accepted at Coordinate for an available recipient."""
    row: Row = {
        "project": "p",
        "date": day_of(created_at),
        "message": message,
        "message_id": f"m{message}",
        "sender": "ann",
        "recipient": "bob",
        "message_type": "StatusUpdate",
        "requested": 1,
        "priority": 1,
        "rule": "as_requested",
        "importance": 5,
        "decay_rate": 0.0,
        "delivery_class": "async",
        "ack_required": False,
        "version": "1.1.0",
        "opens_thread": False,
        "recipient_state": "available",
        "publish_path": "pushed_to_ws",
        "held": "",
        "created_at": created_at,
        "sent_at": created_at,
        "expires_at": created_at + 3600 * S,
        "state": "queued",
        "offers": 0,
        "attempts": 0,
        "requeues": 0,
        "rejections": 0,
        "boosts": 0,
        "redrives": 0,
        "last_seq": message,
        "last_at": created_at,
        "is_open": True,
    }
    row |= known
    row.setdefault("level", row["priority"])
    return row


def lives(spark: SparkSession, *literal: Row) -> DataFrame:
    """Make `message_life` from rows."""
    return frame(spark, MESSAGE_LIFE, literal)
