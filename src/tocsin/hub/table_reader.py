"""Queries on one pipeline table, read from its extract: a page of rows, and a figure over time.

A query reads the rows of its range once and keeps one page. Columns are known by name and type only.
"""

from collections.abc import Iterator
from datetime import date, datetime
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec

from tocsin.core.errors import refusal
from tocsin.extract import Part, Table, read_rows
from tocsin.wire.archive import ReadTable, TableBucket

__all__ = ["Answer", "answer"]

#: Columns with the time of a row, the finest first.
_MOMENTS = ("minute", "hour", "window_start", "began_at", "found_at", "changed_at")
_NUMBERS = frozenset({"int", "bigint", "double"})
#: Ranges of fewer days are shown by the hour.
_HOURLY_DAYS = 3
#: Rows that cover less time are shown by the minute.
_BY_MINUTE_S = 3 * 3600
Step: TypeAlias = Literal["minute", "hour", "day"]
#: Characters of a time that name its bucket.
_LENGTHS: dict[Step, int] = {"minute": len("2026-03-02T09:41"), "hour": len("2026-03-02T09"), "day": len("2026-03-02")}


class Answer(msgspec.Struct, frozen=True):
    """Result of a query."""

    rows: list[list[Any]]
    total: int
    dated: bool
    left_out: int
    step: Step
    series: list[TableBucket]


def answer(folder: Path, table: Table, parts: list[Part], request: ReadTable, rows_max: int) -> Answer:
    """Run a query on a table."""
    place = {column.name: number for number, column in enumerate(table.columns)}
    kinds = {column.name: column.type for column in table.columns}
    if request.type is not None and "message_type" not in place:
        raise refusal("E_VALIDATION_004", "rows of this table have no message type", field="type")
    if request.figure is not None and kinds.get(request.figure) not in _NUMBERS:
        raise refusal(
            "E_VALIDATION_003", f"{request.figure[:64]!r} is not a numeric column of this table", field="figure"
        )
    _check_days(request)
    timed = next((place[name] for name in _MOMENTS if name in place), place.get("date"))
    wanted = [part for part in parts if part.date is None or _within(part.date, request)]
    if sum(part.kept for part in wanted) > rows_max:
        detail = f"the range has more than {rows_max:,} rows: choose fewer days"
        raise refusal("E_ADMISSION_008", detail, expected="a shorter range", retryable=False)
    rows: list[list[Any]] = []
    total, sums = 0, dict[str, float]()
    finest: Step = "minute" if _is_short(wanted, request) and _has_hours(place) else "day"
    figure = None if request.figure is None else place[request.figure]
    for row in _rows(folder, wanted, request, timed, place.get("message_type")):
        if request.after <= total < request.after + request.limit:
            rows.append(row)
        total += 1
        if figure is not None and timed is not None and row[figure] is not None and row[timed] is not None:
            _add(sums, row[timed][: _LENGTHS[finest]], row[figure], request.fold)
    step: Step = "hour" if finest == "minute" and not _is_within_hours(sums) else finest
    folded: dict[str, float] = {}
    for at, value in sums.items():
        _add(folded, at[: _LENGTHS[step]], value, request.fold)
    series = [TableBucket(at, folded[at]) for at in sorted(folded)]
    left_out = sum(part.rows - part.kept for part in wanted)
    return Answer(rows, total, timed is not None, left_out, step, series)


def _add(sums: dict[str, float], at: str, value: float, fold: Literal["sum", "max"]) -> None:
    known = sums.get(at)
    sums[at] = value if known is None else known + value if fold == "sum" else max(known, value)


def _is_within_hours(sums: dict[str, float]) -> bool:
    """Tell whether times by the minute are worth showing: they cover little time, and are not whole hours only."""
    if not sums or all(at.endswith(":00") for at in sums):
        return False
    covered = datetime.fromisoformat(max(sums)) - datetime.fromisoformat(min(sums))
    return covered.total_seconds() < _BY_MINUTE_S


def _rows(
    folder: Path, parts: list[Part], request: ReadTable, timed: int | None, typed: int | None
) -> Iterator[list[Any]]:
    """Yield the rows that match."""
    for part in parts:
        for row in read_rows(folder, part):
            if request.type is not None and row[typed or 0] != request.type:
                continue
            if part.date is None and timed is not None and not _within(str(row[timed])[:10], request):
                continue
            yield row


def _within(day: str, request: ReadTable) -> bool:
    return (request.since or "") <= day <= (request.until or "9999")


def _check_days(request: ReadTable) -> None:
    for name, day in (("since", request.since), ("until", request.until)):
        try:
            _ = day and date.fromisoformat(day)
        except ValueError:
            raise refusal("E_VALIDATION_004", f"{day} is not a date", field=name, expected="YYYY-MM-DD") from None


def _has_hours(place: dict[str, int]) -> bool:
    return any(name in place for name in _MOMENTS)


def _is_short(parts: list[Part], request: ReadTable) -> bool:
    """Tell whether the range has few days."""
    days = sorted(part.date for part in parts if part.date is not None)
    first, last = request.since or (days[0] if days else None), request.until or (days[-1] if days else None)
    if first is None or last is None:
        return False
    return (date.fromisoformat(last) - date.fromisoformat(first)).days < _HOURLY_DAYS
