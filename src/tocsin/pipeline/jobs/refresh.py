"""The refresh: update `message_life` and all derived tables to the state of bronze, in one commit.

Theory of operation. `message_life` has two sorts of files: *hot* ones with the messages that are open or may still
change, and the rest. New events are folded and merged with the existing rows of their messages: all hot files of the
project, and those other files that hold one of the messages (a join finds them). These files are rewritten, the others
stay. So the cost of a batch depends on its events and the open messages, not on the length of the history, and an event
that arrives a month late still updates its message.

The days of each table that have to be recomputed follow from the days that changed in its inputs
(`tocsin.pipeline.tables.table`).
"""

import hashlib
import time
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import unquote, urlsplit

import msgspec
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from tocsin.core.messages.model import State
from tocsin.pipeline.bronze.ingest import Progress
from tocsin.pipeline.catalogue import DERIVED
from tocsin.pipeline.engine.spark import few_rows
from tocsin.pipeline.lake.manifest import Batch, DataFile, Manifest
from tocsin.pipeline.lake.warehouse import Warehouse
from tocsin.pipeline.silver.message_life import FOLDED_KINDS, fold, merge
from tocsin.pipeline.tables.table import Grain, Input, Reach, Table

__all__ = ["Refresh", "refresh"]

#: A partition: project and day; the day is None in a table by project.
Part = tuple[str, str | None]

_FINAL = (State.PROCESSED, State.EXPIRED, State.RECALLED)


def refresh(
    spark: SparkSession,
    warehouse: Warehouse,
    progress: Progress | None = None,
    tables: tuple[Table, ...] = DERIVED,
) -> Manifest:
    """Update all tables to the state of bronze; return the newest manifest."""
    manifest = warehouse.current()
    job = Refresh(spark, warehouse, manifest, tables, progress or (lambda stage, done, total: None))
    return job.run() if job.needed() else manifest


class Refresh:
    """One refresh of all tables."""

    def __init__(
        self,
        spark: SparkSession,
        warehouse: Warehouse,
        manifest: Manifest,
        tables: tuple[Table, ...],
        progress: Progress,
    ) -> None:
        self._spark = spark
        self._warehouse = warehouse
        self._before = manifest
        self._tables = tables
        self._progress = progress
        self._files = {name: list(files) for name, files in manifest.tables.items()}
        self._written: list[DataFile] = []
        self._rows: dict[str, int] = {}
        #: Partitions that changed, by table.
        self._changed: dict[str, set[Part]] = {}
        self._batch = warehouse.new_batch(manifest.version + 1)

    def needed(self) -> bool:
        """Return whether any table is outdated."""
        return bool(self._before.pending) or any(self._is_new(table) for table in self._tables)

    def run(self) -> Manifest:
        """Compute and commit the tables."""
        begin = time.perf_counter()
        pending = [file for file in self._files.get("event", []) if file.path in self._before.pending]
        self._changed["event"] = {(file.project, file.date) for file in pending}
        self._changed["message_life"] = set()
        self._progress("message_life", 0, 1 + len(self._tables))
        with few_rows(self._spark, self._warehouse.settings, self._rows_to_see()):
            if any(kind in FOLDED_KINDS for file in pending for kind in self._before.pending[file.path]):
                self._fold(pending)
            self._derive()
        return self._commit(len(pending), sum(file.rows for file in pending), time.perf_counter() - begin)

    def _rows_to_see(self) -> int:
        """Return the number of events in the days that are recomputed, an estimate of the rows that a table reads."""
        days = self._from_changed_on()
        everything = any(self._is_new(table) for table in self._tables)
        return sum(
            file.rows for file in self._files.get("event", []) if everything or (file.project, file.date) in days
        )

    def _fold(self, pending: list[DataFile]) -> None:
        """Fold the new events and merge them with the existing rows of their messages."""
        coded_values = self._before.words
        events = self._warehouse.read(self._spark, "event", pending)
        messages = fold(events, coded_values)
        projects = {file.project for file in pending}
        known = [file for file in self._files.get("message_life", []) if file.project in projects]
        touched = self._touched(events, known)
        stale = [file for file in known if file.hot or file.path in touched]
        if stale:
            messages = merge(self._warehouse.read(self._spark, "message_life", stale), messages)
        written = self._warehouse.write(
            messages.withColumn("hot", self._hot()), "message_life", self._batch, "project", "date", "hot"
        )
        replaced = {file.path for file in stale}
        self._files["message_life"] = [
            *(file for file in self._files.get("message_life", []) if file.path not in replaced),
            *written,
        ]
        self._note("message_life", written)
        days = {(file.project, file.date) for file in known if file.path in touched}
        self._changed["message_life"] = days | self._changed["event"]

    def _touched(self, events: DataFrame, known: list[DataFile]) -> set[str]:
        """Return the files that hold a message of these events."""
        if not known:
            return set()
        number = F.when(F.col("kind") == FOLDED_KINDS[0], F.col("seq")).otherwise(F.col("message"))
        about = events.where(F.col("kind").isin(*FOLDED_KINDS)).select("project", number.alias("message")).distinct()
        ranges = about.groupBy("project").agg(F.min("message").alias("low"), F.max("message").alias("high")).collect()
        bounds = {row.project: (row.low, row.high) for row in ranges}
        near = [
            file
            for file in known
            if file.project in bounds and file.low <= bounds[file.project][1] and file.high >= bounds[file.project][0]
        ]
        if not near:
            return set()
        root = self._warehouse.root
        paths = [str(root / file.path) for file in near]
        messages = (
            self._spark.read.schema("message bigint, project string")
            .option("basePath", str(root / "message_life"))
            .parquet(*paths)
            .select("project", "message", F.col("_metadata.file_path").alias("path"))
        )
        found = messages.join(about, ["project", "message"], "left_semi").select("path").distinct().collect()
        return {Path(unquote(urlsplit(row.path).path)).relative_to(root).as_posix() for row in found}

    def _hot(self) -> Column:
        """Return the condition for rows that later batches may change, which are kept in hot files."""
        horizon = F.lit(None)
        for name, mark in self._before.projects.items():
            since = mark.last_at - round(self._warehouse.settings.hot_s * 1_000_000)
            horizon = F.when(F.col("project") == name, F.timestamp_micros(F.lit(since))).otherwise(horizon)
        ended = F.col("state").isin(*[state.value for state in _FINAL]) | F.col("purged_at").isNotNull()
        return F.col("is_open") | (~ended & F.coalesce(F.col("last_at") >= horizon, F.lit(True)))

    def _derive(self) -> None:
        """Compute the derived tables; tables that do not depend on each other run at the same time."""
        waiting = list(self._tables)
        names = {table.name for table in waiting}
        done: set[str] = set()
        running: dict[Future[None], str] = {}
        with ThreadPoolExecutor(self._warehouse.settings.tables_at_a_time) as pool:
            while waiting or running:
                ready = [t for t in waiting if all(i.table in done or i.table not in names for i in t.inputs)]
                for table in ready:
                    waiting.remove(table)
                    running[pool.submit(self._make, table)] = table.name
                finished, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in finished:
                    name = running.pop(future)
                    future.result()
                    done.add(name)
                    self._progress(name, 1 + len(done), 1 + len(self._tables))

    def _make(self, table: Table) -> None:
        """Recompute the outdated partitions of one table."""
        parts = self._parts(table)
        self._changed[table.name] = parts
        if not parts:
            self._files.setdefault(table.name, [])
            return
        frames = [self._input(item, parts, table.grain) for item in table.inputs]
        made = table.transform(*frames)
        by_day = table.grain is Grain.DAY
        keys = ("project", "date") if by_day else ("project",)
        wanted = F.lit(False)
        for project in sorted({project for project, _ in parts}):
            here = F.col("project") == project
            if by_day:
                here &= F.col("date").isin(*[_day(date) for name, date in sorted(parts, key=str) if name == project])
            wanted |= here
        rows = made.where(wanted).select(*[column.name for column in table.columns])
        written = self._warehouse.write(rows, table.name, self._batch, *keys)
        kept = [file for file in self._files.get(table.name, []) if _part(file, table.grain) not in parts]
        self._files[table.name] = [*kept, *written]
        self._note(table.name, written)

    def _parts(self, table: Table) -> set[Part]:
        """Return the partitions of a table that have to be recomputed."""
        parts: set[Part] = set()
        for item in table.inputs:
            if table.grain is Grain.DAY and item.reach is Reach.PROJECT:
                parts |= self._all_days(self._changed.get(item.table, set())) if item.touches_all else set()
            elif self._is_new(table):
                parts |= {(file.project, file.date) for file in self._files.get(item.table, [])}
            elif table.grain is Grain.DAY and item.reach is Reach.ALIVE:
                parts |= self._from_changed_on()
            else:
                parts |= self._changed_in(item)
        return parts if table.grain is Grain.DAY else {(project, None) for project, _ in parts}

    def _all_days(self, changed: set[Part]) -> set[Part]:
        """Return all days of the projects that changed."""
        projects = {project for project, _ in changed}
        return {(file.project, file.date) for file in self._files.get("event", []) if file.project in projects}

    def _from_changed_on(self) -> set[Part]:
        """Return the days whose events changed, and all days after them."""
        first: dict[str, str] = {}
        for project, date in self._changed["event"]:
            first[project] = min(str(date), first.get(project, str(date)))
        days = {(file.project, file.date) for file in self._files.get("event", [])}
        return {(project, date) for project, date in days if project in first and str(date) >= first[project]}

    def _changed_in(self, item: Input) -> set[Part]:
        if item.table != "event" or not item.kinds:
            return self._changed.get(item.table, set())
        pending = self._before.pending
        return {
            (file.project, file.date)
            for file in self._files.get("event", [])
            if file.path in pending and any(kind in item.kinds for kind in pending[file.path])
        }

    def _input(self, item: Input, parts: set[Part], grain: Grain) -> DataFrame:
        """Read the part of an input that the transform is given."""
        projects = {project for project, _ in parts}
        files = [file for file in self._files.get(item.table, []) if file.project in projects]
        if grain is Grain.DAY and item.reach is Reach.DAY:
            files = [file for file in files if (file.project, file.date) in parts]
        elif grain is Grain.DAY and item.reach is Reach.ALIVE:
            files = self._alive(files, item, parts)
        columns = next((table.columns for table in self._tables if table.name == item.table), None)
        frame = self._warehouse.read(self._spark, item.table, files, columns)
        if item.table == "message_life":
            frame = frame.where(F.col("message_id").isNotNull())
        return frame.where(F.col("kind").isin(*item.kinds)) if item.kinds else frame

    def _alive(self, files: list[DataFile], item: Input, parts: set[Part]) -> list[DataFile]:
        """Return the files of messages that were open in the given days, or of events since the first such message."""
        days = sorted(date for _, date in parts if date is not None)
        begin = int(datetime.fromisoformat(days[0]).replace(tzinfo=UTC).timestamp() * 1_000_000)
        projects = {project for project, _ in parts}
        messages = [
            file
            for file in self._files.get("message_life", [])
            if file.project in projects and str(file.date) <= days[-1] and (file.hot or file.last_at >= begin)
        ]
        if item.table == "message_life":
            return messages
        first = min([days[0], *(str(file.date) for file in messages)])
        return [file for file in files if first <= str(file.date) <= days[-1]]

    def _is_new(self, table: Table) -> bool:
        return self._before.made_as.get(table.name) != _digest(table)

    def _note(self, name: str, written: list[DataFile]) -> None:
        self._written += written
        self._rows[name] = sum(file.rows for file in written)

    def _commit(self, files: int, events: int, seconds: float) -> Manifest:
        after = msgspec.json.decode(msgspec.json.encode(self._before), type=Manifest)
        after.version += 1
        known = {table.name for table in self._tables} | {"event", "quarantine", "message_life"}
        after.tables = {name: found for name, found in self._files.items() if name in known}
        after.pending = {}
        after.made_as = {table.name: _digest(table) for table in self._tables}
        batch = Batch(after.version, "refresh", time.time_ns() // 1000, seconds, files, events, self._rows)
        after.batches = [*after.batches, batch][-self._warehouse.settings.batches_max :]
        self._warehouse.manifests.commit(after, self._written)
        return after


def _part(file: DataFile, grain: Grain) -> Part:
    return (file.project, file.date if grain is Grain.DAY else None)


def _day(date: str | None) -> object:
    return datetime.fromisoformat(str(date)).date()


def _digest(table: Table) -> str:
    text = repr([(column.name, column.type) for column in table.columns]) + repr(table.inputs) + table.grain
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
