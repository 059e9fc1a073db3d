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

__all__ = [
    "PLAIN",
    "Codec",
    "Column",
    "Kind",
    "Row",
    "Shape",
    "Table",
    "Update",
    "codec_names",
    "compiled",
    "row_completer",
    "row_reader",
]

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


class Shape(msgspec.Struct, frozen=True, eq=False):
    """Rows of a table in which most columns follow from a few: those are the bound ones, the values of a short row."""

    table: Table
    #: Columns that have one value in all of these rows.
    constants: dict[str, Any]
    #: Columns that have the value of a bound column, by name.
    same: dict[str, str] = {}

    @property
    def bound(self) -> tuple[str, ...]:
        """Return the names of the other columns, in the order of a row of the table."""
        return tuple(name for name in self.table.names if name not in self.constants and name not in self.same)

    def sources(self) -> dict[str, str]:
        """Return a Python expression for each column, in which the variable of a bound column has its value."""
        found = {name: f"column_{self.same.get(name, name)}" for name in self.table.names}
        return found | {name: repr(value) for name, value in self.constants.items()}


def row_completer(shape: Shape) -> Callable[[Row], Row]:
    """Build the function that makes a row of the table out of a short row."""
    bound = ", ".join(f"column_{name}" for name in shape.bound)
    values = ", ".join(shape.sources()[name] for name in shape.table.names)
    function: Callable[[Row], Row] = compiled(f"def function(row):\n    {bound}, = row\n    return ({values},)")
    return function


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
