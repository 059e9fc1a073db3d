"""Checksums of journal groups, of table rows, and of the values that a recovery reads beside them.

Theory of operation. A group has a checksum over its header and its events, and a chain value over that checksum and the
chain value of the group before it: a group that was replaced by another breaks the chain. A table row has a checksum
over every column that each write of the row knows. A column that a later write may leave out (`Update.IF_GIVEN`) has a
checksum column of its own, because no write knows both that value and all the others. All are CRC-32. They detect
accidental damage; they are no protection against someone who can write to the files and recompute them.

A null checksum belongs to a row or group that was written before there were checksums: it is accepted, and counted as
unverified.
"""

import zlib
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from struct import Struct

import msgspec

from tocsin.journal.columns import Column, Kind, Row, Table, Update, compiled
from tocsin.journal.errors import TablesDamaged

__all__ = [
    "CHECKSUM",
    "FROM_BEFORE",
    "chained",
    "chunk_checksum",
    "document_checksum",
    "group_checksum",
    "is_checksum",
    "key_of",
    "sealed",
    "sealer",
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
_NAMES = {"crc32": zlib.crc32, "pack": _PACK, "FROM_BEFORE": FROM_BEFORE}


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
    """Return the checksum of one chunk of a queue of ended messages."""
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


@cache
def sealer(table: Table) -> Callable[[Row], Row]:
    """Build the function that appends its checksums to a row of a table."""
    own = _own(table)
    seals = [f"None if row[{place}] is None else {_own_checksum(column, place)}" for place, column in own]
    seals.append(_row_checksum(table, _WRITTEN))
    source = f"def function(row):\n    {_seed(table)}\n    return (*row, {', '.join(seals)})"
    function: Callable[[Row], Row] = compiled(source, **_NAMES)
    return function


@cache
def verifier(table: Table) -> Callable[[Row], str | None]:
    """Build the function that returns null for an intact row, else the damaged part, or `FROM_BEFORE`."""
    own = _own(table)
    width = len(table.columns)
    lines = [
        _seed(table),
        f"if row[{width - 1}] is None: return FROM_BEFORE",
        f"if row[{width - 1}] != {_row_checksum(table, _READ)}: return 'its columns'",
    ]
    missing: list[str] = []
    for number, (place, column) in enumerate(own):
        kept = f"row[{width - 1 - len(own) + number}]"
        wrong = f"row[{place}] is None or {kept} != {_own_checksum(column, place)}"
        lines.append(f"if {kept} is not None and ({wrong}): return {column.name!r}")
        missing.append(f"if {kept} is None and row[{place}] is not None: return FROM_BEFORE")
    # A value whose type has changed cannot be encoded as its column's type.
    body = "".join(f"        {line}\n" for line in [*lines, *missing])
    source = f"def function(row):\n    try:\n{body}    except (TypeError, OverflowError): return 'its columns'"
    function: Callable[[Row], str | None] = compiled(source, **_NAMES)
    return function


def verified(table: Table, rows: Iterable[Row]) -> Iterator[Row]:
    """Yield the rows of a table; raise for the first one that is not what was written."""
    verdict = verifier(table)
    for row in rows:
        wrong = verdict(row)
        if wrong is not None and wrong is not FROM_BEFORE:
            raise TablesDamaged(f"table {table.name}, row {key_of(table, row)}: the checksum of {wrong} does not match")
        yield row


def key_of(table: Table, row: Row) -> str:
    """Return the key of a row as text, for reports."""
    return ", ".join(str(row[table.names.index(name)]) for name in table.key.split(", "))


def is_checksum(column: Column) -> bool:
    """Tell whether a column holds a checksum."""
    return column.name == CHECKSUM or column.name.endswith(f"_{CHECKSUM}")


def _own(table: Table) -> list[tuple[int, Column]]:
    """Return the columns that have a checksum of their own, with their places."""
    return [(place, column) for place, column in enumerate(table.columns) if _has_own(column)]


def _has_own(column: Column) -> bool:
    return column.update is Update.IF_GIVEN and column.sealed


def _seed(table: Table) -> str:
    """Return the statement that binds a value to the row's key, so that values cannot change places unnoticed."""
    return f"seed = crc32(pack(row[{table.names.index(table.key)}]))" if _own(table) else "pass"


def _own_checksum(column: Column, place: int) -> str:
    return f"crc32({f'row[{place}]' if column.kind in (Kind.BODY, Kind.BYTES) else f'pack(row[{place}])'}, seed)"


#: Expressions for values that must be the same before they are stored and after they were read, on every store: a
#: number in a REAL column is read as a float, and SQLite reads a truth value as a number.
_WRITTEN = {Kind.REAL: "row[{0}] + 0.0"}
_READ = {Kind.REAL: "row[{0}] + 0.0", Kind.BOOL: "bool(row[{0}])"}


def _row_checksum(table: Table, conversions: dict[Kind, str]) -> str:
    """Return the expression for the checksum of a row; values that need no conversion are taken in slices."""
    parts: list[str] = []
    begun: int | None = None
    for place, column in enumerate((*table.columns, None)):
        covered = column is not None and column.sealed and column.update in (Update.SET, Update.KEEP)
        conversion = conversions.get(column.kind) if column is not None and covered else None
        if covered and conversion is None:
            begun = place if begun is None else begun
            continue
        if begun is not None:
            parts.append(f"*row[{begun}:{place}]")
            begun = None
        if conversion is not None:
            parts.append(conversion.format(place))
    return f"crc32(pack(({', '.join(parts)},)))"
