"""The `verify` job: consistency checks over all tables, without Spark.

Every check compares a figure that is counted from the data with one that is obtained in another way: files with
what is released, bronze with the journal's sequence numbers, `message_life` with events, views with their inputs.
"""

from collections.abc import Iterator

import duckdb
import msgspec
import pyarrow.parquet as pq

from tocsin.core.messages.model import State
from tocsin.pipeline.bronze.landing_zone import landed_segments
from tocsin.pipeline.bronze.segment_log import ingested_segments, new_segments
from tocsin.pipeline.catalogue import VIEWS, open_tables
from tocsin.pipeline.lake.intervals import count_of, gaps_of
from tocsin.pipeline.lake.storage import Place
from tocsin.pipeline.lake.warehouse import Snapshot, Warehouse
from tocsin.pipeline.tables.table import View

__all__ = ["Check", "balanced", "verify"]

#: Most gaps that are listed one by one.
_GAPS_SHOWN = 20
#: Kinds of events that `message_life` counts, or that happen at most once per message, with the figure to compare.
_SUMS = {
    "MessageAccepted": "accepted",
    "MessageOffered": "offers",
    "MessageRequeued": "requeues",
    "MessageRejected": "rejections",
    "DeadLetterRedriven": "redrives",
    "MessageAcknowledged": "acked",
    "MessageProcessed": "processed",
    "MessageExpired": "expired",
    "MessageRecalled": "recalled",
    "DeadLetterPurged": "purged",
}


class Check(msgspec.Struct):
    """One comparison of two counts."""

    #: The group of checks that it belongs to: `files`, `sequence`, `gap`, `segments`, `tables`, `bronze`, or a table's
    #: name.
    name: str
    #: What is counted.
    what: str
    expected: int
    found: int

    @property
    def balances(self) -> bool:
        """Return whether the two counts are equal."""
        return self.expected == self.found


def verify(warehouse: Warehouse, landing: Place | None, views: tuple[View, ...] = VIEWS) -> list[Check]:
    """Run all checks; those that read rows only if all files are complete."""
    state = warehouse.current()
    checks = [*_files(warehouse, state), *_segments(warehouse, state, landing)]
    if any(check.name == "files" and not check.balances for check in checks):
        return checks
    folded = state.with_files(event=[file for file in state.files("event") if file.path not in state.pending])
    with open_tables(warehouse, state, names=()) as tables:
        checks += _bronze(tables, state)
    compared = [name for view in views if view.balance for name in (view.name, view.balance.counted)]
    with open_tables(warehouse, folded, compared) as tables:
        checks += _messages(tables, state)
        for view in views:
            checks += balanced(tables, view)
    return checks


def _files(warehouse: Warehouse, state: Snapshot) -> Iterator[Check]:
    """Compare the files with the versions of the tables that are released."""
    for name in state.tables:
        files = state.files(name)
        present = rows = 0
        for file in files:
            try:
                with warehouse.storage.open(file.path) as content:
                    rows += pq.read_metadata(content).num_rows
            except FileNotFoundError:
                continue
            present += 1
        yield Check("files", f"files of {name} that exist", len(files), present)
        yield Check("files", f"rows in the files of {name}", state.rows(name), rows)


def _segments(warehouse: Warehouse, state: Snapshot, landing: Place | None) -> Iterator[Check]:
    """Compare bronze with the journal's sequence numbers and the landing zone."""
    for project, mark in sorted(state.projects.items()):
        end = mark.covered[-1][1] if mark.covered else 0
        yield Check("sequence", f"events of {project} from 1 to its last number", end, count_of(mark.covered))
        for low, high in gaps_of(mark.covered)[:_GAPS_SHOWN]:
            yield Check("gap", f"events {low} to {high} of {project}", high - low + 1, 0)
    known = ingested_segments(warehouse, state)
    if state.release.repairs:
        waiting = len(state.release.repairs)
        yield Check("segments", "projects with days that the next run makes anew, after a repair", 0, waiting)
    events = sum(mark.events for mark in known.values())
    yield Check("segments", "events of all segments", events, sum(count_of(m.covered) for m in state.projects.values()))
    landed = {} if landing is None else landed_segments(landing)
    if landed:
        there = len(landed) - len(new_segments(landed, known))
        yield Check("segments", "segments of the landing zone that are in bronze", len(landed), there)
    yield Check("tables", "events of bronze that the tables do not have yet", 0, state.events_pending)


def _bronze(tables: duckdb.DuckDBPyConnection, state: Snapshot) -> Iterator[Check]:
    """Compare the rows of bronze with the numbers that the release records."""
    counted = tables.execute("SELECT project, count(*), count(DISTINCT seq) FROM event GROUP BY project").fetchall()
    found = {project: (rows, numbers) for project, rows, numbers in counted}
    for project, mark in sorted(state.projects.items()):
        expected = count_of(mark.covered) - mark.retired
        rows, numbers = found.get(project, (0, 0))
        yield Check("bronze", f"events of {project}", expected, rows)
        yield Check("bronze", f"distinct sequence numbers of {project}", expected, numbers)


_STATES = ", ".join(f"'{state.value}'" for state in State)
_STAMPS = "(delivered_at IS NOT NULL)::INT, (expired_at IS NOT NULL)::INT, (recalled_at IS NOT NULL)::INT"
_LIVES = f"""
SELECT count(*) AS rows, count(DISTINCT (project, message)) AS messages, count(message_id) AS accepted,
    count(*) FILTER (WHERE state IN ({_STATES})) AS known,
    count(*) FILTER (WHERE list_sum([{_STAMPS}]) > 1) AS clashing,
    count(*) FILTER (WHERE is_open AND (expired_at IS NOT NULL OR recalled_at IS NOT NULL)) AS open_and_ended,
    coalesce(sum(offers), 0) AS offers, coalesce(sum(requeues), 0) AS requeues,
    coalesce(sum(rejections), 0) AS rejections, coalesce(sum(redrives), 0) AS redrives, count(acked_at) AS acked,
    count(processed_at) AS processed, count(expired_at) AS expired, count(recalled_at) AS recalled,
    count(purged_at) AS purged
FROM message_life
"""


def _messages(tables: duckdb.DuckDBPyConnection, state: Snapshot) -> Iterator[Check]:
    """Compare `message_life` with the events that it was folded from."""
    counted = tables.execute(_LIVES)
    names = [column[0] for column in counted.description or []]
    found = {name: int(value) for name, value in zip(names, counted.fetchall()[0], strict=True)}
    yield Check("message_life", "messages with one row each", found["rows"], found["messages"])
    yield Check("message_life", "messages with an acceptance event", found["rows"], found["accepted"])
    yield Check("message_life", "messages in a valid state", found["rows"], found["known"])
    yield Check("message_life", "messages with more than one of delivered, expired, recalled", 0, found["clashing"])
    yield Check("message_life", "messages that are both open and ended", 0, found["open_and_ended"])
    if any(mark.retired or mark.retired_messages for mark in state.projects.values()):
        return
    counts = dict(tables.execute("SELECT kind, count(*) FROM event GROUP BY kind").fetchall())
    for kind, name in _SUMS.items():
        yield Check("message_life", f"{kind} events in message_life", counts.get(kind, 0), found[name])


def balanced(tables: duckdb.DuckDBPyConnection, view: View) -> Iterator[Check]:
    """Compare the sum that a view declares with the rows that it counts."""
    if view.balance is None:
        return
    by = view.balance
    rows = tables.execute(f"""
        SELECT project, sum(expected), coalesce(sum(found), 0)
        FROM (SELECT project, date, count(*) AS expected FROM "{by.counted}" WHERE {by.where} GROUP BY ALL)
        LEFT JOIN (SELECT project, date, sum("{by.column}") AS found FROM "{view.name}" GROUP BY ALL)
        USING (project, date) GROUP BY project ORDER BY project""").fetchall()
    for project, expected, found in rows:
        yield Check(view.name, f"{by.column} of {project}", int(expected), int(found))
