"""The extract: gold tables and advice as plain files, for whoever has no Spark. Its format, and how it is read.

Theory of operation. The pipeline writes it beside its tables after a refresh (`tocsin.pipeline.jobs.extract_writer`); the hub
reads it. A part of a table, which is one project's day or one project, is a compressed file of JSON lines, each an
array of values in the order of the table's columns. Its name is a digest of what it was made from, so a file never
changes, and a part that has not changed is not written again. `index.json` names the parts and is replaced whole. A
reader that finds a part gone has an old index, and reads the new one.

Nothing here knows how tables are made, and nothing but files of the extract is read.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from tocsin import zstd

__all__ = [
    "FOLDER",
    "INDEX",
    "Column",
    "Evidence",
    "Index",
    "Part",
    "Piece",
    "Reach",
    "Table",
    "read_index",
    "read_rows",
]

#: Where it is, below the warehouse.
FOLDER = "_extract"
INDEX = "index.json"


class Column(msgspec.Struct, frozen=True):
    """A column of a table."""

    name: str
    type: str
    about: str


class Part(msgspec.Struct, frozen=True):
    """One project's one day of a table, or all of one project."""

    project: str
    #: The day, where the table is kept by day.
    date: str | None
    #: Name of the file.
    file: str
    #: Rows that the table has.
    rows: int
    #: Rows that the file has: the first so many, where there are too many.
    kept: int


class Table(msgspec.Struct, frozen=True):
    """One table."""

    about: str
    columns: list[Column]
    parts: list[Part]


class Reach(msgspec.Struct, frozen=True):
    """How far a project's tables go."""

    #: The last event that is in them.
    last_seq: int
    #: When it happened, microseconds since the epoch.
    last_event_at: int
    #: Ranges of events that are missing below it.
    gaps: int


class Evidence(msgspec.Struct, frozen=True):
    """A figure, and where it can be looked up."""

    #: The gold table.
    table: str
    #: What of it, with how it was chosen.
    figure: str
    value: float
    #: How many rows of history it stands on.
    count: int


class Piece(msgspec.Struct, frozen=True):
    """A piece of advice."""

    #: The rule that gives it.
    rule: str
    #: What it is about: a type, a priority, an agent, a quota.
    subject: str
    #: The finding and the remedy, in a sentence or two.
    text: str
    evidence: list[Evidence]
    #: The change, as YAML to lay over the project's `tocsin.yaml`.
    patch: str


class Index(msgspec.Struct, frozen=True):
    """What the extract consists of."""

    #: The state of the warehouse that it was made from, and when that was committed, microseconds since the epoch.
    version: int
    written_at: int
    tables: dict[str, Table]
    #: By project.
    reach: dict[str, Reach]
    advice: dict[str, list[Piece]]


def read_index(folder: Path) -> Index | None:
    """Read the index; nothing where there is no extract. One that cannot be read is a `msgspec.DecodeError`."""
    try:
        raw = (folder / INDEX).read_bytes()
    except FileNotFoundError:
        return None
    return msgspec.json.decode(raw, type=Index)


def read_rows(folder: Path, part: Part) -> Iterator[list[Any]]:
    """Read the rows of a part, one by one."""
    decode = msgspec.json.Decoder(list[Any]).decode
    with zstd.open(folder / Path(part.file).name) as lines:
        for line in lines:
            yield decode(line)
