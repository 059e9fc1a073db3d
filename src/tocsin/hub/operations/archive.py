"""Handlers of the operations that read the pipeline's tables and advice, and the reports.

They read the extract that the pipeline writes beside its tables (`tocsin.extract`), in a thread, and need no Spark.
Only rows of the hub's own project are returned. The rows that one query reads are limited, because its thread shares
the processor with the bus.
"""

import asyncio
from pathlib import Path

import msgspec

from tocsin.core.errors import refusal
from tocsin.core.protocol.timestamps import as_datetime_or_none
from tocsin.extract import FOLDER, Index, Part, Table, read_index
from tocsin.hub.operations.call import Call, Handler
from tocsin.hub.reports import reports_in
from tocsin.hub.table_reader import Answer, answer
from tocsin.wire import archive as wire
from tocsin.wire.operation import NamedPage, NamedPageRequest, Request

__all__ = ["HANDLERS"]


async def _index(call: Call) -> tuple[Path, Index | None]:
    config = call.hub.config.history
    folder = Path(config.extract) if config.extract else call.hub.data / "warehouse" / FOLDER
    try:
        return folder, await asyncio.to_thread(read_index, folder)
    except (OSError, msgspec.DecodeError):
        raise refusal("E_HUB_006", "the extract cannot be read: it may be of another version") from None


def _own(call: Call, table: Table) -> list[Part]:
    return [part for part in table.parts if part.project == call.project.host.project]


async def get_archive(call: Call, request: Request) -> wire.ArchiveStatus:
    """Describe the tables and how far they are behind."""
    _, index = await _index(call)
    project, seq = call.project.host.project, call.project.host.committed_seq
    reach = None if index is None else index.reach.get(project)
    types = sorted(call.state.policy.contracts)
    if index is None or reach is None:
        return wire.ArchiveStatus(False, 0, None, 0, None, seq, seq, None, 0, types, [])
    behind = max(0, seq - reach.last_seq)
    behind_s = max(0.0, (call.project.now() - reach.last_event_at) / 1_000_000) if behind else 0.0
    return wire.ArchiveStatus(
        available=True,
        version=index.version,
        written_at=as_datetime_or_none(index.written_at),
        reached_seq=reach.last_seq,
        reached_at=as_datetime_or_none(reach.last_event_at),
        seq=seq,
        behind_events=behind,
        behind_s=round(behind_s, 1),
        gaps=reach.gaps,
        types=types,
        tables=[_table(name, table, _own(call, table)) for name, table in sorted(index.tables.items())],
    )


def _table(name: str, table: Table, parts: list[Part]) -> wire.TableRecord:
    days = sorted(part.date for part in parts if part.date is not None)
    return wire.TableRecord(
        name=name,
        about=table.about,
        columns=table.columns,
        rows=sum(part.rows for part in parts),
        first_day=days[0] if days else None,
        last_day=days[-1] if days else None,
        by_type=any(column.name == "message_type" for column in table.columns),
    )


async def read_table(call: Call, request: wire.ReadTable) -> wire.TableRows:
    """Read rows of a table."""
    name, config = request.table, call.hub.config
    request = msgspec.structs.replace(request, limit=min(request.limit, config.page_max))
    for _ in range(2):  # a file that is missing belongs to an index that has been replaced
        folder, index = await _index(call)
        table = None if index is None else index.tables.get(name)
        if table is None:
            raise refusal("E_STATE_004", f"there is no table {name[:64]} in the extract", found=name[:64])
        try:
            found = await asyncio.to_thread(answer, folder, table, _own(call, table), request, config.history.rows_max)
        except FileNotFoundError:
            continue
        return _rows(name, table, found, request.after)
    raise refusal("E_HUB_006", "the extract is being replaced", retry_after_s=1.0)


def _rows(name: str, table: Table, found: Answer, after: int) -> wire.TableRows:
    reached = after + len(found.rows)
    return wire.TableRows(
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


async def get_advice(call: Call, request: Request) -> wire.AdviceRecord:
    """Return the pipeline's advice."""
    _, index = await _index(call)
    if index is None:
        return wire.AdviceRecord(None, [])
    return wire.AdviceRecord(as_datetime_or_none(index.written_at), index.advice.get(call.project.host.project, []))


async def list_reports(call: Call, request: NamedPageRequest) -> NamedPage[wire.ReportRecord]:
    """List reports, newest first."""
    found = await asyncio.to_thread(reports_in, call.hub)
    names = [report.report for report in found]
    first = names.index(request.after) + 1 if request.after in names else 0
    page = found[first : first + min(request.limit, call.project.page_max)]
    last = bool(found) and page[-1:] == found[-1:]
    return NamedPage(page, page[-1].report if page and not last else None)


HANDLERS: dict[str, Handler] = {
    "get_archive": get_archive,
    "read_table": read_table,
    "get_advice": get_advice,
    "list_reports": list_reports,
}
