"""Compaction of small files, retention of old days, and deletion of unused files.

It is safe while a stream runs: each step is a commit under the writer lock, so the stream waits for a moment and then
reads the new state. Files are deleted only when they have been unused for `vacuum_after_s`, so that readers of an
earlier state can finish.
"""

import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
from pyspark.sql import SparkSession

from tocsin.pipeline.engine.duck import open_duckdb
from tocsin.pipeline.engine.tasks import run_tasks
from tocsin.pipeline.lake.manifest import Batch, DataFile, Manifest, chunks_of
from tocsin.pipeline.lake.parquet_writer import Target
from tocsin.pipeline.lake.relations import add_relation
from tocsin.pipeline.lake.warehouse import Warehouse
from tocsin.pipeline.tables.schemas import Column

__all__ = ["Housekeeping", "compact", "retire", "vacuum"]


class Housekeeping(msgspec.Struct):
    """Counts of what compaction, retention and deletion did."""

    #: Files of compacted partitions, before and after.
    files_before: int = 0
    files_after: int = 0
    #: Files dropped by retention.
    files_retired: int = 0
    #: Files deleted, and their bytes.
    files_deleted: int = 0
    bytes_deleted: int = 0


def compact(spark: SparkSession, warehouse: Warehouse, done: Housekeeping) -> None:
    """Merge the files of each partition that has many, table by table; a large partition becomes several files."""
    for name in warehouse.columns:
        with warehouse.writing():
            manifest = warehouse.current()
            parts: dict[tuple[str, str | None, bool], list[DataFile]] = {}
            for file in manifest.files(name):
                if file.path not in manifest.pending and file.rows < warehouse.settings.file_rows_max:
                    parts.setdefault((file.project, file.date, file.hot), []).append(file)
            many = [files for files in parts.values() if len(files) >= warehouse.settings.compact_files_min]
            if many:
                _compact(spark, warehouse, manifest, name, many, done)


def _compact(
    spark: SparkSession,
    warehouse: Warehouse,
    manifest: Manifest,
    name: str,
    parts: list[list[DataFile]],
    done: Housekeeping,
) -> None:
    begin = time.perf_counter()
    target = Target(str(warehouse.root), warehouse.new_batch(manifest.version + 1))
    assignments = [
        Merge(target, warehouse.settings.task_memory_mib, name, warehouse.columns[name], chunk)
        for files in parts
        for chunk in chunks_of(files, warehouse.settings.file_rows_max)
        if len(chunk) > 1
    ]
    written = [file for merged in run_tasks(spark, merge_files, assignments, Merged) for file in merged.files]
    old = [file for task in assignments for file in task.files]
    replaced = {file.path for file in old}
    manifest.tables[name] = [*(file for file in manifest.files(name) if file.path not in replaced), *written]
    done.files_before += len(old)
    done.files_after += len(written)
    rows = {name: sum(file.rows for file in written)}
    _commit(warehouse, manifest, Batch(0, "compact", 0, time.perf_counter() - begin, rows=rows), written)


class Merge(msgspec.Struct, frozen=True):
    """Files of one partition for a task."""

    target: Target
    memory_mib: int
    table: str
    columns: tuple[Column, ...]
    files: list[DataFile]


class Merged(msgspec.Struct):
    """The files that replace them."""

    files: list[DataFile]


def merge_files(task: Merge) -> Merged:
    """Write the rows of some files as one file."""
    with tempfile.TemporaryDirectory(prefix="tocsin-duckdb-") as scratch:
        connection = open_duckdb(task.memory_mib, scratch)
        add_relation(connection, "merged", task.columns, Path(task.target.warehouse), task.files)
        hot = task.files[0].hot
        query = f"SELECT *, {str(hot).lower()} AS hot FROM merged"
        more = ("hot",) if task.table == "message_life" else ()
        files = task.target.write(connection, task.table, task.columns, query, *more)
        connection.close()
    return Merged(files)


def retire(warehouse: Warehouse, done: Housekeeping, today: datetime | None = None) -> None:
    """Drop days that are older than the retention of their table; days on which an open message was accepted stay."""
    begin = time.perf_counter()
    with warehouse.writing():
        manifest = warehouse.current()
        dropped = 0
        alive = {(file.project, file.date) for file in manifest.files("message_life") if file.hot}
        for name in manifest.tables:
            days = warehouse.settings.retention_of(name)
            if days is None:
                continue
            first = ((today or datetime.now(UTC)) - timedelta(days=days)).date().isoformat()
            files = manifest.files(name)
            old = [
                file
                for file in files
                if file.date is not None
                and file.date < first
                and (file.project, file.date) not in alive
                and file.path not in manifest.pending
            ]
            for file in old:
                mark = manifest.projects[file.project]
                if name == "event":
                    mark.retired += file.rows
                elif name == "message_life":
                    mark.retired_messages += file.rows
            gone = {file.path for file in old}
            manifest.tables[name] = [file for file in files if file.path not in gone]
            dropped += len(old)
        if dropped:
            _commit(warehouse, manifest, Batch(0, "retention", 0, time.perf_counter() - begin), [])
        done.files_retired += dropped


def vacuum(warehouse: Warehouse, done: Housekeeping) -> None:
    """Delete files that no manifest of the last `vacuum_after_s` seconds names."""
    horizon = time.time() - warehouse.settings.vacuum_after_s
    with warehouse.writing():
        named: set[str] = set()
        versions = warehouse.manifests.versions()
        for newer, version in zip([*versions[1:], None], versions, strict=True):
            manifest = warehouse.manifests.read(version)
            replaced_at = None if newer is None else warehouse.manifests.read(newer).written_at / 1_000_000
            if replaced_at is None or replaced_at > horizon:
                named |= {file.path for files in manifest.tables.values() for file in files}
        for path in list(warehouse.every_file()):
            if path.relative_to(warehouse.root).as_posix() not in named:
                _delete(path, horizon, done)
        for folder in sorted(
            (p for name in warehouse.columns for p in (warehouse.root / name).rglob("*") if p.is_dir()), reverse=True
        ):
            if not any(folder.iterdir()):
                folder.rmdir()


def _delete(path: Path, horizon: float, done: Housekeeping) -> None:
    found = path.stat()
    if found.st_mtime <= horizon:
        path.unlink(missing_ok=True)
        if path.suffix == ".parquet" and not path.name.startswith("."):
            done.files_deleted += 1
            done.bytes_deleted += found.st_size


def _commit(warehouse: Warehouse, manifest: Manifest, batch: Batch, written: list[DataFile]) -> None:
    manifest.version += 1
    batch.version, batch.at = manifest.version, time.time_ns() // 1000
    manifest.batches = [*manifest.batches, batch][-warehouse.settings.batches_max :]
    warehouse.manifests.commit(manifest, written)
