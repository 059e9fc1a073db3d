"""Pages of lists that are read from the live state, without holding the event loop.

Theory of operation. A list is examined in turns of at most `rows_per_turn` rows; between two turns the event loop
serves others. One list of a project is read at a time, so that the bound holds no matter how many callers ask for
lists. Between two turns the state may change: a page shows each row as it is when the row's turn comes, and a row that
is removed meanwhile may still be on it.

A page continues after the key of the last row of the page before. Keys do not change while a row exists, so that no row
that exists all the time is left out or listed twice.
"""

import asyncio
import heapq
from collections.abc import AsyncIterator, Callable, Iterable
from typing import TypeVar

from tocsin.core.errors import refusal
from tocsin.hub.operations.call import Call
from tocsin.wire.operation import NamedPage, NamedPageRequest

__all__ = ["CLOSED", "Key", "in_turns", "live_page", "page_rows"]

Row = TypeVar("Row")
Record = TypeVar("Record")

#: Place of a row in its list: a number, such as a time, and a name that makes it unique.
Key = tuple[int, str]
#: Added to the number of rows that come after all others.
CLOSED = 1 << 62


async def in_turns(call: Call, rows: Iterable[Row]) -> AsyncIterator[Row]:
    """Yield rows; let the event loop serve others after each turn's number of rows."""
    # A copy, because the state may change between two turns.
    for number, row in enumerate(list(rows), 1):
        yield row
        if number % call.project.rows_per_turn == 0:
            await asyncio.sleep(0)
    await asyncio.sleep(0)


async def page_rows(
    call: Call,
    request: NamedPageRequest,
    rows: Iterable[Row],
    key: Callable[[Row], Key],
    seen: Callable[[Row], bool] | None = None,
) -> tuple[list[Row], str | None]:
    """Return the rows of a page, of those that the caller may see, and the cursor of the next page."""
    limit, after = min(request.limit, call.project.page_max), _read(request.after)
    best: list[tuple[Key, Row]] = []
    turn: list[tuple[Key, Row]] = []
    async with call.project.listing:
        async for row in in_turns(call, rows):
            place = key(row)
            if (after is None or place > after) and (seen is None or seen(row)):
                turn.append((place, row))
                if len(turn) >= call.project.rows_per_turn:
                    best, turn = _first(limit + 1, best, turn), []
        best = _first(limit + 1, best, turn)
    following = _written(best[limit - 1][0]) if len(best) > limit else None
    return [row for _, row in best[:limit]], following


async def live_page(
    call: Call,
    request: NamedPageRequest,
    rows: Iterable[Row],
    key: Callable[[Row], Key],
    record: Callable[[Row], Record],
    seen: Callable[[Row], bool] | None = None,
) -> NamedPage[Record]:
    """Return a page of records, once everything that they show is durable."""
    found, following = await page_rows(call, request, rows, key, seen)
    async with call.project.listing:
        items = [record(row) async for row in in_turns(call, found)]
    await call.durable()
    return NamedPage(items, following)


def _first(count: int, best: list[tuple[Key, Row]], turn: list[tuple[Key, Row]]) -> list[tuple[Key, Row]]:
    return heapq.nsmallest(count, best + turn, key=lambda item: item[0])


def _written(key: Key) -> str:
    return f"{key[0]}:{key[1]}" if key[0] or ":" in key[1] else key[1]


def _read(cursor: str) -> Key | None:
    """Return the key that a cursor names; a cursor without a number is a name."""
    if not cursor:
        return None
    number, colon, name = cursor.partition(":")
    if not colon:
        return 0, cursor
    if not (number.isdecimal() and len(number) < 20):
        raise refusal(
            "E_VALIDATION_004", "$.after is not a cursor", field="$.after", expected="`next` of the previous page"
        )
    return int(number), name
