"""Compaction of small files, retention of old days, and deletion of unused files.

Compaction and deletion are Delta Lake's. They are safe while a stream runs: each step is a commit under the writer
lock, so the stream waits for a moment and then reads the new state; a stream on another machine does its batch again.
Files are deleted only when they have been unused for `vacuum_after_h`, so that readers of an earlier state can finish.
"""

import time
from datetime import UTC, datetime, timedelta

import msgspec

from tocsin.pipeline.lake.release import Batch, ProjectMark
from tocsin.pipeline.lake.warehouse import Warehouse

__all__ = ["PARTIAL", "Housekeeping", "compact", "retire", "vacuum"]

#: Folder of temporary files of batches, below the warehouse.
PARTIAL = "_partial"


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


def compact(warehouse: Warehouse, done: Housekeeping) -> None:
    """Merge small files inside each partition, table by table; a large partition becomes several files."""
    settings = warehouse.settings
    for name in warehouse.columns:
        begin = time.perf_counter()
        with warehouse.writing(only=name):
            state = warehouse.current()
            if name not in state.release.tables or (name == "event" and state.pending):
                # Files that are still to be folded are known by their paths.
                continue
            made = warehouse.table(name).compact(settings.compact_bytes_max, settings.compact_memory_mib << 20)
            if made is None:
                continue
            done.files_before += made.files_before
            done.files_after += made.files_after
            batch = Batch(0, "compact", 0, time.perf_counter() - begin, rows={name: state.rows(name)})
            warehouse.release(state, batch, {name: made.version})


def retire(warehouse: Warehouse, done: Housekeeping, today: datetime | None = None) -> None:
    """Drop days that are older than the retention of their table; days on which an open message was accepted stay."""
    begin = time.perf_counter()
    with warehouse.writing():
        state = warehouse.current()
        projects = msgspec.json.decode(msgspec.json.encode(state.projects), type=dict[str, ProjectMark])
        alive = {(file.project, file.date) for file in state.files("message_life") if file.hot}
        left = {}
        for name in state.tables:
            days = warehouse.settings.retention_of(name)
            if days is None:
                continue
            first = ((today or datetime.now(UTC)) - timedelta(days=days)).date().isoformat()
            old = [
                file
                for file in state.files(name)
                if file.date is not None
                and file.date < first
                and (file.project, file.date) not in alive
                and file.path not in state.pending
            ]
            for file in old:
                if name == "event":
                    projects[file.project].retired += file.rows
                elif name == "message_life":
                    projects[file.project].retired_messages += file.rows
            if old:
                gone = {file.path for file in old}
                left[name] = [file for file in state.files(name) if file.path not in gone]
            done.files_retired += len(old)
        if left:
            batch = Batch(0, "retention", 0, time.perf_counter() - begin)
            warehouse.commit(state, batch, left, projects=projects)


def vacuum(warehouse: Warehouse, done: Housekeeping) -> None:
    """Delete files that no version of the last `vacuum_after_h` hours has, and temporary files of killed batches."""
    keep_h = warehouse.settings.vacuum_after_h
    with warehouse.writing():
        sizes = {path: found.bytes for path, found in warehouse.storage.listed().items()}
        pinned = warehouse.current().release.tables
        for name in warehouse.columns:
            warehouse.table(name).vacuum(keep_h, [pinned[name]] if name in pinned else [])
        warehouse.releases.vacuum(keep_h)
        before_ms = (time.time() - keep_h * 3600) * 1000
        # The name of a batch begins with its time.
        partial = [path for path in sizes if path.startswith(f"{PARTIAL}/")]
        warehouse.storage.delete(path for path in partial if int(path.split("/")[1].split("-")[0]) <= before_ms)
        gone = set(sizes) - set(warehouse.storage.listed())
    for path in gone:
        if path.endswith(".parquet") and "/_delta_log/" not in path:
            done.files_deleted += 1
            done.bytes_deleted += sizes[path]
