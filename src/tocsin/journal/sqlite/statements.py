"""SQL statements that write rows of the tables, many rows to a statement, for SQLite.

The thread that runs a statement waits for the interpreter once per statement, not once per row. SQLite also copies
every page that a statement for several rows changes until the statement ends: the more rows it has, the fewer copies
are made of a page that all of them change. Statements exist for a few sizes only, so that SQLite prepares each of them
once, and none is longer than what the statement cache keeps.
"""

from collections.abc import Iterator
from functools import cache
from typing import Any

from tocsin.journal.columns import Column, Kind, Shape, Table, Update
from tocsin.journal.table_definitions import MESSAGES, ORDINARY, USUAL

__all__ = [
    "INSERT_ANY",
    "INSERT_ORDINARY",
    "INSERT_USUAL",
    "ROWS_MAX",
    "RowsStatement",
    "change",
    "parts",
    "upsert",
]

# The statements are put together from the declarations of columns.
# ruff: noqa: S608

#: Rows written by one statement at most.
ROWS_MAX = 256
#: The same for statements that are not a `RowsStatement`.
_UPSERT_ROWS_MAX = 64
#: Length of a statement, a little less than what apsw keeps prepared.
_TEXT_MAX = 16_000


def parts(rows: int, rows_max: int = _UPSERT_ROWS_MAX) -> Iterator[tuple[int, int]]:
    """Split a number of rows into powers of two up to a largest one: pairs of the first row and the size."""
    begin = 0
    for size in (1 << power for power in reversed(range(rows_max.bit_length()))):
        while rows - begin >= size:
            yield begin, size
            begin += size


class RowsStatement:
    """A statement for any number of rows of a table: its beginning, the values of each row, and its end."""

    def __init__(self, head: str, values: str, tail: str, width: int) -> None:
        self._head, self._values, self._tail = head, values, tail
        self._texts: dict[int, str] = {}
        #: Number of values bound for each row.
        self.width = width
        #: Number of rows of its largest form.
        self.rows_max = ROWS_MAX
        while self._length(self.rows_max) > _TEXT_MAX:
            self.rows_max //= 2

    def text(self, rows: int) -> str:
        """Return the statement for a number of rows."""
        text = self._texts.get(rows)
        if text is None:
            text = self._texts[rows] = f"{self._head}{','.join([self._values] * rows)}{self._tail}"
        return text

    def _length(self, rows: int) -> int:
        return len(self._head) + len(self._tail) + rows * (len(self._values) + 1)


def _insert(shape: Shape) -> RowsStatement:
    """Return the statement for new rows of a shape; a column that is left out is null.

    The values of a row are only its bound ones, so that many rows fit into a statement; the others are selected.
    """
    bound, constants = shape.bound, {name: value for name, value in shape.constants.items() if value is not None}
    by_name = {column.name: column for column in shape.table.columns}
    places = {name: f"column{place}" for place, name in enumerate(bound, 1)}
    selected = [_text_of(by_name[name], places[name]) for name in bound]
    selected += [_literal(value) for value in constants.values()] + [places[name] for name in shape.same.values()]
    names = ", ".join((*bound, *constants, *shape.same))
    head = f"INSERT OR ROLLBACK INTO {shape.table.name} ({names}) SELECT {', '.join(selected)} FROM (VALUES "
    return RowsStatement(head, f"({','.join('?' * len(bound))})", ")", len(bound))


@cache
def upsert(table: Table, rows: int = 1) -> str:
    """Return the statement that inserts or updates a number of rows."""
    values = ",".join(map(_bound, table.columns))
    changes = [f"{name} = excluded.{name}" for name in _names(table, Update.SET)]
    action = f"UPDATE SET {', '.join(changes)}" if changes else "NOTHING"
    tuples = ",".join([f"({values})"] * rows)
    names = ", ".join(table.names)
    return f"INSERT OR ROLLBACK INTO {table.name} ({names}) VALUES {tuples} ON CONFLICT ({table.key}) DO {action}"


@cache
def change(table: Table, columns: tuple[str, ...], required: tuple[str, ...], life_bytes_max: int) -> RowsStatement:
    """Return the statement that updates some columns of rows that are there; one of them is the table's key.

    It is an insertion that finds the key in use: an UPDATE from a list of rows would first put them into a temporary
    table. SQLite demands a value for the `required` columns before it looks for the key; that value is not used.
    """
    by_name = {column.name: column for column in table.columns}
    changes: list[str] = []
    for name in columns:
        new, old, update = f"excluded.{name}", f"{table.name}.{name}", by_name[name].update
        if update is Update.IF_GIVEN:
            new = f"coalesce({new}, {old})"
        elif update is Update.APPEND:
            new = f"iif(length({old}) < {life_bytes_max:d}, {old} || char(10) || {new}, {old})"
        if name != table.key:
            changes.append(f"{name} = {new}")
    names = ", ".join((*columns, *required))
    values = ",".join([_bound(by_name[name]) for name in columns] + ["0"] * len(required))
    return RowsStatement(
        f"INSERT OR ROLLBACK INTO {table.name} ({names}) VALUES ",
        f"({values})",
        f" ON CONFLICT ({table.key}) DO UPDATE SET {', '.join(changes)}",
        len(columns),
    )


def _names(table: Table, update: Update) -> list[str]:
    return [column.name for column in table.columns if column.update is update]


def _bound(column: Column) -> str:
    return _text_of(column, "?")


def _text_of(column: Column, value: str) -> str:
    return f"CAST({value} AS TEXT)" if column.kind is Kind.BODY else value


def _literal(value: Any) -> str:
    if isinstance(value, bytes):
        value = value.decode()
    return f"'{value}'" if isinstance(value, str) else str(int(value))


#: For the short rows of ordinary messages.
INSERT_ORDINARY = _insert(ORDINARY)
#: For the rows whose columns have the values that most messages have.
INSERT_USUAL = _insert(USUAL)
#: For any row of a new message.
INSERT_ANY = _insert(Shape(MESSAGES, {}))
