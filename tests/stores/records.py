"""Where the records of a SQLite table are in its file, so that tests can flip single bits of them."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw
import msgspec

__all__ = ["Record", "flipped", "records"]

#: Kinds of pages: inner ones and leaves of a table WITHOUT ROWID, and leaves of one with.
_INNER, _LEAF, _LEAF_ROWS = 2, 10, 13
#: Bytes before the first page's own header.
_FILE_HEADER = 100


class Record(msgspec.Struct, frozen=True):
    """Header of one stored row: how long its values are, and of which types. Positions are those in the file."""

    #: Of the length of the whole row, which is before the header.
    begin: int
    #: Of the types of the columns, in the order in which they are declared; the length of the header is before them.
    types: tuple[int, ...]
    end: int


def records(file: Path, table: str) -> list[Record]:
    """Find the rows of a table in a database that nobody has open, and leave it without a write-ahead log."""
    connection = apsw.Connection(str(file))
    connection.execute("PRAGMA journal_mode = DELETE")
    root = connection.execute("SELECT rootpage FROM sqlite_schema WHERE type = 'table' AND name = ?", (table,)).get
    size = connection.execute("PRAGMA page_size").get
    connection.close()
    data = file.read_bytes()
    return [_record(data, cell, kind) for kind, cell in _cells(data, size, root)]


@contextmanager
def flipped(file: Path, at: int, bit: int) -> Iterator[None]:
    """Flip a bit of a file, and flip it back at the end."""
    with file.open("r+b", buffering=0) as opened:
        opened.seek(at)
        (byte,) = opened.read(1)
        opened.seek(at)
        opened.write(bytes((byte ^ 1 << bit,)))
        try:
            yield
        finally:
            opened.seek(at)
            opened.write(bytes((byte,)))


def _cells(data: bytes, size: int, page: int) -> Iterator[tuple[int, int]]:
    """Return the positions of the rows below a page, each with the kind of its page."""
    begin = (page - 1) * size
    head = begin + (0 if begin else _FILE_HEADER)
    kind = data[head]
    is_leaf = kind in (_LEAF, _LEAF_ROWS)
    for number in range(_number(data, head + 3, 2)):
        cell = begin + _number(data, head + (8 if is_leaf else 12) + 2 * number, 2)
        if is_leaf:
            yield kind, cell
        else:
            yield from _cells(data, size, _number(data, cell, 4))
            if kind == _INNER:
                yield kind, cell + 4
    if not is_leaf:
        yield from _cells(data, size, _number(data, head + 8, 4))


def _record(data: bytes, cell: int, kind: int) -> Record:
    _, header = _varint(data, cell)
    if kind == _LEAF_ROWS:
        _, header = _varint(data, header)
    length, at = _varint(data, header)
    end, types = header + length, []
    while at < end:
        types.append(at)
        _, at = _varint(data, at)
    return Record(cell, tuple(types), end)


def _number(data: bytes, at: int, size: int) -> int:
    return int.from_bytes(data[at : at + size], "big")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Return a number of variable length, and the position after it."""
    value = 0
    while True:
        value = value << 7 | data[at] & 0x7F
        at += 1
        if data[at - 1] < 0x80:
            return value, at
