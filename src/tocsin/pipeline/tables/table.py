"""What a derived table is: what it is made of, by which transform, and which of its partitions new events touch.

Theory of operation. A table is kept per project, or per project and day. When new events arrive, the engine works out
which days of `event` and `message_life` they changed, then goes through the tables in the order of this list. A table
kept by day is made anew for the days that changed in any input that it reads *by day*; a table kept by project is made
anew for each project in which any input changed. What is made anew replaces what was there, in the same commit as its
inputs, so doing it again changes nothing. `Reach` says how much of each input the transform is given. A table that is
new, or whose columns have changed, is made for everything there is. Messages whose acceptance is not known (there is a
gap in the journal) are not shown to transforms.

To add a table: write a transform `(*inputs) -> DataFrame` that selects exactly `columns`, and add a `Table` to `TABLES`
of its layer (`tocsin.pipeline.silver`, `tocsin.pipeline.gold`), after the tables that it reads.
"""

from collections.abc import Callable
from enum import StrEnum

import msgspec
from pyspark.sql import DataFrame

from tocsin.pipeline.tables.schemas import Column

__all__ = ["Grain", "Input", "Reach", "Source", "Table"]


class Grain(StrEnum):
    """What is made anew at a time; also how the table is partitioned."""

    #: One project's one day: columns `project` and `date`.
    DAY = "day"
    #: One project: column `project`. For what is small, or does not fall into days.
    PROJECT = "project"


class Reach(StrEnum):
    """How much of an input the transform of a table sees."""

    #: The days being made anew, and nothing else. A change in such an input touches the same day of the table.
    DAY = "day"
    #: Of `message_life`, every message whose life overlaps the days being made anew, and perhaps more; of `event`, all
    #: that happened to those messages from the first day of any of them. New events touch their own day of the table
    #: and all days after it: what they say may change how later ones are to be understood.
    ALIVE = "alive"
    #: All of the project. In a table kept by project, a change in it touches the project.
    PROJECT = "project"


class Input(msgspec.Struct, frozen=True):
    """One input of a table."""

    #: `event`, `message_life`, or a derived table before this one.
    table: str
    reach: Reach = Reach.DAY
    #: Of `event`: the kinds that matter; none is all. Others are left out before the transform, and touch nothing.
    kinds: tuple[str, ...] = ()
    #: Of an input that a table kept by day reads whole: whether a change in it touches all days of its project, because
    #: days are judged by what it tells. Such a change should be rare.
    touches_all: bool = False


class Table(msgspec.Struct, frozen=True):
    """A derived table."""

    name: str
    #: `silver` or `gold`.
    layer: str
    #: What it tells, in a sentence or two.
    about: str
    columns: tuple[Column, ...]
    grain: Grain
    inputs: tuple[Input, ...]
    #: Takes one frame per input, in their order, and returns the rows of the days or projects being made anew. For a
    #: table by day, rows of other days are dropped by the engine: a transform need not care.
    transform: Callable[..., DataFrame]
    #: Takes this table and then its inputs, all of them whole, and returns rows of `what` (string), `expected` and
    #: `found` (bigint): sums that must agree. `tocsin pipeline verify` shows those that do not.
    balance: Callable[..., DataFrame] | None = None


class Source(msgspec.Struct, frozen=True):
    """A table that the engine itself keeps."""

    name: str
    layer: str
    about: str
    columns: tuple[Column, ...]
