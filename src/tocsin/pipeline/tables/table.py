"""Declarations of tables and views.

Theory of operation. A *source* is written by the engine itself: bronze, and `message_life`. A *table* is made from
them by SQL inside Spark's tasks and is stored. A *view* is SQL over tables and other views that is run when somebody
reads it. All SQL is DuckDB's and names its inputs as relations: `event`, `message_life`, `message` (the rows of
`message_life` whose acceptance is known; others have a gap in the journal), tables and views.

To add a view: write a module with its columns and SQL, and add it to `VIEWS` of its layer (`tocsin.pipeline.silver`,
`tocsin.pipeline.views`), after the views that it reads.
"""

import msgspec

from tocsin.pipeline.tables.schemas import Column

__all__ = ["Balance", "Source", "Table", "View"]


class Balance(msgspec.Struct, frozen=True):
    """A sum over a view that must equal the number of some rows; `tocsin pipeline verify` reports if it does not.

    Days that the counted relation no longer has are left out, because a view may be kept for longer than its source.
    """

    #: Column of the view that is summed.
    column: str
    #: Relation whose rows are counted.
    counted: str
    #: Condition on those rows.
    where: str = "true"


class Source(msgspec.Struct, frozen=True):
    """A table that is written by the engine, not by SQL of its own."""

    name: str
    layer: str
    about: str
    columns: tuple[Column, ...]


class Table(msgspec.Struct, frozen=True):
    """A stored table that is made by SQL in tasks, partitioned by project and day."""

    name: str
    #: `silver` or `facts`.
    layer: str
    #: Description of its contents, in a sentence or two.
    about: str
    columns: tuple[Column, ...]
    #: Sources, tables and views that the query reads.
    reads: tuple[str, ...]
    #: Query that returns exactly `columns`, in order.
    sql: str


class View(msgspec.Struct, frozen=True):
    """A query with a name and declared columns."""

    name: str
    #: `silver` or `gold`.
    layer: str
    about: str
    columns: tuple[Column, ...]
    #: Tables and views that the query reads.
    reads: tuple[str, ...]
    #: Query that returns exactly `columns`, in order.
    sql: str
    balance: Balance | None = None
    #: Whether the rows of a day depend on that day of its inputs only; otherwise on all of the project.
    by_day: bool = True
