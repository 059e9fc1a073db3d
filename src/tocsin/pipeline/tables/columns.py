"""Declaration of columns in short form."""

from tocsin.pipeline.tables.schemas import Column

__all__ = ["columns"]


def columns(*rows: tuple[str, str, str]) -> tuple[Column, ...]:
    """Make columns from tuples of name, type and description."""
    return tuple(Column(*row) for row in rows)
