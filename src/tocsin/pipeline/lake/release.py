"""Releases: one small record per batch, with the versions of all tables that belong together.

Theory of operation. A batch first commits a new version of each table that it changes. Then it writes a release, which
names these versions and those of the unchanged tables, together with the pipeline's own state. Readers start from the
newest release, so they see all of a batch or nothing of it. The releases are themselves a Delta table, `release`, with
one row: each release replaces the one before it, in a commit that fails if that version exists. So of two writers one
wins, on every storage, and a kill at any moment leaves the state before or the state after.
"""

import secrets
import time
from typing import Annotated

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import Meta

from tocsin.pipeline.errors import WarehouseDamaged
from tocsin.pipeline.lake.column_types import arrow_type
from tocsin.pipeline.lake.data_file import DataFile
from tocsin.pipeline.lake.delta_table import StoredTable
from tocsin.pipeline.lake.intervals import Interval
from tocsin.pipeline.lake.storage import Storage
from tocsin.pipeline.tables.schemas import Column

__all__ = ["RELEASE", "Batch", "ProjectMark", "Release", "Releases", "Repair"]

RELEASE: tuple[Column, ...] = (
    Column("release", "bigint", "Number of the release, from 1."),
    Column("written_at", "timestamp", "Time of the commit."),
    Column("tables", "array<struct<name:string,version:bigint>>", "The version of each table that belongs to it."),
    Column("state", "string", "State of the pipeline, as JSON."),
)


class ProjectMark(msgspec.Struct):
    """Progress of one project."""

    #: Sequence numbers that are in bronze, or that retention has dropped from it.
    covered: list[Interval] = []
    #: Events that retention has dropped.
    retired: int = 0
    #: Messages that retention has dropped from `message_life`.
    retired_messages: int = 0
    #: Latest `at` in bronze, microseconds since the epoch.
    last_at: int = 0


class Repair(msgspec.Struct):
    """What the next refresh makes anew in a project, because events were removed from `event`."""

    #: Numbers of the messages that those events are about; the intervals may hold others as well.
    messages: list[Interval] = []
    #: Days of those events.
    days: list[str] = []


class Batch(msgspec.Struct):
    """Summary of one commit, for `status`."""

    version: int
    #: `ingest`, `refresh`, `compact` or `retention`.
    what: str
    #: Time of the commit, microseconds since the epoch.
    at: int
    #: Duration of the batch.
    seconds: float
    segments: int = 0
    events: int = 0
    #: Rows written, by table.
    rows: dict[str, int] = {}
    #: CPU time of the tasks, by table, seconds.
    cpu_s: dict[str, float] = {}


class Release(msgspec.Struct):
    """One state of the warehouse, without the files."""

    #: Number of the release; 0 for an empty warehouse.
    version: Annotated[int, Meta(ge=0)] = 0
    #: Time of the commit, microseconds since the epoch.
    written_at: int = 0
    #: Version of each table.
    tables: dict[str, int] = {}
    #: Files of `event` that the other tables do not include yet, with the kinds in them.
    pending: dict[str, list[str]] = {}
    projects: dict[str, ProjectMark] = {}
    #: Repairs that the other tables do not include yet, by project.
    repairs: dict[str, Repair] = {}
    #: Digest of the definition that each derived table was made with.
    made_as: dict[str, str] = {}
    #: The batch that made it; null for an empty warehouse.
    batch: Batch | None = None
    #: File that holds it, below the warehouse; empty for an empty warehouse.
    path: str = ""


class Releases:
    """The releases of a warehouse."""

    def __init__(self, storage: Storage, keep_h: int) -> None:
        self._storage = storage
        self._table = StoredTable(storage, "release", RELEASE, keep_h)

    def newest(self) -> Release:
        """Read the newest release; an empty one if there is none."""
        files = self._table.files()
        if not files:
            return Release()
        try:
            with self._storage.open(files[0].path) as file:
                (row,) = pq.read_table(file, columns=["state"]).to_pylist()
            return msgspec.json.decode(row["state"], type=Release)
        except (OSError, ValueError, pa.ArrowException, msgspec.DecodeError) as error:
            raise WarehouseDamaged(f"the newest release cannot be read: {error}") from None

    def commit(self, release: Release, before: Release) -> None:
        """Write the release that follows `before`; raise `CommitLost` if that is no longer the newest."""
        release.version, release.written_at = before.version + 1, time.time_ns() // 1000
        release.path = f"release/{release.version:012d}-{secrets.token_hex(4)}.parquet"
        if release.batch is not None:
            release.batch.version, release.batch.at = release.version, release.written_at
        row = {
            "release": release.version,
            "written_at": release.written_at,
            "tables": [{"name": name, "version": version} for name, version in sorted(release.tables.items())],
            "state": msgspec.json.encode(release).decode(),
        }
        content = pa.table({c.name: pa.array([row[c.name]], arrow_type(c.type)) for c in RELEASE})
        with self._storage.create(release.path) as out:
            pq.write_table(content, out, compression="zstd")
        file = DataFile(release.path, "", None, 1, self._storage.size(release.path) or 0)
        version = self._table.commit(
            [file],
            msgspec.json.encode(release.batch).decode(),
            expected=[before.path] if before.path else [],
        )
        self._table.tidy(max(version - 1, 0), version)

    def batches(self, count: int) -> list[Batch]:
        """Return the batches of the last releases, newest first."""
        return [msgspec.json.decode(note, type=Batch) for note in self._table.notes(count)]

    def vacuum(self, keep_h: int) -> list[str]:
        """Delete the files of earlier releases."""
        return self._table.vacuum(keep_h, [])
