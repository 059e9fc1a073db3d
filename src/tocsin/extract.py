"""Format and reader of the extract: gold tables and advice as plain files, for readers without Spark.

Theory of operation. The pipeline writes the extract beside its tables after a refresh
(`tocsin.pipeline.jobs.extract_writer`); the hub reads it. A part of a table, which is one project and day or one
project, is a compressed file of JSON lines, each an array of values in the order of the table's columns. Its name is a
digest of its source files, so a file never changes, and an unchanged part is not written again. `index.json` names the
parts and is replaced atomically. A reader that finds a part missing has an old index and reads the new one.
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

#: Folder of the extract, below the warehouse.
FOLDER = "_extract"
#: Name of the index file in it.
INDEX = "index.json"


class Column(msgspec.Struct, frozen=True):
    """A column of a table."""

    name: str
    #: Type, as in the reference of the tables.
    type: str
    #: Description.
    about: str


class Part(msgspec.Struct, frozen=True):
    """One project and day of a table, or one project."""

    project: str
    #: The day, if the table is partitioned by day.
    date: str | None
    #: File name.
    file: str
    #: Number of rows in the table.
    rows: int
    #: Number of rows in the file; fewer than `rows` if the limit was reached.
    kept: int


class Table(msgspec.Struct, frozen=True):
    """One table."""

    about: str
    columns: list[Column]
    parts: list[Part]


class Reach(msgspec.Struct, frozen=True):
    """Progress of a project's tables."""

    #: Sequence number of the last event in them.
    last_seq: int
    #: Time of that event, microseconds since the epoch.
    last_event_at: int
    #: Number of gaps in the sequence numbers before it.
    gaps: int


class Evidence(msgspec.Struct, frozen=True):
    """A figure, and the table that it comes from."""

    #: The gold table.
    table: str
    #: Column and selection of the figure.
    figure: str
    value: float
    #: Number of messages, latencies or agents that it is based on.
    count: int


class Piece(msgspec.Struct, frozen=True):
    """One recommended change of the policy."""

    #: Name of the rule.
    rule: str
    #: Subject: a message type, a priority, an agent or a quota.
    subject: str
    #: Finding and recommendation, in a sentence or two.
    text: str
    evidence: list[Evidence]
    #: The change, as YAML to merge into the project's `tocsin.yaml`.
    patch: str
    #: Effect of the change in a replay of the same history, in a sentence.
    verdict: str = ""


class Index(msgspec.Struct, frozen=True):
    """The parts of the extract."""

    #: Version of the warehouse that it was made from.
    version: int
    #: Time of that version's commit, microseconds since the epoch.
    written_at: int
    #: Gold tables by name.
    tables: dict[str, Table]
    #: Progress by project.
    reach: dict[str, Reach]
    #: Advice by project.
    advice: dict[str, list[Piece]]
    #: Names that parts without rows would have.
    empty: list[str] = []


def read_index(folder: Path) -> Index | None:
    """Read the index; return None if there is no extract. An invalid index raises `msgspec.DecodeError`."""
    try:
        raw = (folder / INDEX).read_bytes()
    except FileNotFoundError:
        return None
    return msgspec.json.decode(raw, type=Index)


def read_rows(folder: Path, part: Part) -> Iterator[list[Any]]:
    """Yield the rows of a part."""
    decode = msgspec.json.Decoder(list[Any]).decode
    with zstd.open(folder / Path(part.file).name) as lines:
        for line in lines:
            yield decode(line)
