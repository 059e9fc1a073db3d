"""Conversion of a transform's result to the declared columns of its table, in order, with types and comments.

Every transform ends with `conform`, so that a table's schema is always its declaration.
"""

from collections.abc import Iterable

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from tocsin.pipeline.tables.schemas import Column, type_of

__all__ = ["columns", "conform"]


def columns(*rows: tuple[str, str, str]) -> tuple[Column, ...]:
    """Make columns from tuples of name, type and description."""
    return tuple(Column(*row) for row in rows)


def conform(frame: DataFrame, declared: Iterable[Column]) -> DataFrame:
    """Select the declared columns and cast them to their types."""
    return frame.select(
        *(
            F.col(column.name).cast(type_of(column.type)).alias(column.name, metadata={"comment": column.about})
            for column in declared
        )
    )
