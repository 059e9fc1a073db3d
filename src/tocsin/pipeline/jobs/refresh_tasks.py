"""The tasks of a refresh: fold events, settle messages and count them, follow threads.

Theory of operation. A *fold* task reads some files of `event` and writes partial lives of their messages, split by a
hash of the message, and the rows of the tables that only ever grow. A *settle* task merges the partial lives of one
project and bucket with the rows that `message_life` has of them, writes the new rows, and counts all messages of the
days that changed. So no task depends on how large a project's day is. A *thread* task reads the new rows of one day.
Each task runs DuckDB over its files, with one thread and bounded memory.
"""

import secrets
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import msgspec

from tocsin.core.messages.model import State
from tocsin.pipeline import silver
from tocsin.pipeline.catalogue import MESSAGE
from tocsin.pipeline.engine.duck import open_duckdb
from tocsin.pipeline.facts import MESSAGE_HOUR, MESSAGE_MINUTE, OCCURRENCE, QUEUE_SECOND
from tocsin.pipeline.facts.occurrence import OCCURRENCE_KINDS
from tocsin.pipeline.lake.manifest import DataFile
from tocsin.pipeline.lake.parquet_writer import Target
from tocsin.pipeline.lake.relations import add_relation, add_view
from tocsin.pipeline.silver.message_life import FOLD, FOLDED_KINDS, MERGE, PREPARE, SETTLE, UNSETTLE
from tocsin.pipeline.silver.session_part import SESSION_KINDS
from tocsin.pipeline.tables.schemas import EVENT, MESSAGE_LIFE

__all__ = ["COUNTED", "PARTIAL", "Fold", "Folded", "Settle", "Settled", "Thread", "fold", "follow_threads", "settle"]

#: Folder of partial lives below the warehouse.
PARTIAL = "_partial"
#: Tables that count the messages of a day.
COUNTED = (MESSAGE_MINUTE, MESSAGE_HOUR, QUEUE_SECOND)
_FINAL = ", ".join(f"'{state.value}'" for state in (State.PROCESSED, State.EXPIRED, State.RECALLED))


class Fold(msgspec.Struct, frozen=True):
    """Some files of `event` for a task."""

    target: Target
    memory_mib: int
    files: list[DataFile]
    #: Kinds in them.
    kinds: list[str]
    #: Number of buckets that the partial lives are split into.
    buckets: int
    #: Files of `message_life` of the project, in which messages of earlier batches are looked for.
    known: list[DataFile]


class Folded(msgspec.Struct):
    """Result of a fold."""

    #: Path of the partial lives of each bucket, below the warehouse; empty if there are none.
    partial: list[str] = []
    #: Files of `message_life` that hold one of the messages.
    touched: list[str] = []
    #: New files, by table.
    files: dict[str, list[DataFile]] = {}
    #: CPU time spent, by table, seconds.
    cpu_s: dict[str, float] = {}


class Settle(msgspec.Struct, frozen=True):
    """One bucket of a project's messages for a task."""

    target: Target
    memory_mib: int
    project: str
    bucket: int
    buckets: int
    partial: list[str]
    #: Files of `message_life` whose rows are written anew.
    stale: list[DataFile]
    #: Files of `message_life` that stay, of the days that are counted.
    kept: list[DataFile]
    #: Files of `occurrence`, for the policies.
    occurrences: list[DataFile]
    #: Days whose messages are counted.
    dates: list[str]
    #: Time of the last event from which on a message that may still change is hot, microseconds since the epoch.
    hot_from_us: int


class Settled(msgspec.Struct):
    """Result of settling or of following threads."""

    #: New files, by table.
    files: dict[str, list[DataFile]] = {}
    #: CPU time spent, by table, seconds.
    cpu_s: dict[str, float] = {}


class Thread(msgspec.Struct, frozen=True):
    """One bucket of the threads of a day for a task."""

    target: Target
    memory_mib: int
    bucket: int
    buckets: int
    files: list[DataFile]


@contextmanager
def _duckdb(memory_mib: int) -> Iterator[duckdb.DuckDBPyConnection]:
    with tempfile.TemporaryDirectory(prefix="tocsin-duckdb-") as scratch:
        connection = open_duckdb(memory_mib, scratch)
        try:
            yield connection
        finally:
            connection.close()


@contextmanager
def _clocked(cpu_s: dict[str, float], table: str) -> Iterator[None]:
    """Add the CPU time of the block to a table's."""
    begin = time.process_time()
    yield
    cpu_s[table] = cpu_s.get(table, 0.0) + time.process_time() - begin


def fold(task: Fold) -> Folded:
    """Fold events into partial lives, and write the tables that grow with events."""
    result, root = Folded(), Path(task.target.warehouse)
    with _duckdb(task.memory_mib) as connection:
        add_relation(connection, "event", EVENT, root, task.files, "filename AS file")
        for table, kinds in ((OCCURRENCE, tuple(OCCURRENCE_KINDS)), (silver.SESSION_PART, SESSION_KINDS)):
            if any(kind in kinds for kind in task.kinds):
                with _clocked(result.cpu_s, table.name):
                    result.files[table.name] = task.target.write(connection, table.name, table.columns, table.sql)
        if not any(kind in FOLDED_KINDS for kind in task.kinds):
            return result
        with _clocked(result.cpu_s, "message_life"):
            connection.execute(PREPARE)
            connection.execute(f"CREATE TEMP TABLE partial AS {FOLD}")
            folder = Path(PARTIAL) / task.target.batch
            (root / folder).mkdir(parents=True, exist_ok=True)
            for bucket in range(task.buckets):
                path = folder / f"{secrets.token_hex(8)}.parquet"
                mine = f"SELECT * FROM partial WHERE {_bucket('message', bucket, task.buckets)}"
                connection.execute(f"COPY ({mine}) TO '{root / path}' (FORMAT parquet, COMPRESSION lz4_raw)")
                result.partial.append(path.as_posix())
            result.touched = _touched(connection, root, task.known)
    return result


def _touched(connection: duckdb.DuckDBPyConnection, root: Path, known: list[DataFile]) -> list[str]:
    """Return the files of `message_life` that hold a message of the partial lives."""
    low, high = connection.execute("SELECT min(message), max(message) FROM partial").fetchall()[0]
    near = [file for file in known if low is not None and file.low <= high and file.high >= low]
    if not near:
        return []
    paths = {str(root / file.path): file.path for file in near}
    found = connection.execute(
        f"SELECT DISTINCT filename FROM read_parquet({sorted(paths)!r}, filename=true, hive_partitioning=false)"
        " WHERE message IN (SELECT message FROM partial)"
    ).fetchall()
    return [paths[row[0]] for row in found]


def settle(task: Settle) -> Settled:
    """Merge partial lives with known rows, write `message_life`, and count the messages of the days that changed."""
    result, root = Settled(), Path(task.target.warehouse)
    mine = _bucket("message", task.bucket, task.buckets)
    with _duckdb(task.memory_mib) as connection:
        add_relation(connection, "stale_life", MESSAGE_LIFE, root, task.stale, where=mine)
        add_relation(connection, "kept_life", MESSAGE_LIFE, root, task.kept, where=mine)
        add_relation(connection, "occurrence", OCCURRENCE.columns, root, task.occurrences)
        policies = next(view for view in silver.VIEWS if view.name == "policy_span")
        add_view(connection, policies.name, policies.columns, policies.sql)
        with _clocked(result.cpu_s, "message_life"):
            _make_lives(connection, task)
            hot = (
                f"is_open OR (NOT (state IN ({_FINAL}) OR purged_at IS NOT NULL) AND us(last_at) >= {task.hot_from_us})"
            )
            result.files["message_life"] = task.target.write(
                connection, "message_life", MESSAGE_LIFE, f"SELECT *, {hot} AS hot FROM life", "hot"
            )
        if task.dates:
            dates = ", ".join(f"DATE '{date}'" for date in task.dates)
            connection.execute(
                "CREATE VIEW message_life AS"
                f" SELECT * FROM (SELECT * FROM life UNION ALL SELECT * FROM kept_life) WHERE date IN ({dates})"
            )
            connection.execute(f"CREATE TEMP TABLE message AS {MESSAGE}")
            for table in COUNTED:
                with _clocked(result.cpu_s, table.name):
                    result.files[table.name] = task.target.write(connection, table.name, table.columns, table.sql)
    return result


def _make_lives(connection: duckdb.DuckDBPyConnection, task: Settle) -> None:
    """Make the temporary table `life`: the rows of `message_life` that are written."""
    if not task.partial:
        connection.execute("CREATE TEMP TABLE life AS SELECT * FROM stale_life")
        return
    paths = [str(Path(task.target.warehouse) / path) for path in task.partial]
    source = f"SELECT * FROM read_parquet({paths!r}, hive_partitioning=false)"
    once = len(paths) == 1
    if once:
        connection.execute(f"CREATE TEMP TABLE merged AS {source}")
    else:
        connection.execute(f"CREATE TEMP VIEW partial AS {source}")
        connection.execute(f"CREATE TEMP TABLE merged AS {MERGE}")
    # Rows that no new event is about are written as they are.
    connection.execute("CREATE TEMP TABLE known AS SELECT * FROM stale_life SEMI JOIN merged USING (message)")
    if connection.execute("SELECT count(*) FROM known").fetchall()[0][0]:
        connection.execute("CREATE TEMP TABLE new_part AS SELECT * FROM merged")
        connection.execute(
            f"CREATE OR REPLACE TEMP VIEW partial AS SELECT * FROM new_part UNION ALL BY NAME ({UNSETTLE})"
        )
        connection.execute(f"CREATE OR REPLACE TEMP TABLE merged AS {MERGE}")
    connection.execute(f"CREATE TEMP TABLE life AS {SETTLE}", {"project": task.project})
    connection.execute("INSERT INTO life BY NAME SELECT * FROM stale_life ANTI JOIN merged USING (message)")


def follow_threads(task: Thread) -> Settled:
    """Write the rows of `thread_day` for a bucket of a day's threads."""
    table, root = silver.THREAD_DAY, Path(task.target.warehouse)
    with _duckdb(task.memory_mib) as connection:
        mine = _bucket("correlation_id", task.bucket, task.buckets)
        where = f"correlation_id IS NOT NULL AND {mine}"
        add_relation(connection, "message_life", MESSAGE_LIFE, root, task.files, where=where)
        connection.execute(f"CREATE VIEW message AS {MESSAGE}")
        result = Settled()
        with _clocked(result.cpu_s, table.name):
            result.files[table.name] = task.target.write(connection, table.name, table.columns, table.sql)
        return result


def _bucket(column: str, bucket: int, buckets: int) -> str:
    return "true" if buckets == 1 else f"hash({column}) % {buckets} = {bucket}"
