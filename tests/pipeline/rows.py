"""Tables from literal rows, and the rows of views over them; times are microseconds on both sides."""

from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime
from typing import Any

import duckdb
import msgspec
import pyarrow as pa

from tocsin.core.events.base import EventBase
from tocsin.pipeline.catalogue import COLUMNS, MESSAGE, TABLES, VIEWS
from tocsin.pipeline.engine.duck import open_duckdb
from tocsin.pipeline.lake.column_types import arrow_type, sql_type
from tocsin.pipeline.lake.relations import add_view
from tocsin.pipeline.lake.relations import declared as declared_query
from tocsin.pipeline.silver.message_life import FOLD, MERGE, PREPARE, SETTLE, UNSETTLE
from tocsin.pipeline.tables.schemas import DOCUMENTS, Column, columns_of
from tocsin.pipeline.tables.table import Table, View

__all__ = ["DAY", "Given", "S", "T", "day_of", "events", "folded", "life", "lives", "made", "opened", "records", "rows"]

#: A second, in microseconds.
S = 1_000_000
#: The beginning of a day, and of the literal rows: 2026-03-02 00:00:00 UTC.
T = 1_772_409_600 * S
DAY = date(2026, 3, 2)

Row = dict[str, Any]


class Given(msgspec.Struct):
    """Literal rows of a table or view."""

    name: str
    rows: list[Row]
    #: The rows as an Arrow table, once they were asked for: to make it takes longer than most queries over it.
    made: pa.Table | None = None

    def arrow(self) -> pa.Table:
        """Return the rows with all columns of the table or view; they must not change from then on."""
        if self.made is None:
            self.made = arrow(columns_named(self.name), self.rows)
        return self.made


def day_of(at: int) -> date:
    """Return the day of a time."""
    return datetime.fromtimestamp(at // S, UTC).date()


def columns_named(name: str) -> tuple[Column, ...]:
    """Return the columns of a table or view."""
    return COLUMNS.get(name) or next(view.columns for view in VIEWS if view.name == name)


def arrow(columns: Iterable[Column], literal: Iterable[Mapping[str, Any]]) -> pa.Table:
    """Make an Arrow table from rows; missing columns are null, and unknown ones are an error."""
    kinds, literal = {column.name: column.type for column in columns}, list(literal)
    values: dict[str, list[Any]] = {name: [None] * len(literal) for name in kinds}
    for number, row in enumerate(literal):
        assert row.keys() <= kinds.keys(), f"no such column: {row.keys() - kinds.keys()}"
        for name, value in row.items():
            values[name][number] = float(value) if kinds[name] == "double" and value is not None else value
    return pa.table({name: pa.array(values[name], arrow_type(kind)) for name, kind in kinds.items()})


def opened(*given: Given, only: Iterable[str] | None = None) -> duckdb.DuckDBPyConnection:
    """Open tables and views over literal rows; a table or view that is given has exactly those rows.

    With `only`, those tables and views are there, and what they read; otherwise all.
    """
    connection = open_duckdb(512, "")
    known = {item.name: item for item in given}
    declared: dict[str, Table | View] = {table.name: table for table in TABLES}
    declared |= {view.name: view for view in VIEWS}
    done: set[str] = set()

    def add(name: str) -> None:
        if name in done:
            return
        done.add(name)
        if name not in known and name in declared:
            for read in declared[name].reads:
                add(read)
            if only is None and isinstance(declared[name], Table):
                # As in a warehouse: made once, and not whenever a view reads it.
                query = declared_query(declared[name].columns, declared[name].sql)
                connection.execute(f'CREATE TABLE "{name}" AS {query}')
            else:
                add_view(connection, name, declared[name].columns, declared[name].sql)
            return
        columns = columns_named(name)
        connection.register(f"given_{name}", known[name].arrow() if name in known else arrow(columns, []))
        # A file of `event` never spans days.
        more = ", date::VARCHAR AS file" if name == "event" else ""
        chosen = ", ".join(f'"{column.name}"::{sql_type(column.type)} AS "{column.name}"' for column in columns)
        connection.execute(f'CREATE TABLE "{name}" AS SELECT {chosen}{more} FROM given_{name}')

    add("message_life")
    connection.execute(f"CREATE VIEW message AS {MESSAGE}")
    for name in (*known, "event", *(declared if only is None else only)):
        add(name)
    return connection


def made(name: str, *given: Given) -> list[Row]:
    """Return the rows of a table or view over literal rows, in order."""
    with opened(*given, only=[name]) as connection:
        return rows(connection, name)


def rows(connection: duckdb.DuckDBPyConnection, name: str, where: str = "true") -> list[Row]:
    """Return the rows of a table or view, in order."""
    columns = columns_named(name)
    plain = ", ".join(_plain(column) for column in columns)
    found = connection.execute(f'SELECT {plain} FROM "{name}" WHERE {where}').fetchall()
    names = [column.name for column in columns]
    return sorted((dict(zip(names, row, strict=True)) for row in found), key=in_order)


def _plain(column: Column) -> str:
    if column.type == "timestamp":
        return f'us("{column.name}")'
    if column.type == "array<timestamp>":
        return f'list_transform("{column.name}", lambda moment: epoch_us(moment))'
    return f'"{column.name}"'


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


def events(*happened: EventBase, project: str = "p") -> Given:
    """Make `event` from events, numbered from 1."""
    return Given("event", records(project, enumerate(happened, 1)))


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


def lives(*literal: Row) -> Given:
    """Make `message_life` from rows."""
    return Given("message_life", list(literal))


def folded(*parts: Given, project: str = "p") -> list[Row]:
    """Fold each part of a project's events and merge the results to rows of `message_life`."""
    with opened(only=[]) as connection:
        for number, part in enumerate(parts):
            _fold(connection, part, "CREATE TEMP TABLE partial AS" if number == 0 else "INSERT INTO partial BY NAME")
        connection.execute(f"CREATE TEMP TABLE merged AS {MERGE if len(parts) > 1 else 'SELECT * FROM partial'}")
        connection.execute(f"CREATE OR REPLACE TABLE message_life AS {SETTLE}", {"project": project})
        return rows(connection, "message_life")


def settled(*parts: Given, project: str = "p") -> list[Row]:
    """Fold each part of a project's events and merge it into rows of `message_life`, one after the other."""
    with opened(only=[]) as connection:
        for number, part in enumerate(parts):
            _fold(connection, part, "CREATE OR REPLACE TEMP TABLE partial AS")
            if number:
                connection.execute("CREATE OR REPLACE TEMP TABLE known AS SELECT * FROM message_life")
                connection.execute(f"INSERT INTO partial BY NAME {UNSETTLE}")
            connection.execute(f"CREATE OR REPLACE TEMP TABLE merged AS {MERGE}")
            connection.execute(f"CREATE OR REPLACE TABLE message_life AS {SETTLE}", {"project": project})
        return rows(connection, "message_life")


def _fold(connection: duckdb.DuckDBPyConnection, part: Given, begin: str) -> None:
    connection.register("given_part", part.arrow())
    connection.execute("CREATE OR REPLACE TABLE event AS SELECT *, 'one' AS file FROM given_part")
    connection.execute(PREPARE)
    connection.execute(f"{begin} {FOLD}")
