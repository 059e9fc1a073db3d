"""The last line of a transform: exactly the declared columns, in their order, with their types and comments.

So a table's schema is its declaration and nothing else. Nothing here knows how tables are stored or when they are made.
"""

from collections.abc import Iterable

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from tocsin.pipeline.tables.schemas import Column, type_of

__all__ = ["columns", "conform"]


def columns(*rows: tuple[str, str, str]) -> tuple[Column, ...]:
    """List columns as name, type and meaning."""
    return tuple(Column(*row) for row in rows)


def conform(frame: DataFrame, declared: Iterable[Column]) -> DataFrame:
    """Select the declared columns."""
    return frame.select(
        *(
            F.col(column.name).cast(type_of(column.type)).alias(column.name, metadata={"comment": column.about})
            for column in declared
        )
    )
