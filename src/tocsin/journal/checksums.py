"""Checksums of journal groups, of table rows, and of the values that a recovery reads beside them.

Theory of operation. A group has a checksum over its header and its events, and a chain value over that checksum and the
chain value of the group before it: a group that was replaced by another breaks the chain. A table row has a checksum
over every column that each write of the row knows. A column that a later write may leave out (`Update.IF_GIVEN`) has a
checksum column of its own, because no write knows both that value and all the others. All are CRC-32. They detect
accidental damage; they are no protection against someone who can write to the files and recompute them.

A null checksum belongs to a row or group that was written before there were checksums: it is accepted, and counted as
unverified. A damaged record can lose its checksum as well. The position of the tables therefore names those in which
every row that a recovery reads has one (`Seals`): a row without a checksum is damage there. A table is named as soon as
a recovery has found no such row in it, and new tables are from the beginning.
"""

import zlib
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from struct import Struct
from typing import Any

import msgspec

from tocsin.journal.columns import Column, Kind, Row, Shape, Table, Update, codec_names, compiled
from tocsin.journal.errors import TablesDamaged

__all__ = [
    "CHECKSUM",
    "FROM_BEFORE",
    "Seals",
    "chained",
    "chunk_checksum",
    "document_checksum",
    "group_checksum",
    "is_checksum",
    "key_of",
    "row_writer",
    "sealed",
    "sealer",
    "short_row_writer",
    "verified",
    "verifier",
]

#: Name of the column with the checksum of a row.
CHECKSUM = "checksum"
#: Verdict on a row without a checksum.
FROM_BEFORE = "from before"

_HEADER = Struct(">qqqq")
_LINK = Struct(">II")
_PACK = msgspec.msgpack.Encoder().encode
_NAMES = {"crc32": zlib.crc32, "packed": _PACK, "FROM_BEFORE": FROM_BEFORE}


def group_checksum(first_seq: int, last_seq: int, at: int, epoch: int, events: bytes) -> int:
    """Return the checksum of a group."""
    return zlib.crc32(events, zlib.crc32(_HEADER.pack(first_seq, last_seq, at, epoch)))


def chained(before: int, checksum: int) -> int:
    """Return the chain value of a group with some checksum, after a group with some chain value; 0 before the first."""
    return zlib.crc32(_LINK.pack(before, checksum & 0xFFFFFFFF))


def document_checksum(seq: int, document: bytes) -> int:
    """Return the checksum of the document that states the position of the tables."""
    return zlib.crc32(document, zlib.crc32(_PACK(seq)))


def chunk_checksum(name: str, first: int, count: int, entries: bytes) -> int:
    """Return the checksum of one chunk of a stored queue."""
    return zlib.crc32(entries, zlib.crc32(_PACK((name, first, count))))


def sealed(columns: tuple[Column, ...]) -> tuple[Column, ...]:
    """Return a table's columns followed by its checksum columns."""
    update = Update.SET if any(column.update is Update.SET for column in columns) else Update.KEEP
    own = tuple(
        Column(f"{column.name}_{CHECKSUM}", Kind.INT, Update.IF_GIVEN, sealed=False)
        for column in columns
        if _has_own(column)
    )
    return (*columns, *own, Column(CHECKSUM, Kind.INT, update, sealed=False))


def row_writer(
    table: Table, *groups: tuple[Column, ...], given: tuple[str, ...] = (), values: tuple[str, ...] = ()
) -> Callable[..., Row]:
    """Build the function that makes a row of a table, with its checksums.

    It takes one struct for each group of columns, and then the values of the columns that are named in `given`. With
    `values`, the first group is not taken from a struct but from a tuple: the values of the fields of these names.
    """
    arguments = [f"record_{number}" for number in range(len(groups))] + [f"column_{name}" for name in given]
    lines: list[str] = []
    if values:
        taken = {column.field: f"column_{column.name}" for column in groups[0]}
        lines.append(f"{', '.join(taken.get(name, '_') for name in values)}, = record_0")
    for number, columns in enumerate(groups):
        for column in columns:
            target = f"column_{column.name}"
            source = target if values and not number else f"record_{number}.{column.field}"
            value = column.codec.write.format(source)
            if value != target:
                lines.append(f"{target} = {value}")
    return _row_function(table, arguments, lines, codec_names(table.columns))


def short_row_writer(shape: Shape, columns: tuple[Column, ...], given: tuple[str, ...]) -> Callable[..., Row]:
    """Build the function that makes a short row of a shape, with its checksums.

    It takes a tuple of the struct's fields that bound columns among `columns` hold, in the order of a short row, and
    then the values of the columns that are named in `given`.
    """
    by_name = {column.name: column for column in columns}
    fields = [by_name[name] for name in shape.bound if name in by_name]
    lines = [f"{', '.join(f'column_{column.name}' for column in fields)}, = fields"]
    for column in fields:
        value = column.codec.write.format(f"column_{column.name}")
        if value != f"column_{column.name}":
            lines.append(f"column_{column.name} = {value}")
    arguments = ["fields", *(f"column_{name}" for name in given)]
    return _row_function(shape.table, arguments, lines, codec_names(columns), shape)


@cache
def sealer(table: Table) -> Callable[[Row], Row]:
    """Build the function that makes a row of a table out of the values of all columns but the checksums."""
    columns = ", ".join(f"column_{column.name}" for column in table.columns if not is_checksum(column))
    return _row_function(table, ["row"], [f"{columns}, = row"], {})


def _row_function(
    table: Table, arguments: list[str], lines: list[str], names: dict[str, Any], shape: Shape | None = None
) -> Callable[..., Row]:
    """Build a function that assigns the columns by some lines and returns the row; with a shape, the short row."""
    shape = shape or Shape(table, {})
    sources = shape.sources()
    sums = {f"{column.name}_{CHECKSUM}": _own_checksum(column, sources[column.name]) for column in _own(table)}
    for column in _own(table):
        if column.name not in shape.constants:
            name = f"{column.name}_{CHECKSUM}"
            sums[name] = f"None if {sources[column.name]} is None else {sums[name]}"
    sums[CHECKSUM] = _row_checksum(table, _WRITTEN, sources)
    values = ", ".join(sums.get(name, f"column_{name}") for name in shape.bound)
    body = "".join(f"    {line}\n" for line in [*lines, _seed(table)])
    source = f"def function({', '.join(arguments)}):\n{body}    return ({values},)"
    function: Callable[..., Row] = compiled(source, **_NAMES, **names)
    return function


@cache
def verifier(table: Table) -> Callable[[Row], str | None]:
    """Build the function that returns null for an intact row, else the damaged part, or `FROM_BEFORE`.

    Every write of a row sets its checksum, so one without it has no other checksum either. Otherwise a damaged header
    of the record has moved its values to other columns, and the checksum beyond the last one.
    """
    others = " or ".join(f"column_{column.name}_{CHECKSUM} is not None" for column in _own(table)) or "False"
    lines = [
        f"{', '.join(f'column_{name}' for name in table.names)}, = row",
        _seed(table),
        f"if column_{CHECKSUM} is None: return 'its columns' if {others} else FROM_BEFORE",
        f"if column_{CHECKSUM} != {_row_checksum(table, _READ, Shape(table, {}).sources())}: return 'its columns'",
    ]
    missing: list[str] = []
    for column in _own(table):
        value, kept = f"column_{column.name}", f"column_{column.name}_{CHECKSUM}"
        wrong = f"{value} is None or {kept} != {_own_checksum(column, value)}"
        lines.append(f"if {kept} is not None and ({wrong}): return {column.name!r}")
        missing.append(f"if {kept} is None and {value} is not None: return FROM_BEFORE")
    # A value whose type has changed cannot be encoded as its column's type.
    body = "".join(f"        {line}\n" for line in [*lines, *missing])
    source = f"def function(row):\n    try:\n{body}    except (TypeError, OverflowError): return 'its columns'"
    function: Callable[[Row], str | None] = compiled(source, **_NAMES)
    return function


class Seals:
    """The tables in which every row that a recovery reads has a checksum."""

    def __init__(self, sealed: Iterable[str] = ()) -> None:
        self._sealed = frozenset(sealed)
        self._open: set[str] = set()

    def accepts(self, table: str) -> bool:
        """Note that a table has a row without a checksum; tell whether the row may be from before there were any."""
        self._open.add(table)
        return table not in self._sealed

    def among(self, tables: Iterable[str]) -> tuple[str, ...]:
        """Return those of the tables in which no such row was noted."""
        return tuple(table for table in tables if table not in self._open)


def verified(table: Table, rows: Iterable[Row], seals: Seals | None = None) -> Iterator[Row]:
    """Yield the rows of a table; raise for the first one that is not what was written."""
    seals = Seals() if seals is None else seals
    verdict = verifier(table)
    for row in rows:
        wrong = verdict(row)
        if wrong is not None:
            if wrong is not FROM_BEFORE:
                what = f"the checksum of {wrong} does not match"
                raise TablesDamaged(f"table {table.name}, row {key_of(table, row)}: {what}")
            if not seals.accepts(table.name):
                raise TablesDamaged(f"table {table.name}, row {key_of(table, row)}: its checksum is missing")
        yield row


def key_of(table: Table, row: Row) -> str:
    """Return the key of a row as text, for reports."""
    return ", ".join(str(row[table.names.index(name)]) for name in table.key.split(", "))


def is_checksum(column: Column) -> bool:
    """Tell whether a column holds a checksum."""
    return column.name == CHECKSUM or column.name.endswith(f"_{CHECKSUM}")


def _own(table: Table) -> list[Column]:
    """Return the columns that have a checksum of their own."""
    return [column for column in table.columns if _has_own(column)]


def _has_own(column: Column) -> bool:
    return column.update is Update.IF_GIVEN and column.sealed


def _seed(table: Table) -> str:
    """Return the statement that binds a value to the row's key, so that values cannot change places unnoticed."""
    return f"seed = crc32(packed(column_{table.key}))" if _own(table) else "pass"


def _own_checksum(column: Column, value: str) -> str:
    return f"crc32({value if column.kind in (Kind.BODY, Kind.BYTES) else f'packed({value})'}, seed)"


#: Expressions for values that must be the same before they are stored and after they were read, on every store: a
#: number in a REAL column is read as a float, and SQLite reads a truth value as a number.
_WRITTEN = {Kind.REAL: "{0} + 0.0"}
_READ = {Kind.REAL: "{0} + 0.0", Kind.BOOL: "bool({0})"}


def _row_checksum(table: Table, conversions: dict[Kind, str], sources: dict[str, str]) -> str:
    """Return the expression for the checksum of a row, with an expression for each column."""
    by_name = {column.name: column for column in table.columns}
    values = ", ".join(
        conversions.get(column.kind, "{0}").format(sources[column.name])
        for column in map(by_name.__getitem__, table.checksum_order or table.names)
        if column.sealed and column.update in (Update.SET, Update.KEEP)
    )
    return f"crc32(packed(({values},)))"
