"""Writing the result of a query as Parquet files of a table, one per project, day and heat.

File names are unique, and a file becomes part of the table only when the driver commits a manifest that names it; so a
task that dies or runs twice leaves only garbage files.
"""

import secrets
from pathlib import Path
from urllib.parse import quote

import duckdb
import msgspec

from tocsin.pipeline.lake.manifest import DataFile
from tocsin.pipeline.lake.relations import declared
from tocsin.pipeline.tables.schemas import Column

__all__ = ["Target"]

#: Columns whose range is recorded per file: the number, and the time whose maximum is recorded.
_RANGES = {"event": ("seq", '"at"'), "message_life": ("message", "us(last_at)")}
#: Order of the rows in a file, for tables where readers skip row groups.
_ORDER = {"event": "kind, seq", "message_life": "message", "occurrence": "kind, seq"}


class Target(msgspec.Struct, frozen=True):
    """The folder that files of a batch are written to."""

    #: Path of the warehouse.
    warehouse: str
    #: Batch that the files belong to.
    batch: str

    def write(
        self, connection: duckdb.DuckDBPyConnection, table: str, columns: tuple[Column, ...], query: str, *more: str
    ) -> list[DataFile]:
        """Write the rows of a query; `more` are columns of it that split files beside the day, such as `hot`."""
        connection.execute(f'CREATE OR REPLACE TEMP TABLE "out" AS {self._declared(columns, query, more)}')
        by_day = any(column.name == "date" for column in columns)
        keys = ["project", *(["date"] if by_day else []), *more]
        number, last_us = _RANGES.get(table, ("0", "0"))
        ranges = f"count(*), coalesce(min({number}), 0), coalesce(max({number}), 0), coalesce(max({last_us}), 0)"
        parts = connection.execute(
            f'SELECT {", ".join(keys)}, {ranges} FROM "out" GROUP BY ALL ORDER BY ALL'
        ).fetchall()
        files = []
        for part in parts:
            values = dict(zip(keys, part, strict=False))
            rows, low, high, last_at = part[len(keys) :]
            where = " AND ".join(f"{key} = ${key}" for key in keys)
            order = f" ORDER BY {_ORDER[table]}" if table in _ORDER else ""
            path = self._path(table, values)
            place = Path(self.warehouse) / path
            place.parent.mkdir(parents=True, exist_ok=True)
            chosen = f'SELECT * EXCLUDE ({", ".join(keys)}) FROM "out" WHERE {where}{order}'
            connection.execute(f"COPY ({chosen}) TO '{place}' (FORMAT parquet, COMPRESSION zstd)", values)
            files.append(
                DataFile(
                    path,
                    values["project"],
                    str(values["date"]) if by_day else None,
                    rows,
                    place.stat().st_size,
                    low,
                    high,
                    last_at,
                    bool(values.get("hot", False)),
                )
            )
        connection.execute('DROP TABLE "out"')
        return files

    @staticmethod
    def _declared(columns: tuple[Column, ...], query: str, more: tuple[str, ...]) -> str:
        wanted = declared(columns, query)
        return wanted.replace(" FROM (", "".join(f", {name}" for name in more) + " FROM (", 1) if more else wanted

    def _path(self, table: str, values: dict[str, object]) -> str:
        folders = "/".join(f"{name}={_escaped(value)}" for name, value in values.items())
        return f"{table}/batch={self.batch}/{folders}/{secrets.token_hex(8)}.parquet"


def _escaped(value: object) -> str:
    """Return a partition value as readers expect it in a folder's name."""
    return str(value).lower() if isinstance(value, bool) else quote(str(value), safe="")
