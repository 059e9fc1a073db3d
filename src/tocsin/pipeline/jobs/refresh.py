"""The refresh: update `message_life` and all tables made from it to the state of bronze, in one commit.

Theory of operation. `message_life` has two sorts of files: *hot* ones with the messages that are open or may still
change, and the rest. New events are folded into partial lives, which are merged with the existing rows of their
messages: all hot files of the project, and those other files that hold one of the messages. These files are rewritten,
the others stay. So the cost of a batch depends on its events and the open messages, not on the length of the history,
and an event that arrives a month late still updates its message. The days on which a changed message was accepted are
counted anew; tables of rare events and of sessions only grow.

Three Spark jobs do this, however many tables there are: fold, settle and threads (`refresh_tasks`).
"""

import hashlib
import math
import shutil
import time
from collections.abc import Iterable

import msgspec
from pyspark.sql import SparkSession

from tocsin.pipeline.bronze.ingest import Progress
from tocsin.pipeline.catalogue import COLUMNS, TABLES
from tocsin.pipeline.engine.tasks import run_tasks
from tocsin.pipeline.jobs import refresh_tasks as tasks
from tocsin.pipeline.lake.manifest import Batch, DataFile, Manifest, chunks_of
from tocsin.pipeline.lake.parquet_writer import Target
from tocsin.pipeline.lake.warehouse import Warehouse
from tocsin.pipeline.tables.schemas import KINDS, MESSAGE_LIFE

__all__ = ["refresh"]

#: Tables whose rows come from events; the others come from `message_life`.
_FROM_EVENTS = ("message_life", "occurrence", "session_part")
_COUNTED = tuple(table.name for table in tasks.COUNTED)


def refresh(spark: SparkSession, warehouse: Warehouse, progress: Progress | None = None) -> Manifest:
    """Update all tables to the state of bronze; return the newest manifest."""
    manifest = warehouse.current()
    job = _Refresh(spark, warehouse, manifest, progress or (lambda stage, done, total: None))
    return job.run() if manifest.pending or job.outdated else manifest


class _Refresh:
    """One refresh of all tables."""

    def __init__(self, spark: SparkSession, warehouse: Warehouse, manifest: Manifest, progress: Progress) -> None:
        self._spark = spark
        self._settings = warehouse.settings
        self._warehouse = warehouse
        self._before = manifest
        self._progress = progress
        #: Tables whose definition has changed since they were made.
        self.outdated = {name for name, digest in _digests().items() if manifest.made_as.get(name) != digest}
        self._from_bronze = bool(self.outdated & set(_FROM_EVENTS))
        self._files = {name: list(files) for name, files in manifest.tables.items()}
        self._target = Target(str(warehouse.root), warehouse.new_batch(manifest.version + 1))
        self._written: dict[str, list[DataFile]] = {}
        self._cpu_s: dict[str, float] = {}

    def run(self) -> Manifest:
        """Compute and commit the tables."""
        begin = time.perf_counter()
        events = self._files.get("event", [])
        if self._from_bronze:
            self._files = {name: files for name, files in self._files.items() if name in ("event", "quarantine")}
            pending = {file.path: self._before.pending.get(file.path) for file in events}
        else:
            pending = dict(self._before.pending)
        new = [file for file in events if file.path in pending]
        try:
            self._progress("fold", 0, 3)
            folded = self._fold(new, pending)
            self._progress("settle", 1, 3)
            days = self._settle(new, folded)
            self._progress("threads", 2, 3)
            self._threads(days)
            self._progress("done", 3, 3)
        finally:
            shutil.rmtree(self._warehouse.root / tasks.PARTIAL / self._target.batch, ignore_errors=True)
        return self._commit(len(new), sum(file.rows for file in new), time.perf_counter() - begin)

    def _fold(self, new: list[DataFile], pending: dict[str, list[str] | None]) -> dict[str, list[tasks.Folded]]:
        """Fold new events; return the results by project."""
        rows_max = self._settings.task_rows_max
        assignments: list[tasks.Fold] = []
        for project, files in _by_project(new).items():
            buckets = self._buckets(sum(file.rows for file in files))
            for chunk in chunks_of(files, rows_max):
                kinds = {kind for file in chunk for kind in pending[file.path] or KINDS}
                known = [file for file in self._files.get("message_life", []) if file.project == project]
                assignments.append(
                    tasks.Fold(self._target, self._settings.task_memory_mib, chunk, sorted(kinds), buckets, known)
                )
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
        for project in sorted({*folded, *(lives if counted_anew else ())}):
            known, results = lives.get(project, []), folded.get(project, [])
            touched = {path for result in results for path in result.touched}
            partial = [list(paths) for paths in zip(*(r.partial for r in results if r.partial), strict=True)]
            dates = {str(file.date) for file in known if file.path in touched or counted_anew}
            if partial:
                dates |= {str(file.date) for file in new if file.project == project}
            dates |= self._judged_anew(project, known)
            if not partial and not dates:
                continue
            stale = [file for file in known if partial and (file.hot or file.path in touched)]
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
            occurrences = [file for file in self._files.get("occurrence", []) if file.project == project]
            assignments += [
                tasks.Settle(
                    self._target, self._settings.task_memory_mib, project, bucket, buckets,
                    partial[bucket] if partial else [], stale, kept, occurrences, sorted(dates), hot_from_us,
                )
                for bucket in range(buckets)
            ]  # fmt: skip
        for result in run_tasks(self._spark, tasks.settle, assignments, tasks.Settled):
            self._add(result)
        return days

    def _judged_anew(self, project: str, known: list[DataFile]) -> set[str]:
        """Return the days from the adoption of a new policy on, whose messages are compared with it."""
        adopted = [file for file in self._written.get("occurrence", []) if file.project == project]
        if not adopted or not known:
            return set()
        first = self._warehouse.first_policy(adopted)
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

    def _commit(self, files: int, events: int, seconds: float) -> Manifest:
        after = msgspec.json.decode(msgspec.json.encode(self._before), type=Manifest)
        after.version += 1
        after.tables = {name: self._files.get(name, []) for name in COLUMNS}
        after.pending = {}
        after.made_as = _digests()
        rows = {name: sum(file.rows for file in made) for name, made in self._written.items()}
        batch = Batch(after.version, "refresh", time.time_ns() // 1000, seconds, files, events, rows, self._cpu_s)
        after.batches = [*after.batches, batch][-self._settings.batches_max :]
        self._warehouse.manifests.commit(after, [file for made in self._written.values() for file in made])
        return after


def _by_project(files: Iterable[DataFile]) -> dict[str, list[DataFile]]:
    found: dict[str, list[DataFile]] = {}
    for file in files:
        found.setdefault(file.project, []).append(file)
    return found


def _digests() -> dict[str, str]:
    """Return a digest of the definition of each table that is made from bronze."""
    texts = {table.name: repr([(c.name, c.type) for c in table.columns]) + table.sql for table in TABLES}
    texts["message_life"] = repr([(column.name, column.type) for column in MESSAGE_LIFE])
    return {name: hashlib.blake2b(text.encode(), digest_size=8).hexdigest() for name, text in texts.items()}
