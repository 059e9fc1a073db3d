"""Declarations of derived tables: inputs, transform, and which partitions new events change.

Theory of operation. A table is partitioned by project, or by project and day. When new events arrive, the refresh job
works out which days of `event` and `message_life` they changed, then goes through the tables in the order of the
catalogue. A table by day is recomputed for the days that changed in any input that it reads *by day*; a table by
project is recomputed for each project in which any input changed. The result replaces the old partition, in the same
commit as its inputs, so that a second run changes nothing. `Reach` defines how much of each input the transform is
given. A table that is new, or whose definition has changed, is computed for all partitions. Messages whose acceptance
is missing (there is a gap in the journal) are not passed to transforms.

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
    """Partitioning of a table; a partition is recomputed as a whole."""

    #: One project and day: columns `project` and `date`.
    DAY = "day"
    #: One project: column `project`. For tables that are small, or whose rows span days.
    PROJECT = "project"


class Reach(StrEnum):
    """How much of an input the transform of a table is given."""

    #: Only the days being recomputed. A change in the input changes the same day of the table.
    DAY = "day"
    #: Of `message_life`, every message that was open at some time of the days being recomputed, and possibly more; of
    #: `event`, all events of those messages. New events change their own day of the table and all days after it,
    #: because the state of a message on a later day depends on them.
    ALIVE = "alive"
    #: All of the project. In a table by project, a change in the input changes the project's partition.
    PROJECT = "project"


class Input(msgspec.Struct, frozen=True):
    """One input of a table."""

    #: `event`, `message_life`, or a derived table that comes before this one.
    table: str
    reach: Reach = Reach.DAY
    #: Of `event`: the kinds that the transform needs; empty for all. Events of other kinds cause no recomputation.
    kinds: tuple[str, ...] = ()
    #: Whether a change in an input with `Reach.PROJECT` recomputes all days of a table by day. Such a change should be
    #: rare, for example a new policy.
    touches_all: bool = False


class Table(msgspec.Struct, frozen=True):
    """A derived table."""

    name: str
    #: `silver` or `gold`.
    layer: str
    #: Description of its contents, in a sentence or two.
    about: str
    columns: tuple[Column, ...]
    grain: Grain
    inputs: tuple[Input, ...]
    #: Takes one frame per input, in order, and returns the rows of the partitions being recomputed. Rows of other
    #: partitions may be returned; they are dropped.
    transform: Callable[..., DataFrame]
    #: Takes this table and its inputs, all of them whole, and returns rows of `what` (string), `expected` and `found`
    #: (bigint): sums that must be equal. `tocsin pipeline verify` reports those that are not.
    balance: Callable[..., DataFrame] | None = None


class Source(msgspec.Struct, frozen=True):
    """A table that is written by the engine, not by a transform."""

    name: str
    layer: str
    about: str
    columns: tuple[Column, ...]
