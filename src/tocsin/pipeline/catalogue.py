"""The list of all tables of the warehouse, and opening a warehouse that holds them."""

from pathlib import Path

from tocsin.core.errors import InvariantViolation
from tocsin.pipeline import gold, silver
from tocsin.pipeline.lake.warehouse import Warehouse
from tocsin.pipeline.settings import Settings
from tocsin.pipeline.tables.schemas import EVENT, MESSAGE_LIFE, QUARANTINE, Column
from tocsin.pipeline.tables.table import Source, Table

__all__ = ["COLUMNS", "DERIVED", "SOURCES", "in_order", "open_warehouse"]

#: Tables that the engine itself writes.
SOURCES: tuple[Source, ...] = (
    Source("event", "bronze", "Every event of every segment, once; sorted by kind and number in each file.", EVENT),
    Source("quarantine", "bronze", "Lines of segments that are not valid events, with the reason.", QUARANTINE),
    Source("message_life", "silver", "One row per message: attributes, timestamps, counts and state.", MESSAGE_LIFE),
)


def in_order(tables: tuple[Table, ...]) -> tuple[Table, ...]:
    """Return the tables unchanged after checking that each comes after its inputs."""
    known = {"event", "message_life"}
    for table in tables:
        for item in table.inputs:
            if item.table not in known:
                raise InvariantViolation(f"{table.name} reads {item.table}, which does not come before it")
        known.add(table.name)
    return tables


#: Derived tables, in the order in which they are made.
DERIVED: tuple[Table, ...] = in_order((*silver.TABLES, *gold.TABLES))
#: The columns of every table, by its name.
COLUMNS: dict[str, tuple[Column, ...]] = {
    **{source.name: source.columns for source in SOURCES},
    **{table.name: table.columns for table in DERIVED},
}


def open_warehouse(root: Path, settings: Settings) -> Warehouse:
    """Open the warehouse in a folder, with all tables of this list."""
    return Warehouse(root, settings, COLUMNS)
