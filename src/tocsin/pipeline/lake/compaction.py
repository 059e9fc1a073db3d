"""Compaction of small files, retention of old days, and deletion of unused files.

It is safe while a stream runs: each step is a commit under the writer lock, so the stream waits for a moment and then
reads the new state. Files are deleted only when they have been unused for `vacuum_after_s`, so that readers of an
earlier state can finish.
"""

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
from pyspark.sql import SparkSession

from tocsin.pipeline.lake.manifest import Batch, DataFile, Manifest
from tocsin.pipeline.lake.warehouse import Warehouse

__all__ = ["Housekeeping", "compact", "retire", "vacuum"]

#: Sort order of the rows in a file, for tables where readers skip row groups.
_ORDER = {"event": ("kind", "seq"), "message_life": ("message",)}


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
    """Rewrite each partition that has many files as one file, table by table."""
    for name in warehouse.columns:
        with warehouse.writing():
            manifest = warehouse.current()
            parts: dict[tuple[str, str | None, bool], list[DataFile]] = {}
            for file in manifest.files(name):
                if file.path not in manifest.pending:
                    parts.setdefault((file.project, file.date, file.hot), []).append(file)
            many = [files for files in parts.values() if len(files) >= warehouse.settings.compact_files_min]
            if many:
                _compact(spark, warehouse, manifest, name, [file for files in many for file in files], done)


def _compact(
    spark: SparkSession,
    warehouse: Warehouse,
    manifest: Manifest,
    name: str,
    old: list[DataFile],
    done: Housekeeping,
) -> None:
    begin = time.perf_counter()
    by_day = any(file.date is not None for file in old)
    keys = ["project", "date"] if by_day else ["project"]
    batch = warehouse.new_batch(manifest.version + 1)
    written: list[DataFile] = []
    for hot in (False, True):
        files = [file for file in old if file.hot == hot]
        if not files:
            continue
        frame = warehouse.read(spark, name, files).repartition(*keys)
        frame = frame.sortWithinPartitions(*keys, *_ORDER.get(name, ()))
        made = warehouse.write(frame, name, f"{batch}{'-hot' if hot else ''}", *keys)
        written += [msgspec.structs.replace(file, hot=hot) for file in made]
    replaced = {file.path for file in old}
    manifest.tables[name] = [*(file for file in manifest.files(name) if file.path not in replaced), *written]
    done.files_before += len(old)
    done.files_after += len(written)
    rows = {name: sum(file.rows for file in written)}
    _commit(warehouse, manifest, Batch(0, "compact", 0, time.perf_counter() - begin, rows=rows), written)


def retire(warehouse: Warehouse, done: Housekeeping, today: datetime | None = None) -> None:
    """Drop days that are older than the retention of their table; days with open messages are kept."""
    begin = time.perf_counter()
    with warehouse.writing():
        manifest = warehouse.current()
        dropped = 0
        for name in manifest.tables:
            days = warehouse.settings.retention_of(name)
            if days is None:
                continue
            first = ((today or datetime.now(UTC)) - timedelta(days=days)).date().isoformat()
            files = manifest.files(name)
            alive = {(file.project, file.date) for file in files if file.hot}
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
