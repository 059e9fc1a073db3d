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
        Column(f"{column.name}_{CHECKSUM}", Kind.INT, Update.IF_GIVEN, sealed=False) for column in _own(columns)
    )
    return (*columns, *own, Column(CHECKSUM, Kind.INT, update, sealed=False))


@cache
def sealer(table: Table) -> Callable[[Row], Row]:
    """Build the function that appends its checksums to a row of a table."""
    names = ", ".join(f"c_{column.name}" for column in _plain(table))
    seals = ", ".join(
        [f"None if c_{column.name} is None else {_own_checksum(column)}" for column in _own(table.columns)]
        + [_row_checksum(table)]
    )
    source = f"def function(row):\n    {names}, = row\n    {_seed(table)}\n    return (*row, {seals})"
    function: Callable[[Row], Row] = compiled(source, **_NAMES)
    return function


@cache
def verifier(table: Table) -> Callable[[Row], str | None]:
    """Build the function that returns null for an intact row, else the damaged part, or `FROM_BEFORE`."""
    plain = _plain(table)
    own = _own(table.columns)
    names = [f"c_{column.name}" for column in plain] + [f"k_{column.name}" for column in own] + ["k_row"]
    lines = [
        f"{', '.join(names)}, = row",
        _seed(table),
        "if k_row is None: return FROM_BEFORE",
        f"if k_row != {_row_checksum(table)}: return 'its columns'",
    ]
    for column in own:
        value, kept = f"c_{column.name}", f"k_{column.name}"
        lines.append(
            f"if {kept} is not None and ({value} is None or {kept} != {_own_checksum(column)}): return {column.name!r}"
        )
    lines += [f"if k_{column.name} is None and c_{column.name} is not None: return FROM_BEFORE" for column in own]
    # A value whose type has changed cannot be encoded as its column's type.
    body = "".join(f"        {line}\n" for line in lines)
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


def _plain(table: Table) -> tuple[Column, ...]:
    """Return the columns of a table without its checksum columns."""
    return table.columns[: -1 - len(_own(table.columns))]


def _own(columns: tuple[Column, ...]) -> list[Column]:
    """Return the columns that have a checksum of their own."""
    return [column for column in columns if column.update is Update.IF_GIVEN and column.sealed]


def _seed(table: Table) -> str:
    """Return the statement that binds a value to the row's key, so that values cannot change places unnoticed."""
    return f"seed = crc32(pack(c_{table.key}))" if _own(table.columns) else "pass"


def _own_checksum(column: Column) -> str:
    value = f"c_{column.name}"
    return f"crc32({value if column.kind in (Kind.BODY, Kind.BYTES) else f'pack({value})'}, seed)"


def _row_checksum(table: Table) -> str:
    covered = [c for c in _plain(table) if c.sealed and c.update in (Update.SET, Update.KEEP)]
    return f"crc32(pack(({', '.join(map(_canonical, covered))},)))"


def _canonical(column: Column) -> str:
    """Return the expression for a value that is the same before it is stored and after it was read, on every store."""
    value = f"c_{column.name}"
    if column.kind is Kind.BOOL:
        return f"+{value}"
    return f"{value} + 0.0" if column.kind is Kind.REAL else value
