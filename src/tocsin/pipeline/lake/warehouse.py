"""The warehouse: all tables below one folder or URL, the commit of a batch, and the lock of its writer.

A table is a Delta table in the folder of its name, which any engine can read. The newest release says which versions
belong together. The tables and their columns are given by the caller (`tocsin.pipeline.catalogue`).
"""

import fcntl
import hashlib
import secrets
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from tocsin.pipeline.errors import CommitLost, WarehouseBusy, WarehouseOutdated
from tocsin.pipeline.lake.data_file import DataFile
from tocsin.pipeline.lake.delta_table import StoredTable
from tocsin.pipeline.lake.release import Batch, ProjectMark, Release, Releases, Repair
from tocsin.pipeline.lake.storage import Place, Storage, open_storage
from tocsin.pipeline.settings import Settings
from tocsin.pipeline.tables.schemas import Column

__all__ = ["Snapshot", "Warehouse"]

_Result = TypeVar("_Result")
_LOCK_POLL_S = 0.2
#: Folder of the manifests of earlier versions, which had a table format of their own.
_EARLIER = "_manifests"


class Snapshot:
    """One state of the warehouse: a release, and the files of the tables that it pins. Files are listed when needed."""

    def __init__(
        self, release: Release, tables: Mapping[str, StoredTable], known: Mapping[str, list[DataFile]] | None = None
    ) -> None:
        self.release = release
        self._tables = tables
        self._known = dict(known or {})

    @property
    def version(self) -> int:
        """Return the number of the release; 0 for an empty warehouse."""
        return self.release.version

    @property
    def written_at(self) -> int:
        """Return the time of the release, microseconds since the epoch."""
        return self.release.written_at

    @property
    def pending(self) -> dict[str, list[str]]:
        """Return the files of `event` that the other tables do not include yet, with the kinds in them."""
        return self.release.pending

    @property
    def events_pending(self) -> int:
        """Return how many events the other tables do not include yet."""
        return sum(file.rows for file in self.files("event") if file.path in self.pending)

    @property
    def projects(self) -> dict[str, ProjectMark]:
        """Return the progress of each project."""
        return self.release.projects

    @property
    def tables(self) -> list[str]:
        """Return the names of the tables that exist."""
        return sorted(self.release.tables)

    def files(self, table: str) -> list[DataFile]:
        """Return the files of a table."""
        if table not in self._known:
            version = self.release.tables.get(table)
            self._known[table] = [] if version is None else self._tables[table].files(version)
        return self._known[table]

    def rows(self, table: str) -> int:
        """Return the number of rows of a table."""
        return sum(file.rows for file in self.files(table))

    def with_files(self, **files: list[DataFile]) -> "Snapshot":
        """Return the same state with other files of some tables."""
        return Snapshot(self.release, self._tables, {**self._known, **files})


class Warehouse:
    """All tables, below one folder or URL that every worker can read and write."""

    def __init__(
        self,
        place: Place,
        settings: Settings,
        columns: Mapping[str, tuple[Column, ...]],
        folder: Path | None = None,
    ) -> None:
        self.storage = open_storage(place)
        self.settings = settings
        #: The columns of each table, by its name.
        self.columns = columns
        #: Local folder for the lock, the extract and the stream's checkpoint: that of the tables, if they are local.
        self.root = self.storage.local or (folder or _folder_for(self.storage)).absolute()
        self.releases = Releases(self.storage, settings.vacuum_after_h)
        #: Folder for temporary files of readers.
        self.scratch = Path(tempfile.gettempdir())
        self._tables = {
            name: StoredTable(self.storage, name, given, settings.vacuum_after_h) for name, given in columns.items()
        }

    def current(self) -> Snapshot:
        """Return the newest state."""
        release = self.releases.newest()
        if not release.version and (self.root / _EARLIER).is_dir():
            raise WarehouseOutdated(
                f"{self.root} was written by an earlier version of Tocsin, in a format that is no longer read. Delete"
                " it and run `tocsin pipeline run`: all tables are made anew from segments"
            )
        return Snapshot(release, self._tables)

    def table(self, name: str) -> StoredTable:
        """Return a table."""
        return self._tables[name]

    def commit(
        self,
        before: Snapshot,
        batch: Batch,
        files: Mapping[str, list[DataFile]],
        *,
        pending: dict[str, list[str]] | None = None,
        projects: dict[str, ProjectMark] | None = None,
        made_as: dict[str, str] | None = None,
        repairs: dict[str, Repair] | None = None,
    ) -> Snapshot:
        """Give some tables other files, and release them at once; what is not given stays as it was.

        `CommitLost` is raised if another release was written since `before`.
        """
        changed = {
            name: wanted
            for name, wanted in files.items()
            if {file.path for file in wanted} != {file.path for file in before.files(name)}
        }
        versions = {name: self._tables[name].commit(wanted) for name, wanted in changed.items()}
        return self.release(
            before, batch, versions, pending=pending, projects=projects, made_as=made_as, repairs=repairs
        )

    def release(
        self,
        before: Snapshot,
        batch: Batch,
        versions: Mapping[str, int],
        *,
        pending: dict[str, list[str]] | None = None,
        projects: dict[str, ProjectMark] | None = None,
        made_as: dict[str, str] | None = None,
        repairs: dict[str, Repair] | None = None,
    ) -> Snapshot:
        """Release versions of tables that are committed already."""
        old = before.release
        release = Release(
            tables={**old.tables, **versions},
            pending=old.pending if pending is None else pending,
            projects=old.projects if projects is None else projects,
            made_as=old.made_as if made_as is None else made_as,
            repairs=old.repairs if repairs is None else repairs,
            batch=batch,
        )
        self.releases.commit(release, old)
        for name, version in versions.items():
            self._tables[name].tidy(old.tables.get(name), version)
        return Snapshot(release, self._tables)

    def new_batch(self) -> str:
        """Return a unique name for a batch, which begins with the time."""
        return f"{time.time_ns() // 1_000_000:015d}-{secrets.token_hex(4)}"

    @contextmanager
    def writing(self, *, wait_s: float | None = None, only: str | None = None) -> Iterator[None]:
        """Hold the writer lock, and undo what a killed batch has left in the tables; with `only`, in that one.

        The operating system releases the lock when the process ends, so it needs no cleanup. It is seen by processes on
        this machine; writers on other machines are detected when they release.
        """
        self.root.mkdir(parents=True, exist_ok=True)
        deadline = None if wait_s is None else time.monotonic() + wait_s
        with (self.root / "_writer.lock").open("a") as file:
            while True:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if deadline is not None and time.monotonic() >= deadline:
                        raise WarehouseBusy(f"another run or stream is writing to {self.storage.url}") from None
                    time.sleep(_LOCK_POLL_S)
            self._recover(self._tables if only is None else [only])
            yield

    def written(self, work: Callable[[], _Result], *, wait_s: float | None = None) -> _Result:
        """Do some work under the writer lock; do it again, from the new state, if another writer commits meanwhile."""
        for _ in range(self.settings.commit_retries_max):
            try:
                with self.writing(wait_s=wait_s):
                    return work()
            except CommitLost:
                continue
        with self.writing(wait_s=wait_s):
            return work()

    def _recover(self, names: Iterable[str]) -> None:
        """Bring tables that are ahead of the newest release back to it: a batch was killed before its release."""
        state = self.current()
        for name in names:
            newest = self._tables[name].opened()
            if newest is not None and newest.version() != state.release.tables.get(name):
                self._tables[name].commit(state.files(name))

    def data_files(self) -> Iterable[str]:
        """Return the paths of all data files in the storage, whether they are part of a table or not."""
        for name in self._tables:
            for path in self.storage.listed(name):
                if "/_delta_log/" not in path:
                    yield path


def _folder_for(storage: Storage) -> Path:
    """Return a folder in the temporary directory for what belongs to a remote warehouse."""
    digest = hashlib.blake2b(storage.url.encode(), digest_size=8).hexdigest()
    return Path(tempfile.gettempdir()) / f"tocsin-warehouse-{digest}"
