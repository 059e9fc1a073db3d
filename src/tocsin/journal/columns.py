"""Columns, tables, and the functions that turn rows into structs.

Theory of operation. A column is declared once, with the struct field that it stores and the codec between the two.
`row_reader`, and `row_writer` of `tocsin.journal.checksums`, write the source of a function for a list of columns and
compile it when the package is imported, as `dataclasses` does for `__init__`. Rows are made for every message, so these
functions contain one expression per column and no loop and no call that a hand-written function would not have.
"""

from collections.abc import Callable
from enum import Enum
from operator import itemgetter
from typing import Any, TypeVar

import msgspec

__all__ = ["PLAIN", "Codec", "Column", "Kind", "Row", "Table", "Update", "codec_names", "compiled", "row_reader"]

Row = tuple[Any, ...]
Record = TypeVar("Record", bound=msgspec.Struct)


class Kind(Enum):
    """Type of a column."""

    INT = "int"
    REAL = "real"
    TEXT = "text"
    BOOL = "bool"
    BYTES = "bytes"
    #: Microseconds since the epoch in a row; null where it never happened.
    TIME = "time"
    #: UTF-8 bytes in a row, text in the database.
    BODY = "body"


class Update(Enum):
    """Effect on a column when its row is written again."""

    #: It takes the new value.
    SET = "set"
    #: It keeps the first value.
    KEEP = "keep"
    #: It takes the new value unless that is null.
    IF_GIVEN = "if_given"
    #: The new text is added at the end, up to a limit.
    APPEND = "append"


class Codec(msgspec.Struct, frozen=True, eq=False):
    """Conversion between a struct's field and a column: Python expressions in which `{0}` is the value to convert."""

    #: From the field to the column.
    write: str = "{0}"
    #: From the column to the field.
    read: str = "{0}"
    #: What the names in the expressions stand for.
    names: dict[str, Any] = {}


#: The column and the field have the same value.
PLAIN = Codec()


class Column(msgspec.Struct, frozen=True):
    """One column of a table, and the struct field that it stores."""

    name: str
    kind: Kind
    update: Update = Update.SET
    codec: Codec = PLAIN
    #: Name of the struct's field, where it is not the column's name.
    attribute: str = ""
    #: Whether a checksum covers it.
    sealed: bool = True

    @property
    def field(self) -> str:
        """Return the name of the struct's field."""
        return self.attribute or self.name


class Table(msgspec.Struct, frozen=True, eq=False):
    """One table, and the column that identifies its rows within a project.

    It is hashed by identity: statements and functions are looked up by table for every row or batch.
    """

    name: str
    key: str
    columns: tuple[Column, ...]
    #: Names of the columns in the order in which the checksum of a row covers them; empty if it is that of a row.
    checksum_order: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the columns, in the order of a row."""
        return tuple(column.name for column in self.columns)

    @property
    def kinds(self) -> dict[str, Kind]:
        """Return the type of each column."""
        return {column.name: column.kind for column in self.columns}

    def values_of(self, *names: str) -> Callable[[Row], Any]:
        """Return a function that takes the named columns out of a row: a value for one name, a tuple for several."""
        return itemgetter(*[self.names.index(name) for name in names])


def row_reader(
    struct: type[Record], table: Table, columns: tuple[Column, ...], given: tuple[str, ...] = ()
) -> Callable[..., Record]:
    """Build the function that makes a struct out of a row of a table.

    `columns` are those of the table that hold the struct's fields. Fields that no column holds are named in `given`:
    their values follow the row as arguments.
    """
    held = {column.name for column in columns}
    row = ", ".join(f"column_{name}" if name in held else "_" for name in table.names)
    sources = {column.field: column.codec.read.format(f"column_{column.name}") for column in columns}
    sources |= {name: name for name in given}
    values = ", ".join(sources[name] for name in struct.__struct_fields__)
    source = f"def function({', '.join(('row', *given))}):\n    {row}, = row\n    return struct({values})"
    function: Callable[..., Record] = compiled(source, struct=struct, **codec_names(columns))
    return function


def codec_names(columns: tuple[Column, ...]) -> dict[str, Any]:
    """Return what the names in the codecs of columns stand for."""
    return {name: value for column in columns for name, value in column.codec.names.items()}


def compiled(source: str, **names: Any) -> Any:
    """Return the function of a source that is made of declared columns; nothing in it comes from outside."""
    exec(source, names)  # noqa: S102
    return names["function"]
