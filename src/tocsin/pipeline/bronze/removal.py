"""Removal of rows from bronze: what an earlier read of a segment has left in `event` and `quarantine`."""

from collections.abc import Collection

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tocsin.pipeline.bronze.event_files import write_row_groups
from tocsin.pipeline.lake.data_file import DataFile
from tocsin.pipeline.lake.intervals import Interval, intervals_of, overlap
from tocsin.pipeline.lake.parquet_writer import new_path, write_arrow
from tocsin.pipeline.lake.storage import Storage
from tocsin.pipeline.lake.warehouse import Warehouse

__all__ = ["Remaining", "Removal", "remove_events", "without_segments"]

#: Messages with closer numbers are recorded as one interval: some more are folded again, and the record stays small.
_GAP = 10_000


class Removal(msgspec.Struct, frozen=True):
    """A file of `event` for a task, and the sequence numbers to remove from it."""

    #: Path or URL of the warehouse.
    warehouse: str
    file: DataFile
    seqs: list[Interval]


class Remaining(msgspec.Struct):
    """The file that takes the place of another."""

    #: Path of the file that it replaces.
    path: str
    #: The new file; empty if no rows are left, the old one if none were removed.
    files: list[DataFile] = []
    #: Numbers of the messages that removed events are about; the intervals may hold others as well.
    messages: list[Interval] = []


def remove_events(task: Removal) -> Remaining:
    """Write a file of `event` without some sequence numbers."""
    storage, file = Storage(task.warehouse), task.file
    with storage.open(file.path) as content:
        table = pq.read_table(content)
    gone = overlap(table["seq"].to_numpy(), task.seqs)
    if not gone.any():
        return Remaining(file.path, [file])
    messages = _messages_of(table.filter(pa.array(gone)))
    table = table.filter(pa.array(~gone))
    if not table.num_rows:
        return Remaining(file.path, [], messages)
    seqs = table["seq"].to_numpy()
    order = pc.unique(table["kind"]).to_pylist()
    tables = [table.filter(pc.equal(table["kind"], kind)) for kind in order]
    path = new_path("event", {"project": file.project, "date": file.date})
    write_row_groups(storage, path, table.schema, tables)
    left = DataFile(
        path, file.project, file.date, table.num_rows, storage.size(path) or 0, int(np.min(seqs)), int(np.max(seqs))
    )
    return Remaining(file.path, [left], messages)


def _messages_of(events: pa.Table) -> list[Interval]:
    """Return the messages that some events accept, or refer to."""
    numbers = [events["seq"].filter(pc.equal(events["kind"], "MessageAccepted"))]
    if "message" in events.schema.names:
        numbers.append(events["message"].drop_null())
    return intervals_of(np.concatenate([found.to_numpy() for found in numbers]), _GAP)


def without_segments(warehouse: Warehouse, files: list[DataFile], names: Collection[str]) -> list[DataFile]:
    """Return the files of `quarantine` without the lines of some segments."""
    projects = {name.split("/", 1)[0].removeprefix("project=") for name in names}
    left = []
    for file in files:
        if file.project not in projects:
            left.append(file)
            continue
        with warehouse.storage.open(file.path) as content:
            table = pq.read_table(content)
        kept = table.filter(pc.invert(pc.is_in(table["file"], pa.array(sorted(names)))))
        if kept.num_rows == table.num_rows:
            left.append(file)
        elif kept.num_rows:
            path = new_path("quarantine", {"project": file.project})
            size = write_arrow(warehouse.storage, path, kept)
            left.append(DataFile(path, file.project, None, kept.num_rows, size))
    return left
