"""Every table of the warehouse: the engine's own, and the derived ones in the order in which they are made."""

from tocsin.core.errors import InvariantViolation
from tocsin.pipeline import gold, silver
from tocsin.pipeline.schemas import EVENT, MESSAGE_LIFE, QUARANTINE
from tocsin.pipeline.tables import Source, Table

__all__ = ["DERIVED", "SOURCES", "in_order"]

SOURCES: tuple[Source, ...] = (
    Source("event", "bronze", "Every event of every segment, once; sorted by kind and number in each file.", EVENT),
    Source("quarantine", "bronze", "Lines of segments that are no events, with the reason.", QUARANTINE),
    Source("message_life", "silver", "One row per message: all that became of it.", MESSAGE_LIFE),
)


def in_order(tables: tuple[Table, ...]) -> tuple[Table, ...]:
    """Return tables as they are, having checked that each comes after its inputs."""
    known = {"event", "message_life"}
    for table in tables:
        for item in table.inputs:
            if item.table not in known:
                raise InvariantViolation(f"{table.name} reads {item.table}, which does not come before it")
        known.add(table.name)
    return tables


DERIVED: tuple[Table, ...] = in_order((*silver.TABLES, *gold.TABLES))
