"""Operations that read the pipeline's tables and advice, and the reports of pipeline and lab."""

from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from tocsin.core.commands.base import TypeFilter
from tocsin.extract import Column, Piece
from tocsin.wire.operation import NO_REQUEST, Access, Limit, NamedPage, NamedPageRequest, Operation, Request, Where

__all__ = [
    "OPERATIONS",
    "AdviceRecord",
    "ArchiveStatus",
    "ReadTable",
    "ReportRecord",
    "TableBucket",
    "TableRecord",
    "TableRows",
]

_Day = Annotated[str, Meta(pattern=r"^\d{4}-\d{2}-\d{2}$")]


class TableRecord(msgspec.Struct, frozen=True):
    """A table with an extract."""

    name: str
    #: What it shows.
    about: str
    columns: list[Column]
    #: Number of rows of this project.
    rows: int
    #: First day; null if it is not partitioned by day.
    first_day: str | None
    last_day: str | None
    #: Whether its rows have a message type.
    by_type: bool


class ArchiveStatus(msgspec.Struct, frozen=True):
    """Tables that exist, and how far they are behind."""

    #: Whether the pipeline has written an extract for this project.
    available: bool
    #: Version of the tables.
    version: int
    written_at: datetime | None
    #: Sequence number of the last event in the tables.
    reached_seq: int
    reached_at: datetime | None
    #: Sequence number of the last durable event of the hub.
    seq: int
    #: Durable events that are not in the tables.
    behind_events: int
    #: Age of the last event in the tables, seconds; 0 if nothing is missing; null before there are tables.
    behind_s: float | None
    #: Ranges of events that are missing below the last.
    gaps: int
    #: Message types of the policy.
    types: list[str]
    tables: list[TableRecord]


class ReadTable(Request, frozen=True, kw_only=True):
    """Read rows of a pipeline table: some days, one message type, page by page."""

    table: Annotated[str, Meta(min_length=1, max_length=100, description="Name of the table.")]
    since: Annotated[_Day | None, Meta(description="First day, YYYY-MM-DD.")] = None
    until: Annotated[_Day | None, Meta(description="Last day, YYYY-MM-DD.")] = None
    type: Annotated[TypeFilter | None, Meta(description="Only rows of this message type.")] = None
    after: Annotated[int, Meta(ge=0, le=10**9, description="Number of rows to skip.")] = 0
    limit: Limit = 100
    figure: Annotated[
        Annotated[str, Meta(max_length=100)] | None, Meta(description="A numeric column to aggregate over time.")
    ] = None
    fold: Annotated[Literal["sum", "max"], Meta(description="How to aggregate it.")] = "sum"


class TableBucket(msgspec.Struct, frozen=True):
    """A figure at one time."""

    #: A day, an hour as `2026-03-02T09`, or a minute as `2026-03-02T09:41`; UTC.
    at: str
    value: float


class TableRows(msgspec.Struct, frozen=True):
    """Rows of a table."""

    table: str
    columns: list[Column]
    #: Values in the order of the columns.
    rows: list[list[Any]]
    #: Number of matching rows on all pages.
    total: int
    #: `after` of the next page; null on the last page.
    next: int | None
    #: Whether the date range was applied; rows of some tables have no day.
    dated: bool
    #: Rows that the extract leaves out because a day has too many.
    left_out: int
    #: Step of the series: `minute`, `hour` or `day`, by the time that its rows cover.
    step: str
    series: list[TableBucket]


class AdviceRecord(msgspec.Struct, frozen=True):
    """Advice on the policy."""

    written_at: datetime | None
    advice: list[Piece]


class ReportRecord(msgspec.Struct, frozen=True):
    """A report of the pipeline or the lab."""

    report: str
    title: str
    #: `report` of the pipeline, or the kind of study.
    kind: str
    made_at: str
    bytes: int
    #: URL path of its page.
    path: str


OPERATIONS = (
    Operation(
        name="get_archive",
        summary="Show which tables of the pipeline exist and how far they are behind.",
        request=NO_REQUEST,
        reply=ArchiveStatus,
        http="GET /v1/history",
        tag="archive",
        access=Access.OVERSEER,
        where=Where.HUB,
    ),
    Operation(
        name="read_table",
        request=ReadTable,
        reply=TableRows,
        http="GET /v1/history/tables/{table}",
        tag="archive",
        access=Access.OVERSEER,
        where=Where.HUB,
    ),
    Operation(
        name="get_advice",
        summary="Show the pipeline's advice on the policy, with its evidence.",
        request=NO_REQUEST,
        reply=AdviceRecord,
        http="GET /v1/history/advice",
        tag="archive",
        access=Access.OVERSEER,
        where=Where.HUB,
    ),
    Operation(
        name="list_reports",
        summary="List the reports of the pipeline and the lab, newest first.",
        request=NamedPageRequest,
        reply=NamedPage[ReportRecord],
        http="GET /v1/history/reports",
        tag="archive",
        access=Access.OVERSEER,
        where=Where.HUB,
    ),
)
