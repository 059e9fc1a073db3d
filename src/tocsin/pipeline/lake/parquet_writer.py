"""Writing Parquet files of a table: rows of a query, and Arrow tables.

File names are unique, and a file becomes part of the table only when the driver commits it; so a task that dies or runs
twice leaves only files that vacuum deletes.
"""

import secrets
import tempfile
from pathlib import Path
from urllib.parse import quote

import duckdb
import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from tocsin.pipeline.lake.data_file import DataFile
from tocsin.pipeline.lake.delta_table import NUMBERS, partition_columns
from tocsin.pipeline.lake.relations import declared
from tocsin.pipeline.lake.storage import Storage
from tocsin.pipeline.tables.schemas import Column

__all__ = ["Target", "copy_query", "new_path", "write_arrow"]

#: Order of the rows in a file, for tables where readers skip row groups. Lives are not sorted: that took as long as to
#: write them, and they come nearly in the order of their acceptance.
_ORDER = {"event": "kind, seq", "occurrence": "kind, seq"}


def new_path(table: str, values: dict[str, object]) -> str:
    """Return the path of a new file of a table, below the warehouse, in the folder of its partition."""
    folders = "".join(f"{name}={_escaped(value)}/" for name, value in values.items())
    return f"{table}/{folders}{secrets.token_hex(8)}.parquet"


def write_arrow(storage: Storage, path: str, content: pa.Table) -> int:
    """Write an Arrow table as a file; return its size."""
    with storage.create(path) as out:
        pq.write_table(content, out, compression="zstd")
    return storage.size(path) or 0


def copy_query(
    connection: duckdb.DuckDBPyConnection,
    storage: Storage,
    path: str,
    query: str,
    values: dict[str, object],
    codec: str = "zstd",
) -> int:
    """Write the rows of a query as a file; return its size."""

    def copied(place: Path) -> int:
        connection.execute(f"COPY ({query}) TO '{place}' (FORMAT parquet, COMPRESSION {codec})", values)
        return place.stat().st_size

    if storage.local is not None:
        place = storage.local / path
        place.parent.mkdir(parents=True, exist_ok=True)
        return copied(place)
    with tempfile.TemporaryDirectory(prefix="tocsin-upload-") as folder:
        place = Path(folder) / "file.parquet"
        size = copied(place)
        storage.put(place, path)
        return size


class Target(msgspec.Struct, frozen=True):
    """Where the files of a batch are written."""

    #: Path or URL of the warehouse.
    warehouse: str
    #: Name of the batch, for its temporary files.
    batch: str

    @property
    def storage(self) -> Storage:
        """Return the storage of the warehouse."""
        return Storage(self.warehouse)

    def write(
        self, connection: duckdb.DuckDBPyConnection, table: str, columns: tuple[Column, ...], query: str
    ) -> list[DataFile]:
        """Write the rows of a query, one file per partition."""
        connection.execute(f'CREATE OR REPLACE TEMP TABLE "out" AS {declared(columns, query)}')
        files = self.write_relation(connection, table, columns, '"out"')
        connection.execute('DROP TABLE "out"')
        return files

    def write_relation(
        self, connection: duckdb.DuckDBPyConnection, table: str, columns: tuple[Column, ...], relation: str
    ) -> list[DataFile]:
        """Write a table that has exactly the declared columns; for `message_life` it also has the column `hot`."""
        keys = partition_columns(table, columns)
        number = NUMBERS.get(table, "0")
        ranges = f"count(*), coalesce(min({number}), 0), coalesce(max({number}), 0)"
        parts = connection.execute(
            f"SELECT {', '.join(keys)}, {ranges} FROM {relation} GROUP BY ALL ORDER BY ALL"
        ).fetchall()
        files = []
        for part in parts:
            values = dict(zip(keys, part, strict=False))
            rows, low, high = part[len(keys) :]
            where = " AND ".join(f"{key} = ${key}" for key in keys)
            order = f" ORDER BY {_ORDER[table]}" if table in _ORDER else ""
            path = new_path(table, values)
            chosen = f"SELECT * EXCLUDE ({', '.join(keys)}) FROM {relation} WHERE {where}{order}"
            size = copy_query(connection, self.storage, path, chosen, values)
            date = str(values["date"]) if "date" in keys else None
            files.append(DataFile(path, values["project"], date, rows, size, low, high, bool(values.get("hot", False))))
        return files


def _escaped(value: object) -> str:
    """Return a partition value as readers expect it in a folder's name."""
    return str(value).lower() if isinstance(value, bool) else quote(str(value), safe="")
