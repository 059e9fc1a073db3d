"""The events of one kind as columns, and their conversion to the Arrow schema of the `event` table."""

from collections.abc import Iterable
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tocsin.pipeline.bronze.event_decoder import ABSENT, fields_of
from tocsin.pipeline.tables.schemas import DOCUMENTS, EVENT, KINDS, Column, columns_of

__all__ = ["EVENT_SCHEMA", "EventColumns", "Integers", "schema_of", "selected"]

Integers = npt.NDArray[np.int64]

_ARROW: dict[str, pa.DataType] = {
    "string": pa.string(),
    "bigint": pa.int64(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "array<string>": pa.list_(pa.string()),
    "array<bigint>": pa.list_(pa.int64()),
}


def _file_schema(columns: Iterable[Column]) -> pa.Schema:
    """Return the schema of a data file: the columns of the table without those that its folder names."""
    return pa.schema(
        [(column.name, _ARROW[column.type]) for column in columns if column.name not in ("project", "date")]
    )


#: Arrow schema of a data file of `event` that has every kind.
EVENT_SCHEMA = _file_schema(EVENT)


def schema_of(kinds: Iterable[str]) -> pa.Schema:
    """Return the schema of a file with events of some kinds: only the columns that one of them has."""
    used = {"seq", "kind", "at"}.union(*(columns_of(KINDS[kind]).values() for kind in kinds))
    return pa.schema([field for field in EVENT_SCHEMA if field.name in used])


class EventColumns(msgspec.Struct):
    """The events of one kind, as columns."""

    kind: str
    #: One sequence of values per field of `fields_of(kind)`.
    columns: list[Any]

    @property
    def seqs(self) -> Integers:
        """Return the sequence numbers."""
        seqs: Integers = self.columns[1]
        return seqs

    @property
    def ats(self) -> Integers:
        """Return the times, microseconds since the epoch."""
        ats: Integers = self.columns[2]
        return ats

    def rows(self, keep: npt.NDArray[np.intp]) -> "EventColumns":
        """Return some rows, by position."""
        return EventColumns(self.kind, selected(self.columns, keep))

    def to_arrow(self, schema: pa.Schema) -> pa.Table:
        """Return the events with the columns of a file; all columns that the kind does not have share their nulls."""
        names = columns_of(KINDS[self.kind])
        by_column = {
            names.get(field, field): values for field, values in zip(fields_of(self.kind), self.columns, strict=True)
        }
        arrays = []
        nulls: dict[pa.DataType, pa.Array] = {}
        for field in schema:
            values = by_column.get(field.name)
            if field.name == "kind":
                array = pa.repeat(pa.scalar(self.kind), len(self.seqs))
            elif values is None:
                if field.type not in nulls:
                    nulls[field.type] = pa.nulls(len(self.seqs), field.type)
                array = nulls[field.type]
            elif field.name in DOCUMENTS:
                known = any(value is not ABSENT for value in values)
                array = pa.array([_text(value) for value in values] if known else [None] * len(values), field.type)
            else:
                array = pa.array(values, field.type)
            arrays.append(array)
        return pa.table(arrays, schema=schema)


def selected(columns: list[Any], keep: npt.NDArray[np.intp]) -> list[Any]:
    """Return some rows of columns, by position."""
    places = keep.tolist()
    return [
        column[keep] if isinstance(column, np.ndarray) else tuple(column[place] for place in places)
        for column in columns
    ]


def _text(value: msgspec.Raw) -> str | None:
    text = bytes(value).decode()
    return None if text == "null" else text
