"""HTTP operations on the pipeline's output: gold tables, advice, lab reports, and how far behind they are.

They read the extract that the pipeline writes beside its tables (`tocsin.extract`), in a separate thread and without
Spark. A warehouse may have many projects; only the hub's project is shown. The rows of one query are limited, because
the thread shares the processor with the bus.
"""

import asyncio
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from tocsin.core.errors import refusal
from tocsin.extract import FOLDER, Column, Index, Part, Piece, Table, read_index
from tocsin.gateways.dashboard.gold import Answer, Bucket, Question, answer
from tocsin.gateways.dashboard.reports import ReportView, reports_in
from tocsin.gateways.http.identity import may_see_everything
from tocsin.gateways.http.operation import Call, Operation
from tocsin.gateways.http.views import moment

__all__ = ["OPERATIONS"]

Day = Annotated[str, Meta(pattern=r"^\d{4}-\d{2}-\d{2}$")]


class TableView(msgspec.Struct, frozen=True):
    """A table in the extract."""

    name: str
    #: Description.
    about: str
    columns: list[Column]
    #: Rows of this project, in the table.
    rows: int
    #: First and last day; null where it is not kept by day.
    first_day: str | None
    last_day: str | None
    #: Whether rows have a message type.
    by_type: bool


class HistoryView(msgspec.Struct, frozen=True):
    """The tables, and how far behind they are."""

    #: Whether there is an extract for this project.
    available: bool
    #: Version of the tables, and when it was written.
    version: int
    written_at: str | None
    #: The last event in the tables, and when it happened.
    reached_seq: int
    reached_at: str | None
    #: The last durable event of the hub.
    seq: int
    #: Durable events that the tables do not include.
    behind_events: int
    #: Age of the last event in the tables, seconds; 0 if no event is missing, null without tables.
    behind_s: float | None
    #: Ranges of events that are missing before the last one.
    gaps: int
    #: Message types of the policy.
    message_types: list[str]
    tables: list[TableView]


class RowsQuery(msgspec.Struct, frozen=True):
    """Filter of rows, a page, and a figure over time."""

    #: First day.
    since: Day | None = None
    #: Last day.
    until: Day | None = None
    #: Only rows of this message type.
    type: Annotated[str, Meta(max_length=200)] | None = None
    #: Number of rows to skip.
    after: Annotated[int, Meta(ge=0, le=10**9)] = 0
    #: At most this many.
    limit: Annotated[int, Meta(ge=1)] = 100
    #: A numeric column to aggregate over time.
    figure: Annotated[str, Meta(max_length=100)] | None = None
    #: Aggregation: sum or maximum.
    fold: Literal["sum", "max"] = "sum"


class RowsView(msgspec.Struct, frozen=True):
    """Rows of a table."""

    table: str
    columns: list[Column]
    #: Values in the order of the columns.
    rows: list[list[Any]]
    #: Matching rows of all pages.
    total: int
    #: `after` of the next page; null on the last page.
    next: int | None
    #: Whether the range was applied: rows of some tables have no date.
    dated: bool
    #: Rows that the extract does not contain, because there were too many on one day.
    left_out: int
    #: Step of the figure: `hour` if the range is short and rows have an hour, else `day`.
    step: str
    series: list[Bucket]


class AdviceView(msgspec.Struct, frozen=True):
    """Suggested changes of the policy."""

    written_at: str | None
    advice: list[Piece]


def _may_look_back(call: Call) -> None:
    """Refuse callers who may not see everything."""
    if not may_see_everything(call.hub, call.grant):
        raise refusal("E_AUTH_003", f"{call.caller.agent} may not see all of history: a director or a human may")


async def _index(call: Call) -> tuple[Path, Index | None]:
    _may_look_back(call)
    config = call.hub.config.history
    folder = Path(config.extract) if config.extract else call.hub.data / "warehouse" / FOLDER
    try:
        return folder, await asyncio.to_thread(read_index, folder)
    except (OSError, msgspec.DecodeError):
        raise refusal("E_HUB_006", "the extract cannot be read: it may have been written by another version") from None


def _own(call: Call, table: Table) -> list[Part]:
    return [part for part in table.parts if part.project == call.hub.host.project]


async def history(call: Call) -> HistoryView:
    """List the tables, and how far behind the pipeline is."""
    _, index = await _index(call)
    project, seq = call.hub.host.project, call.hub.host.committed_seq
    reach = None if index is None else index.reach.get(project)
    types = sorted(call.hub.host.exchange.state.policy.contracts)
    if index is None or reach is None:
        return HistoryView(False, 0, None, 0, None, seq, seq, None, 0, types, [])
    behind = max(0, seq - reach.last_seq)
    behind_s = max(0.0, (call.hub.now() - reach.last_event_at) / 1_000_000) if behind else 0.0
    return HistoryView(
        available=True,
        version=index.version,
        written_at=moment(index.written_at),
        reached_seq=reach.last_seq,
        reached_at=moment(reach.last_event_at),
        seq=seq,
        behind_events=behind,
        behind_s=round(behind_s, 1),
        gaps=reach.gaps,
        message_types=types,
        tables=[_table_view(name, table, _own(call, table)) for name, table in sorted(index.tables.items())],
    )


def _table_view(name: str, table: Table, parts: list[Part]) -> TableView:
    days = sorted(part.date for part in parts if part.date is not None)
    return TableView(
        name=name,
        about=table.about,
        columns=table.columns,
        rows=sum(part.rows for part in parts),
        first_day=days[0] if days else None,
        last_day=days[-1] if days else None,
        by_type=any(column.name == "message_type" for column in table.columns),
    )


async def history_rows(call: Call) -> RowsView:
    """Read a table, filtered by days and message type, page by page."""
    name, query = call.path["table"], call.query
    for _ in range(2):  # a part that is gone belongs to an index that has been replaced
        folder, index = await _index(call)
        table = None if index is None else index.tables.get(name)
        if table is None:
            raise refusal("E_STATE_004", f"there is no table {name[:64]} in the extract", found=name[:64])
        config = call.hub.config
        question = Question(
            since=query.since,
            until=query.until,
            message_type=query.type,
            after=query.after,
            limit=min(query.limit, config.page_max),
            figure=query.figure,
            fold=query.fold,
            rows_max=config.history.rows_max,
        )
        try:
            found = await asyncio.to_thread(answer, folder, table, _own(call, table), question)
        except FileNotFoundError:
            continue
        return _rows_view(name, table, found, query.after)
    raise refusal("E_HUB_006", "the extract is being replaced", retry_after_s=1.0)


def _rows_view(name: str, table: Table, found: Answer, after: int) -> RowsView:
    reached = after + len(found.rows)
    return RowsView(
        table=name,
        columns=table.columns,
        rows=found.rows,
        total=found.total,
        next=reached if found.rows and reached < found.total else None,
        dated=found.dated,
        left_out=found.left_out,
        step=found.step,
        series=found.series,
    )


async def history_advice(call: Call) -> AdviceView:
    """Return suggested changes of the policy, with the evidence."""
    _, index = await _index(call)
    if index is None:
        return AdviceView(None, [])
    return AdviceView(moment(index.written_at), index.advice.get(call.hub.host.project, []))


async def history_reports(call: Call) -> list[ReportView]:
    """List the lab's reports, newest first."""
    _may_look_back(call)
    return await asyncio.to_thread(reports_in, call.hub)


_HERE = "/v1/history"

OPERATIONS = (
    Operation("GET", _HERE, history, HistoryView, tag="history"),
    Operation("GET", _HERE + "/tables/{table}", history_rows, RowsView, query=RowsQuery, tag="history"),
    Operation("GET", _HERE + "/advice", history_advice, AdviceView, tag="history"),
    Operation("GET", _HERE + "/reports", history_reports, list[ReportView], tag="history"),
)
