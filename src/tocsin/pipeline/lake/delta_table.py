"""A stored table as a Delta Lake table: its files at a version, and commits that change them.

Theory of operation. Tasks write Parquet files below the table's folder; they count for nothing until the driver commits
them to the table's transaction log. A commit is given the files that the table shall have. It is computed against the
newest version of the log, so it also undoes what a batch has left that was killed before its release
(`tocsin.pipeline.lake.release`). The log is written with put-if-absent, on every storage: of two writers of one version
the second gets an error. Reading the log, conflicts, checkpoints, compaction and vacuum are the library's.
"""

import json
import time
from collections.abc import Collection, Iterable, Sequence
from typing import Any
from urllib.parse import unquote

import msgspec
import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Field, PostCommitHookProperties, Schema
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction, create_table_with_add_actions

from tocsin.pipeline.errors import CommitLost, WarehouseDamaged
from tocsin.pipeline.lake.column_types import delta_field
from tocsin.pipeline.lake.data_file import DataFile
from tocsin.pipeline.lake.storage import Storage
from tocsin.pipeline.tables.schemas import Column

__all__ = ["NUMBERS", "Compacted", "StoredTable", "partition_columns"]

#: Column whose range is recorded for each file, by table. Its values are positive; that of `occurrence` is null in most
#: rows, and its range says which files hold policies.
NUMBERS = {"event": "seq", "message_life": "message", "occurrence": "policy_version"}
#: Range of a file whose log entry records none: it may hold any number.
_ANY = (0, 2**63 - 1)
#: Key of our own entry in a commit.
_OWN = "tocsin"
#: Commits after which the log gets a checkpoint.
_CHECKPOINT_COMMITS = 20
#: Checkpoints are made after a release, because a checkpoint may end the log before the version that is pinned.
_NO_HOOKS = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)


def partition_columns(table: str, columns: Iterable[Column]) -> list[str]:
    """Return the columns that a table is partitioned by; `message_life` is also split by whether a file is hot."""
    names = {column.name for column in columns}
    keys: list[str] = [name for name in ("project", "date") if name in names]
    return [*keys, "hot"] if table == "message_life" else keys


class Compacted(msgspec.Struct):
    """Result of a compaction."""

    version: int
    files_before: int
    files_after: int


class StoredTable:
    """The Delta table of one of our tables, in a folder of its name."""

    def __init__(self, storage: Storage, name: str, columns: Sequence[Column], keep_h: int) -> None:
        self._storage = storage
        self._name = name
        self._keys = partition_columns(name, columns)
        kinds = {column.name: column.type for column in columns} | ({"hot": "boolean"} if "hot" in self._keys else {})
        self._fields = [delta_field(title, kind) for title, kind in kinds.items()]
        self._schema = _schema(self._fields)
        self._uri = storage.uri(name)
        number = NUMBERS.get(name)
        self._configuration = {
            "delta.logRetentionDuration": f"interval {keep_h} hours",
            "delta.deletedFileRetentionDuration": f"interval {keep_h} hours",
            **(
                {"delta.dataSkippingNumIndexedCols": "0"}
                if number is None
                else {"delta.dataSkippingStatsColumns": number}
            ),
        }

    def opened(self, version: int | None = None) -> DeltaTable | None:
        """Return the table at a version, or at its newest; None if it does not exist."""
        try:
            return DeltaTable(self._uri, version=version)
        except TableNotFoundError as error:
            if version is not None:
                raise WarehouseDamaged(f"version {version} of {self._name} cannot be read: {error}") from None
            return None
        except DeltaError as error:
            raise WarehouseDamaged(f"the log of {self._name} cannot be read: {error}") from None

    def files(self, version: int | None = None) -> list[DataFile]:
        """Return the files of a version, or of the newest."""
        table = self.opened(version)
        return [] if table is None else self._files_of(table)

    def _files_of(self, table: DeltaTable) -> list[DataFile]:
        found = pa.table(table.get_add_actions(flatten=True))
        return [
            DataFile(
                f"{self._name}/{unquote(row['path'])}",
                row.get("partition.project") or "",
                str(row["partition.date"]) if "partition.date" in row else None,
                row["num_records"] or 0,
                row["size_bytes"],
                *self._range(row),
                bool(row.get("partition.hot", False)),
            )
            for row in found.to_pylist()
        ]

    def _range(self, row: dict[str, Any]) -> tuple[int, int]:
        """Return the range of a file's numbers by its entry in the log; zeros if it has none."""
        number = NUMBERS.get(self._name)
        low, high = row.get(f"min.{number}"), row.get(f"max.{number}")
        if low is not None and high is not None:
            return low, high
        without = number is None or row.get(f"null_count.{number}") == row["num_records"]
        return (0, 0) if without else _ANY

    def commit(
        self, wanted: Sequence[DataFile], note: str | None = None, *, expected: Collection[str] | None = None
    ) -> int:
        """Commit a new version whose files are `wanted`; return its number, the newest one's if nothing changes.

        With `expected`, it is an error if the newest version has other files than those.
        """
        table = self.opened()
        before = {} if table is None else {file.path: file for file in self._files_of(table)}
        if expected is not None and set(before) != set(expected):
            raise CommitLost(f"another writer has changed {self._name} meanwhile")
        after = {file.path: file for file in wanted}
        added = [file for path, file in after.items() if path not in before]
        removed = [file for path, file in before.items() if path not in after]
        self._storage.sync(file.path for file in added)
        commit: dict[str, Any] = {
            "commit_properties": CommitProperties(
                max_commit_retries=0, custom_metadata=None if note is None else {_OWN: note}
            ),
            "post_commithook_properties": _NO_HOOKS,
        }
        try:
            version = self._committed(table, added, removed, keeps=len(after) > len(added), commit=commit)
        except CommitFailedError as error:
            raise CommitLost(f"another writer has changed {self._name} meanwhile: {error}") from None
        self._storage.sync([f"{self._name}/_delta_log/{version:020d}.json"])
        return version

    def _committed(
        self,
        table: DeltaTable | None,
        added: list[DataFile],
        removed: list[DataFile],
        *,
        keeps: bool,
        commit: dict[str, Any],
    ) -> int:
        actions: list[Any] = [self._addition(file) for file in added]
        if table is None:
            try:
                create_table_with_add_actions(
                    self._uri,
                    self._schema,
                    actions,
                    mode="error",
                    partition_by=self._keys,
                    name=self._name,
                    configuration=self._configuration,
                    **commit,
                )
            except DeltaError as error:
                if "already exists" in str(error):
                    raise CommitFailedError(str(error)) from None
                raise
            return 0
        mode = self._fitting(table, keeps=keeps, commit=commit)
        if mode == "append":
            if not added and not removed:
                return table.version()
            actions += [self._removal(file) for file in removed]
        table.create_write_transaction(actions, mode, self._schema, self._keys, **commit)
        return table.version() + 1

    def _fitting(self, table: DeltaTable, *, keeps: bool, commit: dict[str, Any]) -> str:
        """Give the table its columns; return the mode in which files are committed.

        Columns that are new are added. A table that gets all files anew is overwritten, with its new columns.
        """
        known = {field["name"]: field["type"] for field in json.loads(table.schema().to_json())["fields"]}
        wanted = {field["name"]: field["type"] for field in self._fields}
        if known == wanted:
            return "append"
        if not keeps:
            return "overwrite"
        changed = [name for name, kind in wanted.items() if known.get(name, kind) != kind]
        if changed:
            raise WarehouseDamaged(
                f"column {changed[0]} of {self._name} has another type than in this version of Tocsin:"
                " delete the warehouse and run again, which makes it anew from segments"
            )
        missing = [Field.from_json(json.dumps(field)) for field in self._fields if field["name"] not in known]
        if missing:
            table.alter.add_columns(missing, **commit)
            table.update_incremental()
        return "append"

    def _addition(self, file: DataFile) -> AddAction:
        number = NUMBERS.get(self._name)
        stats: dict[str, Any] = {"numRecords": file.rows}
        if number is not None and file.high == 0:
            stats["nullCount"] = {number: file.rows}
        elif number is not None and file.high < _ANY[1]:
            stats |= {"minValues": {number: file.low}, "maxValues": {number: file.high}}
        return AddAction(self._path(file), file.bytes, self._values(file), _now_ms(), True, json.dumps(stats))

    def _removal(self, file: DataFile) -> RemoveAction:
        return RemoveAction(self._path(file), True, _now_ms(), file.bytes, self._values(file))

    def _path(self, file: DataFile) -> str:
        return file.path.removeprefix(f"{self._name}/")

    def _values(self, file: DataFile) -> dict[str, str | None]:
        values = {"project": file.project, "date": file.date, "hot": str(file.hot).lower()}
        return {key: values[key] for key in self._keys}

    def tidy(self, before: int | None, after: int) -> None:
        """Remove expired versions from the log and write a checkpoint, every so many commits."""
        if before is None or before // _CHECKPOINT_COMMITS == after // _CHECKPOINT_COMMITS:
            return
        table = self.opened(after)
        if table is not None:
            # Before the checkpoint, so that the versions since the last one can still be read.
            table.cleanup_metadata()
            table.create_checkpoint()

    def compact(self, bytes_max: int, memory_max: int) -> Compacted | None:
        """Merge small files inside each partition to files of about `bytes_max`; None if there are none to merge."""
        table = self.opened()
        if table is None:
            return None
        try:
            made = table.optimize.compact(
                target_size=bytes_max,
                max_spill_size=memory_max,
                max_concurrent_tasks=1,
                commit_properties=CommitProperties(max_commit_retries=0),
                post_commithook_properties=_NO_HOOKS,
            )
        except CommitFailedError as error:
            raise CommitLost(f"another writer has changed {self._name} meanwhile: {error}") from None
        if not made["numFilesRemoved"]:
            return None
        return Compacted(table.version(), made["numFilesRemoved"], made["numFilesAdded"])

    def vacuum(self, keep_h: int, pinned: list[int]) -> list[str]:
        """Delete files that no version of the last `keep_h` hours has; return their paths."""
        table = self.opened()
        if table is None:
            return []
        return table.vacuum(
            keep_h,
            dry_run=False,
            enforce_retention_duration=False,
            full=True,
            keep_versions=pinned,
            commit_properties=CommitProperties(max_commit_retries=0),
            post_commithook_properties=_NO_HOOKS,
        )

    def notes(self, count: int) -> list[str]:
        """Return the notes of the last commits, newest first."""
        table = self.opened()
        return [] if table is None else [entry[_OWN] for entry in table.history(count) if _OWN in entry]


def _schema(fields: list[dict[str, Any]]) -> Schema:
    return Schema.from_json(json.dumps({"type": "struct", "fields": fields}))


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
