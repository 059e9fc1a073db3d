"""DuckDB connections with the macros that the SQL of tables and views uses.

DuckDB runs inside Spark's tasks, where it makes files out of files, and in processes that only read tables. It never
decides what is read or written where: that is Spark's and the driver's work.
"""

from collections.abc import Mapping
from typing import Any

import duckdb

__all__ = ["open_duckdb", "rows_of"]

_MACROS = """
CREATE MACRO us(t) AS epoch_us(t);
CREATE MACRO stamp(u) AS make_timestamptz(u);
CREATE MACRO to_day(u) AS (DATE '1970-01-01' + (u // 86400000000)::INTEGER);
CREATE MACRO minute_of(u) AS make_timestamptz(u - u % 60000000);
CREATE MACRO hour_of(u) AS make_timestamptz(u - u % 3600000000);
CREATE MACRO not_negative(u) AS CASE WHEN u IS NOT NULL THEN greatest(u, 0) END;
"""


def open_duckdb(memory_mib: int, scratch: str, threads: int = 1) -> duckdb.DuckDBPyConnection:
    """Open a database in memory; what does not fit is written to the scratch folder."""
    connection = duckdb.connect(
        config={
            "threads": threads,
            "memory_limit": f"{memory_mib}MiB",
            "temp_directory": scratch,
            "preserve_insertion_order": False,
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
        }
    )
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute(_MACROS)
    return connection


def rows_of(
    connection: duckdb.DuckDBPyConnection, query: str, parameters: Mapping[str, Any] | None = None
) -> list[dict[str, Any]]:
    """Run a query and return its rows by column name."""
    found = connection.execute(query, dict(parameters or {}))
    names = [column[0] for column in found.description or []]
    return [dict(zip(names, row, strict=True)) for row in found.fetchall()]
