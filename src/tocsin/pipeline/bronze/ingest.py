"""Ingestion of segments into the `event` table: each segment once, each event once.

Each segment is one task (`tocsin.pipeline.bronze.segment_task`), which reports exactly which sequence numbers it wrote.
The numbers that are already in bronze are given to the tasks as intervals, and tasks leave those events out. If
segments of one batch overlap each other, the first in order is accepted, and the others are read again without its
numbers.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import msgspec
from pyspark.sql import SparkSession

from tocsin.pipeline.bronze.landing_zone import segment_name
from tocsin.pipeline.bronze.segment_task import Assignment, Ingested, ingest_segment
from tocsin.pipeline.engine.tasks import run_tasks
from tocsin.pipeline.lake.intervals import Interval, count_of, joined
from tocsin.pipeline.lake.manifest import Batch, DataFile, Manifest, ProjectMark, SegmentMark
from tocsin.pipeline.lake.warehouse import Warehouse

__all__ = ["Progress", "ingest"]

#: Called with the stage, the work done and the total.
Progress = Callable[[str, int, int], None]


def ingest(
    spark: SparkSession, warehouse: Warehouse, landing: Path, segments: Iterable[str], progress: Progress | None = None
) -> Manifest:
    """Ingest segments, in commits of at most `ingest_bytes_max` each; return the newest manifest."""
    manifest = warehouse.current()
    sizes = {name: (landing / name).stat().st_size for name in segments if name not in manifest.segments}
    done, total = 0, sum(sizes.values())
    for chunk in _chunks(sizes, warehouse.settings.ingest_bytes_max):
        begin = time.perf_counter()
        results = _read(spark, warehouse, landing, chunk, manifest)
        manifest = _committed(warehouse, manifest, results, time.perf_counter() - begin)
        done += sum(sizes[name] for name in chunk)
        if progress is not None:
            progress("bronze", done, total)
    return manifest


def _chunks(sizes: dict[str, int], limit: int) -> Iterator[list[str]]:
    chunk: list[str] = []
    filled = 0
    for name, size in sizes.items():
        if chunk and filled + size > limit:
            yield chunk
            chunk, filled = [], 0
        chunk.append(name)
        filled += size
    if chunk:
        yield chunk


def _read(
    spark: SparkSession, warehouse: Warehouse, landing: Path, names: list[str], manifest: Manifest
) -> list[Ingested]:
    """Run tasks until no two accepted results hold the same event."""
    covered = {name: list(mark.covered) for name, mark in manifest.projects.items()}
    batch = warehouse.new_batch(manifest.version + 1)
    accepted: list[Ingested] = []
    while names:
        again: list[str] = []
        for result in run_tasks(
            spark, ingest_segment, _assignments(warehouse, landing, batch, names, covered), Ingested
        ):
            known = covered.setdefault(result.project, [])
            together = joined([*known, *result.seqs])
            if count_of(together) == count_of(known) + count_of(result.seqs):
                covered[result.project] = together
                accepted.append(result)
            else:
                again.append(result.segment)
        names = again
    return accepted


def _assignments(
    warehouse: Warehouse, landing: Path, batch: str, names: list[str], covered: dict[str, list[Interval]]
) -> list[Assignment]:
    settings = warehouse.settings
    return [
        Assignment(
            str(landing.absolute()),
            name,
            str(warehouse.root),
            batch,
            covered.get((segment_name(name) or ("",))[0], []),
            settings.quarantine_text_max,
            settings.quarantine_lines_max,
        )
        for name in names
    ]


def _committed(warehouse: Warehouse, manifest: Manifest, results: list[Ingested], seconds: float) -> Manifest:
    """Commit the files that tasks have written."""
    after = msgspec.json.decode(msgspec.json.encode(manifest), type=Manifest)
    after.version += 1
    written: list[DataFile] = []
    for result in results:
        written += [*result.files, *result.quarantine]
        after.tables.setdefault("event", []).extend(result.files)
        after.tables.setdefault("quarantine", []).extend(result.quarantine)
        after.pending |= {file.path: sorted(result.kinds) for file in result.files}
        last_seq = result.seqs[-1][1] if result.seqs else 0
        after.segments[result.segment] = SegmentMark(
            result.bytes, result.events, result.quarantined, result.duplicates, last_seq
        )
        mark = after.projects.setdefault(result.project, ProjectMark())
        mark.covered = joined([*mark.covered, *result.seqs])
        mark.last_at = max([mark.last_at, *(file.last_at for file in result.files)])
    batch = Batch(
        after.version, "ingest", time.time_ns() // 1000, seconds, len(results), sum(result.events for result in results)
    )
    after.batches = [*after.batches, batch][-warehouse.settings.batches_max :]
    warehouse.manifests.commit(after, written)
    return after
