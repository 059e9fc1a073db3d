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

import duckdb
import msgspec

from tocsin.core.messages.model import State
from tocsin.pipeline import silver
from tocsin.pipeline.catalogue import MESSAGE
from tocsin.pipeline.engine.duck import open_duckdb
from tocsin.pipeline.facts import MESSAGE_HOUR, MESSAGE_MINUTE, OCCURRENCE, QUEUE_SECOND
from tocsin.pipeline.facts.occurrence import OCCURRENCE_KINDS
from tocsin.pipeline.lake.compaction import PARTIAL
from tocsin.pipeline.lake.data_file import DataFile
from tocsin.pipeline.lake.intervals import Interval, ranges_sql
from tocsin.pipeline.lake.parquet_writer import Target, copy_query
from tocsin.pipeline.lake.relations import add_relation, add_view, declared, read_files
from tocsin.pipeline.lake.release import Repair
from tocsin.pipeline.lake.storage import Storage
from tocsin.pipeline.silver.message_life import FOLD, FOLDED_KINDS, MERGE, PREPARE, SETTLE, UNSETTLE
from tocsin.pipeline.silver.policy_span import POLICY_SPAN
from tocsin.pipeline.silver.session_part import SESSION_KINDS
from tocsin.pipeline.tables.schemas import EVENT, MESSAGE_LIFE

__all__ = ["COUNTED", "Fold", "Folded", "Settle", "Settled", "Thread", "fold", "follow_threads", "settle"]

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
    #: If given, only messages of the repair are folded, and only days of the repair are in the other tables.
    repair: Repair | None = None


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
    #: Files of `occurrence` that hold policies.
    policies: list[DataFile]
    #: Days whose messages are counted.
    dates: list[str]
    #: Time of the last event from which on a message that may still change is hot, microseconds since the epoch.
    hot_from_us: int
    #: Messages whose rows in `stale` no longer count, because their events were folded again.
    repaired: list[Interval]


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
    result, storage = Folded(), task.target.storage
    with _duckdb(task.memory_mib) as connection:
        repair = task.repair
        growing = [file for file in task.files if repair is None or file.date in repair.days]
        add_relation(connection, "event", EVENT, storage, growing, "filename AS file")
        for table, kinds in ((OCCURRENCE, tuple(OCCURRENCE_KINDS)), (silver.SESSION_PART, SESSION_KINDS)):
            if growing and any(kind in kinds for kind in task.kinds):
                with _clocked(result.cpu_s, table.name):
                    result.files[table.name] = task.target.write(connection, table.name, table.columns, table.sql)
        if not any(kind in FOLDED_KINDS for kind in task.kinds):
            return result
        if repair is not None:
            accepted = f"kind = 'MessageAccepted' AND ({ranges_sql('seq', repair.messages)})"
            mine = f"({accepted}) OR {ranges_sql('message', repair.messages)}"
            add_relation(connection, "event", EVENT, storage, task.files, where=mine)
        with _clocked(result.cpu_s, "message_life"):
            connection.execute(PREPARE)
            connection.execute(f"CREATE TEMP TABLE partial AS {FOLD}")
            for bucket in range(task.buckets):
                path = f"{PARTIAL}/{task.target.batch}/{secrets.token_hex(8)}.parquet"
                mine = f"SELECT * FROM partial WHERE {_bucket('message', bucket, task.buckets)}"
                copy_query(connection, storage, path, mine, {}, codec="lz4_raw")
                result.partial.append(path)
            result.touched = _touched(connection, storage, task.known)
    return result


def _touched(connection: duckdb.DuckDBPyConnection, storage: Storage, known: list[DataFile]) -> list[str]:
    """Return the files of `message_life` that hold a message of the partial lives."""
    low, high = connection.execute("SELECT min(message), max(message) FROM partial").fetchall()[0]
    near = [file for file in known if low is not None and file.low <= high and file.high >= low]
    if not near:
        return []
    paths = {storage.uri(file.path): file.path for file in near}
    numbers = [column for column in MESSAGE_LIFE if column.name == "message"]
    add_relation(connection, "near_life", numbers, storage, near, "filename")
    found = connection.execute(
        "SELECT DISTINCT filename FROM near_life WHERE message IN (SELECT message FROM partial)"
    ).fetchall()
    return [paths[row[0]] for row in found]


def settle(task: Settle) -> Settled:
    """Merge partial lives with known rows, write `message_life`, and count the messages of the days that changed."""
    result, storage = Settled(), task.target.storage
    mine = _bucket("message", task.bucket, task.buckets)
    with _duckdb(task.memory_mib) as connection:
        still = f"({mine}) AND NOT ({ranges_sql('message', task.repaired)})"
        add_relation(connection, "stale_life", MESSAGE_LIFE, storage, task.stale, where=still)
        add_relation(connection, "kept_life", MESSAGE_LIFE, storage, task.kept, where=mine)
        add_relation(connection, "occurrence", OCCURRENCE.columns, storage, task.policies)
        add_view(connection, POLICY_SPAN.name, POLICY_SPAN.columns, POLICY_SPAN.sql)
        with _clocked(result.cpu_s, "message_life"):
            _make_lives(connection, task)
            result.files["message_life"] = task.target.write_relation(connection, "message_life", MESSAGE_LIFE, "life")
        if task.dates:
            dates = ", ".join(f"DATE '{date}'" for date in task.dates)
            connection.execute(
                "CREATE VIEW message_life AS"
                " SELECT * FROM (SELECT * EXCLUDE (hot) FROM life UNION ALL SELECT * FROM kept_life)"
                f" WHERE date IN ({dates})"
            )
            # What is stored is read by each table anew; what is in memory need not be copied.
            connection.execute(f"CREATE TEMP {'TABLE' if task.kept else 'VIEW'} message AS {MESSAGE}")
            for table in COUNTED:
                with _clocked(result.cpu_s, table.name):
                    result.files[table.name] = task.target.write(connection, table.name, table.columns, table.sql)
    return result


def _make_lives(connection: duckdb.DuckDBPyConnection, task: Settle) -> None:
    """Make the temporary table `life`: the rows of `message_life` that are written, with the column `hot`."""
    rows = "SELECT * FROM stale_life"
    if task.partial:
        source = f"SELECT * FROM {read_files(connection, 'partial', task.target.storage, task.partial)}"
        if task.stale:
            connection.execute(f"CREATE TEMP TABLE new_part AS {source}")
            # Rows that no new event is about are written as they are.
            connection.execute("CREATE TEMP VIEW known AS SELECT * FROM stale_life SEMI JOIN new_part USING (message)")
            source = f"SELECT * FROM new_part UNION ALL BY NAME ({UNSETTLE})"
        if task.stale or len(task.partial) > 1:
            connection.execute(f"CREATE TEMP TABLE partial AS {source}")
            source = MERGE
        connection.execute(f"CREATE TEMP VIEW merged AS {source}")
        rest = "SELECT * FROM stale_life ANTI JOIN new_part USING (message)"
        rows = f"{SETTLE} UNION ALL BY NAME {rest}" if task.stale else SETTLE
    hot = f"is_open OR (NOT (state IN ({_FINAL}) OR purged_at IS NOT NULL) AND us(last_at) >= {task.hot_from_us})"
    connection.execute(
        f"CREATE TEMP TABLE life AS SELECT *, {hot} AS hot FROM ({declared(MESSAGE_LIFE, rows)})",
        {"project": task.project} if task.partial else {},
    )


def follow_threads(task: Thread) -> Settled:
    """Write the rows of `thread_day` for a bucket of a day's threads."""
    table, storage = silver.THREAD_DAY, task.target.storage
    with _duckdb(task.memory_mib) as connection:
        mine = _bucket("correlation_id", task.bucket, task.buckets)
        where = f"correlation_id IS NOT NULL AND {mine}"
        add_relation(connection, "message_life", MESSAGE_LIFE, storage, task.files, where=where)
        connection.execute(f"CREATE VIEW message AS {MESSAGE}")
        result = Settled()
        with _clocked(result.cpu_s, table.name):
            result.files[table.name] = task.target.write(connection, table.name, table.columns, table.sql)
        return result


def _bucket(column: str, bucket: int, buckets: int) -> str:
    return "true" if buckets == 1 else f"hash({column}) % {buckets} = {bucket}"
