"""Ingestion of segments into the `event` table: each segment once, each event once.

Each segment is one task (`tocsin.pipeline.bronze.segment_task`), which reports exactly which sequence numbers it wrote.
The numbers that are already in bronze are given to the tasks as intervals, and tasks leave those events out. If
segments of one batch overlap each other, the first in order is accepted, and the others are read again without its
numbers.

A segment whose file was replaced since it was read is read again. If its content is the same, only the table `segment`
changes. Otherwise what came from it is removed from bronze in the same commit, and the release says which messages and
days the next refresh makes anew. Where retention has dropped events of the project that is not possible, and only the
events that are not in bronze yet are added.
"""

import time
from collections.abc import Callable, Collection, Iterator, Mapping

import msgspec
from pyspark.sql import SparkSession

from tocsin.pipeline.bronze.landing_zone import segment_name
from tocsin.pipeline.bronze.removal import Remaining, Removal, remove_events, without_segments
from tocsin.pipeline.bronze.segment_log import (
    SegmentMark,
    changed_at,
    ingested_segments,
    new_segments,
    replace_marks,
)
from tocsin.pipeline.bronze.segment_task import Assignment, Ingested, ingest_segment
from tocsin.pipeline.engine.tasks import run_tasks
from tocsin.pipeline.lake.data_file import DataFile
from tocsin.pipeline.lake.intervals import Interval, count_of, joined, without
from tocsin.pipeline.lake.release import Batch, ProjectMark, Repair
from tocsin.pipeline.lake.storage import Place, Storage, StoredFile, open_storage
from tocsin.pipeline.lake.warehouse import Snapshot, Warehouse

__all__ = ["Progress", "ingest"]

#: Called with the stage, the work done and the total.
Progress = Callable[[str, int, int], None]


def ingest(
    spark: SparkSession,
    warehouse: Warehouse,
    landing: Place,
    segments: Mapping[str, StoredFile],
    progress: Progress | None = None,
    *,
    again: Collection[str] = (),
) -> Snapshot:
    """Ingest segments in commits of at most `ingest_bytes_max` each; return the newest state.

    Segments that are in bronze as they are now are left out. Those of `again` are read nevertheless, and events that
    are not in bronze yet are added.
    """
    state = warehouse.current()
    known = ingested_segments(warehouse, state, segments)
    chosen = {**new_segments(segments, known), **{name: segments[name] for name in again if name in segments}}
    done, total = 0, sum(file.bytes for file in chosen.values())
    for chunk in _chunks(chosen, warehouse.settings.ingest_bytes_max):
        begin = time.perf_counter()
        earlier = {name: known[name] for name in chunk if name in known}
        part = _Part(spark, warehouse, open_storage(landing), state, chunk, earlier, set(again))
        part.read()
        state = part.commit(begin)
        done += sum(file.bytes for file in chunk.values())
        if progress is not None:
            progress("bronze", done, total)
    return state


def _chunks(files: Mapping[str, StoredFile], limit: int) -> Iterator[dict[str, StoredFile]]:
    chunk: dict[str, StoredFile] = {}
    filled = 0
    for name, file in files.items():
        if chunk and filled + file.bytes > limit:
            yield chunk
            chunk, filled = {}, 0
        chunk[name] = file
        filled += file.bytes
    if chunk:
        yield chunk


class _Part:
    """The segments of one commit."""

    def __init__(
        self,
        spark: SparkSession,
        warehouse: Warehouse,
        landing: Storage,
        before: Snapshot,
        segments: Mapping[str, StoredFile],
        earlier: Mapping[str, SegmentMark],
        again: Collection[str],
    ) -> None:
        self._spark = spark
        self._warehouse = warehouse
        self._landing = landing
        self._before = before
        self._segments = segments
        #: Records of the segments that were read before.
        self._earlier = earlier
        #: Segments whose events in bronze stay, although they are read again.
        self._again = again
        self._accepted: list[Ingested] = []
        #: Segments that were read before and have the same content, or whose day retention has dropped.
        self._same: list[str] = []

    def read(self) -> None:
        """Run tasks until no two accepted results hold the same event."""
        covered = {name: list(mark.covered) for name, mark in self._before.projects.items()}
        days = {(file.project, file.date) for file in self._before.files("event")}
        names = []
        for name in self._segments:
            mark, (project, date, _) = self._earlier.get(name), _parts_of(name)
            if mark is not None and mark.events and (project, date) not in days:
                self._same.append(name)
                continue
            names.append(name)
            if self._replaces(name):
                covered[project] = without(covered[project], self._earlier[name].intervals)
        while names:
            results = run_tasks(self._spark, ingest_segment, self._assignments(names, covered), Ingested)
            names = []
            for result in sorted(results, key=lambda result: not result.same):
                known = covered.setdefault(result.project, [])
                seqs = self._earlier[result.segment].intervals if result.same else result.seqs
                together = joined([*known, *seqs])
                if result.same:
                    self._same.append(result.segment)
                elif count_of(together) == count_of(known) + count_of(seqs):
                    self._accepted.append(result)
                else:
                    names.append(result.segment)
                    continue
                covered[result.project] = together

    def _replaces(self, name: str) -> bool:
        """Return whether the events of a segment in bronze give way to those that are read now."""
        mark = self._earlier.get(name)
        if mark is None or name in self._again or count_of(mark.intervals) != mark.events:
            return False
        project = self._before.projects.get(_parts_of(name)[0])
        return project is not None and not (project.retired or project.retired_messages)

    def _assignments(self, names: list[str], covered: dict[str, list[Interval]]) -> list[Assignment]:
        settings = self._warehouse.settings
        return [
            Assignment(
                self._landing.url,
                name,
                self._warehouse.storage.url,
                covered.get(_parts_of(name)[0], []),
                settings.quarantine_text_max,
                settings.quarantine_lines_max,
                "" if name in self._again or name not in self._earlier else self._earlier[name].checksum,
            )
            for name in names
        ]

    def commit(self, begin: float) -> Snapshot:
        """Commit the files that tasks have written."""
        before = self._before
        projects = msgspec.json.decode(msgspec.json.encode(before.projects), type=dict[str, ProjectMark])
        marks = {name: self._noted(self._earlier[name], name) for name in self._same}
        removed: dict[str, list[Interval]] = {}
        for result in self._accepted:
            if self._replaces(result.segment):
                seqs = self._earlier[result.segment].intervals
                removed[result.project] = joined([*removed.get(result.project, []), *seqs])
        removed = {project: seqs for project, seqs in removed.items() if seqs}
        events, pending, repairs = self._remaining(removed)
        old = {result.segment for result in self._accepted if result.segment in self._earlier}
        quarantine = without_segments(self._warehouse, before.files("quarantine"), old)
        for project, seqs in removed.items():
            projects[project].covered = without(projects[project].covered, seqs)
        for result in self._accepted:
            events += result.files
            quarantine += result.quarantine
            pending |= {file.path: sorted(result.kinds) for file in result.files}
            marks[result.segment] = self._mark_of(result)
            mark = projects.setdefault(result.project, ProjectMark())
            mark.covered = joined([*mark.covered, *result.seqs])
            mark.last_at = max(mark.last_at, result.last_at)
        files = {
            "event": events,
            "quarantine": quarantine,
            "segment": replace_marks(self._warehouse, before, marks),
        }
        count = sum(result.events for result in self._accepted)
        batch = Batch(0, "ingest", 0, time.perf_counter() - begin, len(self._accepted), count)
        return self._warehouse.commit(before, batch, files, pending=pending, projects=projects, repairs=repairs)

    def _remaining(
        self, removed: dict[str, list[Interval]]
    ) -> tuple[list[DataFile], dict[str, list[str]], dict[str, Repair]]:
        """Return the files of `event` without some numbers, those of them that are to be folded, and the repairs."""
        files, pending = self._before.files("event"), self._before.pending
        repairs = dict(self._before.release.repairs)
        touched = [
            Removal(self._warehouse.storage.url, file, removed[file.project])
            for file in files
            if any(low <= file.high and high >= file.low for low, high in removed.get(file.project, []))
        ]
        made = {one.path: one for one in run_tasks(self._spark, remove_events, touched, Remaining)}
        left: list[DataFile] = []
        waiting: dict[str, list[str]] = {}
        for file in files:
            remaining = made.get(file.path, Remaining(file.path, [file]))
            left += remaining.files
            if file.path in pending:
                waiting |= {new.path: pending[file.path] for new in remaining.files}
            if remaining.files != [file]:
                known = repairs.get(file.project, Repair())
                repairs[file.project] = Repair(
                    joined([*known.messages, *remaining.messages]), sorted({*known.days, str(file.date)})
                )
        return left, waiting, repairs

    def _mark_of(self, result: Ingested) -> SegmentMark:
        """Return the record of a segment that was read; what stays of an earlier read is part of it."""
        events, duplicates, seqs = result.events, result.duplicates, result.seqs
        earlier = self._earlier.get(result.segment)
        if earlier is not None and not self._replaces(result.segment):
            events, duplicates = events + earlier.events, max(0, duplicates - earlier.events)
            seqs = joined([*seqs, *earlier.intervals])
        last_seq = seqs[-1][1] if seqs else 0
        return SegmentMark(
            result.segment, result.bytes, events, result.quarantined, duplicates, last_seq,
            [number for interval in seqs for number in interval], result.checksum,
            changed_at(self._segments[result.segment]), sorted(result.unknown_kinds),
        )  # fmt: skip

    def _noted(self, mark: SegmentMark, name: str) -> SegmentMark:
        """Return the record of a segment that is left as it is, with the size and time of its file now."""
        file = self._segments[name]
        return msgspec.structs.replace(mark, bytes=file.bytes, changed_at=changed_at(file))


def _parts_of(name: str) -> tuple[str, str, int]:
    return segment_name(name) or ("unknown", "1970-01-01", 0)
