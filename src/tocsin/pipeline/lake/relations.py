"""Relations of DuckDB over the files of tables, with exactly the declared columns."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import duckdb

from tocsin.pipeline.lake.manifest import DataFile
from tocsin.pipeline.tables.schemas import Column

__all__ = ["add_relation", "add_view", "declared", "sql_type"]

_TYPES = {
    "string": "VARCHAR",
    "int": "INTEGER",
    "bigint": "BIGINT",
    "double": "DOUBLE",
    "boolean": "BOOLEAN",
    "date": "DATE",
    "timestamp": "TIMESTAMPTZ",
}


def sql_type(name: str) -> str:
    """Return DuckDB's type for a column type."""
    if name.startswith("array<"):
        return f"{sql_type(name[6:-1])}[]"
    if name.startswith("struct<"):
        fields = (part.split(":") for part in name[7:-1].split(","))
        return "STRUCT(" + ", ".join(f'"{field}" {sql_type(kind)}' for field, kind in fields) + ")"
    return _TYPES[name]


def declared(columns: Iterable[Column], query: str) -> str:
    """Return a query with exactly the declared columns, in order, with their types."""
    chosen = ", ".join(f'"{column.name}"::{sql_type(column.type)} AS "{column.name}"' for column in columns)
    return f"SELECT {chosen} FROM ({query})"


def add_view(connection: duckdb.DuckDBPyConnection, name: str, columns: Iterable[Column], query: str) -> None:
    """Make a view with the declared columns."""
    connection.execute(f'CREATE OR REPLACE VIEW "{name}" AS {declared(columns, query)}')


def add_relation(
    connection: duckdb.DuckDBPyConnection,
    name: str,
    columns: Sequence[Column],
    root: Path,
    files: Iterable[DataFile],
    *more: str,
    where: str = "true",
) -> None:
    """Make a relation over files; a column that no file has is null. `more` are further columns, as SQL."""
    paths = sorted(str(root / file.path) for file in files)
    wanted = {column.name: sql_type(column.type) for column in columns}
    there: set[str] = set()
    source = ""
    if paths:
        types = ", ".join(f"'{key}': {wanted[key]}" for key in ("project", "date") if key in wanted)
        options = f"union_by_name=true, filename=true, hive_partitioning=true, hive_types={{{types}}}"
        source = f"read_parquet({paths!r}, {options})"
        there = {row[0] for row in connection.execute(f"DESCRIBE SELECT * FROM {source}").fetchall()}
    chosen = [
        f'"{title}"::{kind} AS "{title}"' if title in there else f'NULL::{kind} AS "{title}"'
        for title, kind in wanted.items()
    ]
    text = f"SELECT {', '.join([*chosen, *(more if paths else ())])} FROM {source}" if paths else ""
    text = f"{text} WHERE {where}" if paths else f"SELECT {', '.join(chosen)} WHERE false"
    connection.execute(f'CREATE OR REPLACE VIEW "{name}" AS {text}')
