"""SQL statements that write rows of the tables, many rows to a statement, for SQLite.

A statement for many rows costs the same as one for each row, but the thread that runs it waits for the interpreter once
and not once per row. Statements exist for a few sizes only, so that SQLite prepares each of them once.
"""

from collections.abc import Callable, Iterator
from functools import cache
from operator import itemgetter
from typing import Any

from tocsin.journal.columns import Column, Kind, Row, Table, Update
from tocsin.journal.table_definitions import MESSAGES, USUAL_VALUES

__all__ = ["NEW", "ROWS_MAX", "USUAL", "InsertStatement", "change", "parts", "upsert"]

# The statements are put together from the declarations of columns.
# ruff: noqa: S608

#: Rows written by one statement: as many as the statement cache holds the text of.
ROWS_MAX = 64
_SIZES = tuple(1 << power for power in reversed(range(ROWS_MAX.bit_length())))


def parts(rows: int) -> Iterator[tuple[int, int]]:
    """Split a number of rows into sizes that statements exist for: pairs of the first row and the size."""
    begin = 0
    for size in _SIZES:
        while rows - begin >= size:
            yield begin, size
            begin += size


class InsertStatement:
    """Inserts rows of a table that are not there yet; `constants` are the values of the columns that are not bound."""

    def __init__(self, table: Table, constants: dict[str, Any]) -> None:
        bound = [column for column in table.columns if column.name not in constants]
        names = ", ".join([column.name for column in bound] + list(constants))
        values = ",".join([_bound(column) for column in bound] + [_literal(value) for value in constants.values()])
        self._head, self._values = f"INSERT OR ROLLBACK INTO {table.name} ({names}) VALUES ", f"({values})"
        self._texts: dict[int, str] = {}
        #: Number of values for each row.
        self.width = len(bound)
        #: Takes the values out of a row.
        self.values: Callable[[Row], Row] = itemgetter(*[table.names.index(column.name) for column in bound])

    def text(self, rows: int) -> str:
        """Return the statement for a number of rows."""
        text = self._texts.get(rows)
        if text is None:
            text = self._texts[rows] = self._head + ",".join([self._values] * rows)
        return text


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
def change(table: Table, columns: tuple[str, ...], life_bytes_max: int, rows: int = 1) -> str:
    """Return the statement that updates a number of rows; the last of the columns is the table's key."""
    changes: list[str] = []
    updates = {column.name: column.update for column in table.columns}
    for number, name in enumerate(columns[:-1], 1):
        new, old = f"new.column{number}", f"{table.name}.{name}"
        if updates[name] is Update.IF_GIVEN:
            new = f"coalesce({new}, {old})"
        elif updates[name] is Update.APPEND:
            new = f"iif(length({old}) < {life_bytes_max:d}, {old} || char(10) || {new}, {old})"
        changes.append(f"{name} = {new}")
    by_name = {column.name: column for column in table.columns}
    values = ",".join(_bound(by_name[name]) for name in columns)
    tuples = ",".join([f"({values})"] * rows)
    return (
        f"UPDATE OR ROLLBACK {table.name} SET {', '.join(changes)} FROM (VALUES {tuples}) AS new"
        f" WHERE {table.name}.{table.key} = new.column{len(columns)}"
    )


def _names(table: Table, update: Update) -> list[str]:
    return [column.name for column in table.columns if column.update is update]


def _bound(column: Column) -> str:
    return "CAST(? AS TEXT)" if column.kind is Kind.BODY else "?"


def _literal(value: Any) -> str:
    return "NULL" if value is None else str(int(value))


#: For the rows whose columns have the values that most messages have.
USUAL = InsertStatement(MESSAGES, USUAL_VALUES)
#: For any row of a new message.
NEW = InsertStatement(MESSAGES, {})
