"""The refresh: update `message_life` and all tables made from it to the state of bronze, in one commit.

Theory of operation. `message_life` has two sorts of files: *hot* ones with the messages that are open or may still
change, and the rest. New events are folded into partial lives, which are merged with the existing rows of their
messages: all hot files of the project, and those other files that hold one of the messages. These files are rewritten,
the others stay. So the cost of a batch depends on its events and the open messages, not on the length of the history,
and an event that arrives a month late still updates its message. The days on which a changed message was accepted are
counted anew; tables of rare events and of sessions only grow.

Where a repair has removed events from bronze, the messages that those were about are folded again, from all events that
are left of them, and the tables of rare events and sessions are made anew for the days of the removed events.

Three Spark jobs do this, however many tables there are: fold, settle and threads (`refresh_tasks`).
"""

import hashlib
import math
import time
from collections.abc import Iterable

import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from tocsin.pipeline.bronze.ingest import Progress
from tocsin.pipeline.catalogue import COLUMNS, TABLES
from tocsin.pipeline.engine.tasks import run_tasks
from tocsin.pipeline.jobs import refresh_tasks as tasks
from tocsin.pipeline.lake.compaction import PARTIAL
from tocsin.pipeline.lake.data_file import DataFile, chunks_of
from tocsin.pipeline.lake.intervals import Interval, overlap
from tocsin.pipeline.lake.parquet_writer import Target
from tocsin.pipeline.lake.release import Batch
from tocsin.pipeline.lake.warehouse import Snapshot, Warehouse
from tocsin.pipeline.tables.schemas import KINDS, MESSAGE_LIFE

__all__ = ["refresh"]

#: Tables whose rows come from events; the others come from `message_life`.
_FROM_EVENTS = ("message_life", "occurrence", "session_part")
#: Tables that a refresh does not change.
_BRONZE = ("event", "quarantine", "segment")
_COUNTED = tuple(table.name for table in tasks.COUNTED)


def refresh(spark: SparkSession, warehouse: Warehouse, progress: Progress | None = None) -> Snapshot:
    """Update all tables to the state of bronze; return the newest state."""
    state = warehouse.current()
    job = _Refresh(spark, warehouse, state, progress or (lambda stage, done, total: None))
    return job.run() if state.pending or state.release.repairs or (state.version and job.outdated) else state


class _Refresh:
    """One refresh of all tables."""

    def __init__(self, spark: SparkSession, warehouse: Warehouse, before: Snapshot, progress: Progress) -> None:
        self._spark = spark
        self._settings = warehouse.settings
        self._warehouse = warehouse
        self._before = before
        self._progress = progress
        #: Tables whose definition has changed since they were made.
        self.outdated = {name for name, digest in _digests().items() if before.release.made_as.get(name) != digest}
        self._from_bronze = bool(self.outdated & set(_FROM_EVENTS))
        self._files = {name: list(before.files(name)) for name in COLUMNS}
        self._target = Target(warehouse.storage.url, warehouse.new_batch())
        self._written: dict[str, list[DataFile]] = {}
        #: Repairs to include; none if everything is made from bronze.
        self._repairs = {} if self._from_bronze else before.release.repairs
        #: Files of `occurrence` that a repair replaces.
        self._replaced: list[DataFile] = []
        self._cpu_s: dict[str, float] = {}

    def run(self) -> Snapshot:
        """Compute and commit the tables."""
        begin = time.perf_counter()
        events, pending = self._files.get("event", []), self._before.pending
        if self._from_bronze:
            self._files = {name: files if name in _BRONZE else [] for name, files in self._files.items()}
        new = [file for file in events if self._from_bronze or file.path in pending]
        again = self._to_repair([file for file in events if file.path not in pending])
        try:
            self._progress("fold", 0, 3)
            folded = self._fold(new, again)
            self._progress("settle", 1, 3)
            days = self._settle(new, folded)
            self._progress("threads", 2, 3)
            self._threads(days)
            self._progress("done", 3, 3)
        finally:
            self._warehouse.storage.delete_folder(f"{PARTIAL}/{self._target.batch}")
        return self._commit(len(new), sum(file.rows for file in new), time.perf_counter() - begin)

    def _to_repair(self, events: list[DataFile]) -> list[DataFile]:
        """Return the files with events of the messages and days of repairs; forget the rows of these days."""
        found: list[DataFile] = []
        for project, repair in self._repairs.items():
            last_seq = self._last_event(project, repair.messages)
            first_seq = min((low for low, _ in repair.messages), default=0)
            found += [
                file
                for file in events
                if file.project == project
                and (file.date in repair.days or (file.low <= last_seq and file.high >= first_seq))
            ]
            for name in ("occurrence", "session_part"):
                gone = self._in_days(name, {(project, day) for day in repair.days})
                self._remove(name, {file.path for file in gone})
                self._replaced += gone if name == "occurrence" else []
        return found

    def _last_event(self, project: str, messages: list[Interval]) -> int:
        """Return the number of the last event that was folded into some messages; 0 if there is none."""
        last = [0]
        for file in _overlapping(self._files.get("message_life", []), project, messages):
            with self._warehouse.storage.open(file.path) as content:
                rows = pq.read_table(content, columns=["message", "last_seq"])
            last += rows["last_seq"].to_numpy()[overlap(rows["message"].to_numpy(), messages)].tolist()
        return max(last)

    def _fold(self, new: list[DataFile], again: list[DataFile]) -> dict[str, list[tasks.Folded]]:
        """Fold new events, and those of messages that are repaired; return the results by project."""
        rows_max, memory_mib = self._settings.task_rows_max, self._settings.task_memory_mib
        assignments: list[tasks.Fold] = []
        news, agains = _by_project(new), _by_project(again)
        for project in sorted({*news, *agains}):
            files, repaired = news.get(project, []), agains.get(project, [])
            buckets = self._buckets(sum(file.rows for file in [*files, *repaired]))
            known = [file for file in self._files.get("message_life", []) if file.project == project]
            for chunk in chunks_of(files, rows_max):
                kinds = {kind for file in chunk for kind in self._before.pending.get(file.path, KINDS)}
                assignments.append(tasks.Fold(self._target, memory_mib, chunk, sorted(kinds), buckets, known))
            assignments += [
                tasks.Fold(self._target, memory_mib, chunk, sorted(KINDS), buckets, [], self._repairs[project])
                for chunk in chunks_of(repaired, rows_max)
            ]
        results: dict[str, list[tasks.Folded]] = {}
        made = run_tasks(self._spark, tasks.fold, assignments, tasks.Folded)
        for task, result in zip(assignments, made, strict=True):
            results.setdefault(task.files[0].project, []).append(result)
            self._add(result)
        return results

    def _settle(self, new: list[DataFile], folded: dict[str, list[tasks.Folded]]) -> set[tuple[str, str]]:
        """Write new rows of `message_life` and count the days that changed; return those days."""
        assignments: list[tasks.Settle] = []
        days: set[tuple[str, str]] = set()
        lives = _by_project(self._files.get("message_life", []))
        counted_anew = bool(self.outdated)
        for project in sorted({*folded, *self._repairs, *(lives if counted_anew else ())}):
            known, results = lives.get(project, []), folded.get(project, [])
            repaired = self._repairs[project].messages if project in self._repairs else []
            touched = {path for result in results for path in result.touched}
            touched |= {file.path for file in _overlapping(known, project, repaired)}
            partial = [list(paths) for paths in zip(*(r.partial for r in results if r.partial), strict=True)]
            dates = {str(file.date) for file in known if file.path in touched or counted_anew}
            if partial:
                dates |= {str(file.date) for file in new if file.project == project}
            dates |= self._judged_anew(project, known)
            if not partial and not dates:
                continue
            stale = [file for file in known if file.path in touched or (partial and file.hot)]
            gone = {file.path for file in stale}
            kept = [file for file in known if file.path not in gone and str(file.date) in dates]
            self._remove("message_life", gone)
            for name in _COUNTED:
                self._remove(name, {file.path for file in self._in_days(name, {(project, date) for date in dates})})
            days |= {(project, date) for date in dates}
            mark = self._before.projects.get(project)
            hot_from_us = (mark.last_at if mark else 0) - round(self._settings.hot_s * 1_000_000)
            rows = sum(file.rows for file in [*stale, *kept])
            buckets = len(partial) or self._buckets(rows)
            policies = _with_policies(self._files.get("occurrence", []), project)
            assignments += [
                tasks.Settle(
                    self._target, self._settings.task_memory_mib, project, bucket, buckets,
                    partial[bucket] if partial else [], stale, kept, policies, sorted(dates), hot_from_us, repaired,
                )
                for bucket in range(buckets)
            ]  # fmt: skip
        for result in run_tasks(self._spark, tasks.settle, assignments, tasks.Settled):
            self._add(result)
        return days

    def _judged_anew(self, project: str, known: list[DataFile]) -> set[str]:
        """Return the days from the adoption of a new policy on, whose messages are compared with it."""
        changed = [*self._written.get("occurrence", []), *self._replaced]
        first = min((str(file.date) for file in _with_policies(changed, project)), default=None)
        return {str(file.date) for file in known if first is not None and str(file.date) >= first}

    def _threads(self, days: set[tuple[str, str]]) -> None:
        """Follow the threads of the days that changed."""
        assignments: list[tasks.Thread] = []
        for project, date in sorted(days):
            files = self._in_days("message_life", {(project, date)})
            buckets = self._buckets(sum(file.rows for file in files))
            assignments += [
                tasks.Thread(self._target, self._settings.task_memory_mib, bucket, buckets, files)
                for bucket in range(buckets if files else 0)
            ]
        self._remove("thread_day", {file.path for file in self._in_days("thread_day", days)})
        for result in run_tasks(self._spark, tasks.follow_threads, assignments, tasks.Settled):
            self._add(result)

    def _buckets(self, rows: int) -> int:
        return max(1, math.ceil(rows / self._settings.task_rows_max))

    def _add(self, result: tasks.Folded | tasks.Settled) -> None:
        for name, made in result.files.items():
            self._files.setdefault(name, []).extend(made)
            self._written.setdefault(name, []).extend(made)
        for name, cpu_s in result.cpu_s.items():
            self._cpu_s[name] = self._cpu_s.get(name, 0.0) + cpu_s

    def _in_days(self, name: str, days: set[tuple[str, str]]) -> list[DataFile]:
        return [file for file in self._files.get(name, []) if (file.project, file.date) in days]

    def _remove(self, name: str, paths: set[str]) -> None:
        self._files[name] = [file for file in self._files.get(name, []) if file.path not in paths]

    def _commit(self, files: int, events: int, seconds: float) -> Snapshot:
        rows = {name: sum(file.rows for file in made) for name, made in self._written.items()}
        batch = Batch(0, "refresh", 0, seconds, files, events, rows, self._cpu_s)
        made = {name: files for name, files in self._files.items() if name not in _BRONZE}
        return self._warehouse.commit(self._before, batch, made, pending={}, made_as=_digests(), repairs={})


def _by_project(files: Iterable[DataFile]) -> dict[str, list[DataFile]]:
    found: dict[str, list[DataFile]] = {}
    for file in files:
        found.setdefault(file.project, []).append(file)
    return found


def _with_policies(occurrences: Iterable[DataFile], project: str) -> list[DataFile]:
    """Return the files of `occurrence` that hold policies of a project, by the numbers recorded for each file."""
    return [file for file in occurrences if file.project == project and file.high > 0]


def _overlapping(files: Iterable[DataFile], project: str, messages: list[Interval]) -> list[DataFile]:
    """Return the files of a project whose range of messages overlaps some intervals."""
    return [
        file
        for file in files
        if file.project == project and any(low <= file.high and high >= file.low for low, high in messages)
    ]


def _digests() -> dict[str, str]:
    """Return a digest of the definition of each table that is made from bronze."""
    texts = {table.name: repr([(c.name, c.type) for c in table.columns]) + table.sql for table in TABLES}
    texts["message_life"] = repr([(column.name, column.type) for column in MESSAGE_LIFE])
    return {name: hashlib.blake2b(text.encode(), digest_size=8).hexdigest() for name, text in texts.items()}
