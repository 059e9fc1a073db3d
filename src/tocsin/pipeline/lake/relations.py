"""Relations of DuckDB over the files of tables, with exactly the declared columns.

Local files are read by DuckDB itself. Files of an object store are read through Arrow, which takes the columns and
partitions that a query asks for.
"""

from collections.abc import Iterable, Sequence
from datetime import date

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from tocsin.pipeline.lake.column_types import arrow_type, sql_type
from tocsin.pipeline.lake.data_file import DataFile
from tocsin.pipeline.lake.storage import Storage
from tocsin.pipeline.tables.schemas import Column

__all__ = ["add_relation", "add_view", "declared", "read_files", "sql_type"]


def declared(columns: Iterable[Column], query: str) -> str:
    """Return a query with exactly the declared columns, in order, with their types."""
    chosen = ", ".join(f'"{column.name}"::{sql_type(column.type)} AS "{column.name}"' for column in columns)
    return f"SELECT {chosen} FROM ({query})"


def add_view(connection: duckdb.DuckDBPyConnection, name: str, columns: Iterable[Column], query: str) -> None:
    """Make a view with the declared columns."""
    connection.execute(f'CREATE OR REPLACE VIEW "{name}" AS {declared(columns, query)}')


def read_files(connection: duckdb.DuckDBPyConnection, name: str, storage: Storage, paths: Sequence[str]) -> str:
    """Return SQL that reads files of one schema; on an object store they are registered under a name."""
    if storage.local is not None:
        return f"read_parquet({[storage.uri(path) for path in paths]!r}, hive_partitioning=false)"
    connection.register(f"{name} files", ds.dataset(list(paths), filesystem=storage.files, format="parquet"))
    return f'"{name} files"'


def add_relation(
    connection: duckdb.DuckDBPyConnection,
    name: str,
    columns: Sequence[Column],
    storage: Storage,
    files: Iterable[DataFile],
    *more: str,
    where: str = "true",
) -> None:
    """Make a relation over files; a column that no file has is null. `more` are further columns, as SQL.

    They may name `filename`, the path of a row's file.
    """
    wanted = {column.name: sql_type(column.type) for column in columns}
    listed = sorted(files, key=lambda file: file.path)
    if not listed:
        empty = ", ".join(f'NULL::{kind} AS "{title}"' for title, kind in wanted.items())
        connection.execute(f'CREATE OR REPLACE VIEW "{name}" AS SELECT {empty} WHERE false')
        return
    if storage.local is not None:
        types = ", ".join(f"'{key}': {wanted[key]}" for key in ("project", "date") if key in wanted)
        partitioned = f"hive_partitioning=true, hive_types={{{types}}}" if types else "hive_partitioning=false"
        options = f"union_by_name=true, filename=true, {partitioned}"
        source = f"read_parquet({[storage.uri(file.path) for file in listed]!r}, {options})"
        there = {row[0] for row in connection.execute(f"DESCRIBE SELECT * FROM {source}").fetchall()}
    else:
        source = f'"{name} files"'
        connection.register(f"{name} files", _dataset(storage, columns, listed))
        there = set(wanted)
    chosen = [
        f'"{title}"::{kind} AS "{title}"' if title in there else f'NULL::{kind} AS "{title}"'
        for title, kind in wanted.items()
    ]
    text = f"SELECT {', '.join([*chosen, *more])} FROM {source} WHERE {where}"
    connection.execute(f'CREATE OR REPLACE VIEW "{name}" AS {text}')


def _dataset(storage: Storage, columns: Sequence[Column], files: Sequence[DataFile]) -> ds.Dataset:
    """Return the files as a dataset with the declared columns, those of their partition, and `filename`."""
    names = {column.name for column in columns}
    schema = pa.schema([*((column.name, arrow_type(column.type)) for column in columns), ("filename", pa.string())])
    form, system = ds.ParquetFileFormat(), storage.files
    fragments = []
    for file in files:
        known = pc.field("filename") == storage.uri(file.path)
        if "project" in names:
            known &= pc.field("project") == file.project
        if "date" in names and file.date is not None:
            known &= pc.field("date") == date.fromisoformat(file.date)
        fragments.append(form.make_fragment(file.path, system, partition_expression=known))
    return ds.FileSystemDataset(fragments, schema, form, system)
