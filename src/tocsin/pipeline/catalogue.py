"""The list of all stored tables and views, and opening them."""

from collections.abc import Iterable
from pathlib import Path

import duckdb

from tocsin.core.errors import InvariantViolation
from tocsin.pipeline import silver, views
from tocsin.pipeline.engine.duck import open_duckdb
from tocsin.pipeline.facts import MESSAGE_HOUR, MESSAGE_MINUTE, OCCURRENCE, QUEUE_SECOND
from tocsin.pipeline.lake.relations import add_relation, add_view
from tocsin.pipeline.lake.storage import Place
from tocsin.pipeline.lake.warehouse import Snapshot, Warehouse
from tocsin.pipeline.settings import Settings
from tocsin.pipeline.tables.schemas import EVENT, MESSAGE_LIFE, QUARANTINE, SEGMENT, Column
from tocsin.pipeline.tables.table import Source, Table, View

__all__ = [
    "COLUMNS",
    "MESSAGE",
    "SOURCES",
    "TABLES",
    "VIEWS",
    "in_order",
    "needed",
    "open_tables",
    "open_warehouse",
    "stored_inputs",
]

#: Tables that the engine itself writes.
SOURCES: tuple[Source, ...] = (
    Source("event", "bronze", "Every event of every segment, once; sorted by kind and number in each file.", EVENT),
    Source("quarantine", "bronze", "Lines of segments that are not valid events, with the reason.", QUARANTINE),
    Source("segment", "bronze", "One row per segment that is in `event`, with its counts.", SEGMENT),
    Source("message_life", "silver", "One row per message: attributes, timestamps, counts and state.", MESSAGE_LIFE),
)
#: Tables that tasks make from them.
TABLES: tuple[Table, ...] = (
    silver.SESSION_PART,
    silver.THREAD_DAY,
    MESSAGE_MINUTE,
    MESSAGE_HOUR,
    QUEUE_SECOND,
    OCCURRENCE,
)
_STORED: tuple[Source | Table, ...] = (*SOURCES, *TABLES)
#: The columns of every stored table, by its name.
COLUMNS: dict[str, tuple[Column, ...]] = {table.name: table.columns for table in _STORED}
#: The relation `message`: messages whose acceptance is known. The others have a gap in the journal.
MESSAGE = "SELECT * FROM message_life WHERE message_id IS NOT NULL"


def in_order(known: tuple[View, ...]) -> tuple[View, ...]:
    """Return the views unchanged after checking that each comes after its inputs."""
    names = set(COLUMNS)
    for view in known:
        for name in view.reads:
            if name not in names:
                raise InvariantViolation(f"{view.name} reads {name}, which does not come before it")
        names.add(view.name)
    return known


#: All views, in the order in which they can be made.
VIEWS: tuple[View, ...] = in_order((*silver.VIEWS, *views.VIEWS))
_BY_NAME = {view.name: view for view in VIEWS}


def stored_inputs(name: str) -> dict[str, bool]:
    """Return the stored tables that a view reads, itself or through other views; each with whether only by day."""
    found: dict[str, bool] = {}
    for item in _BY_NAME[name].reads:
        inner = stored_inputs(item) if item in _BY_NAME else {item: True}
        for table, by_day in inner.items():
            only = by_day and (item not in _BY_NAME or _BY_NAME[item].by_day)
            found[table] = found.get(table, True) and only
    return found


def open_warehouse(place: Place, settings: Settings, folder: Path | None = None) -> Warehouse:
    """Open the warehouse in a folder or at a URL, with all tables of this list.

    `folder` is a local folder for what belongs to a remote warehouse: the extract and the stream's checkpoint.
    """
    return Warehouse(place, settings, COLUMNS, folder)


def open_tables(
    warehouse: Warehouse, snapshot: Snapshot | None = None, names: Iterable[str] | None = None
) -> duckdb.DuckDBPyConnection:
    """Open a database in memory with the tables of a state of the warehouse and the views, by name.

    With `names` only those are there, and what they read: to make a view takes some hundredths of a second.
    """
    state = snapshot or warehouse.current()
    settings = warehouse.settings
    connection = open_duckdb(settings.reader_memory_mib, str(warehouse.scratch), settings.reader_threads)
    for name, columns in COLUMNS.items():
        add_relation(connection, name, columns, warehouse.storage, state.files(name))
    connection.execute(f"CREATE VIEW message AS {MESSAGE}")
    wanted = needed(_BY_NAME if names is None else names)
    for view in VIEWS:
        if view.name in wanted:
            add_view(connection, view.name, view.columns, view.sql)
    return connection


def needed(names: Iterable[str]) -> set[str]:
    """Return the views among some names, and those that they read."""
    found: set[str] = set()
    for name in names:
        if name in _BY_NAME and name not in found:
            found |= {name, *needed(_BY_NAME[name].reads)}
    return found
