"""The `verify` job: consistency checks over all tables, without Spark.

Every check compares a figure that is counted from the data with one that is obtained in another way: files with the
manifest, bronze with the journal's sequence numbers, `message_life` with events, views with their inputs.
"""

from collections.abc import Iterator
from pathlib import Path

import duckdb
import msgspec
import pyarrow.parquet as pq

from tocsin.core.messages.model import State
from tocsin.pipeline.bronze.landing_zone import landed_segments
from tocsin.pipeline.catalogue import VIEWS, open_tables
from tocsin.pipeline.lake.intervals import count_of, gaps_of
from tocsin.pipeline.lake.manifest import Manifest
from tocsin.pipeline.lake.warehouse import Warehouse
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

    #: The group of checks that it belongs to: `files`, `sequence`, `gap`, `segments`, `bronze`, or a table's name.
    name: str
    #: What is counted.
    what: str
    expected: int
    found: int

    @property
    def balances(self) -> bool:
        """Return whether the two counts are equal."""
        return self.expected == self.found


def verify(warehouse: Warehouse, landing: Path | None, views: tuple[View, ...] = VIEWS) -> list[Check]:
    """Run all checks; those that read rows only if all files are complete."""
    manifest = warehouse.current()
    checks = [*_files(warehouse, manifest), *_segments(manifest, landing)]
    if any(check.name == "files" and not check.balances for check in checks):
        return checks
    folded = msgspec.structs.replace(
        manifest,
        tables={**manifest.tables, "event": [f for f in manifest.files("event") if f.path not in manifest.pending]},
    )
    with open_tables(warehouse, manifest) as tables:
        checks += _bronze(tables, manifest)
    with open_tables(warehouse, folded) as tables:
        checks += _messages(tables, manifest)
        for view in views:
            checks += balanced(tables, view)
    return checks


def _files(warehouse: Warehouse, manifest: Manifest) -> Iterator[Check]:
    """Compare the files with the manifest."""
    for name, files in sorted(manifest.tables.items()):
        present = rows = 0
        for file in files:
            path = warehouse.root / file.path
            if path.exists():
                present += 1
                rows += pq.read_metadata(path).num_rows
        yield Check("files", f"files of {name} that exist", len(files), present)
        yield Check("files", f"rows in the files of {name}", manifest.rows(name), rows)


def _segments(manifest: Manifest, landing: Path | None) -> Iterator[Check]:
    """Compare bronze with the journal's sequence numbers and the landing zone."""
    for project, mark in sorted(manifest.projects.items()):
        end = mark.covered[-1][1] if mark.covered else 0
        yield Check("sequence", f"events of {project} from 1 to its last number", end, count_of(mark.covered))
        for low, high in gaps_of(mark.covered)[:_GAPS_SHOWN]:
            yield Check("gap", f"events {low} to {high} of {project}", high - low + 1, 0)
    events = sum(mark.events for mark in manifest.segments.values())
    yield Check(
        "segments", "events of all segments", events, sum(count_of(m.covered) for m in manifest.projects.values())
    )
    if landing is not None and landing.is_dir():
        known = sum(name in manifest.segments for name in landed_segments(landing))
        yield Check("segments", "segments of the landing zone that are in bronze", len(landed_segments(landing)), known)


def _bronze(tables: duckdb.DuckDBPyConnection, manifest: Manifest) -> Iterator[Check]:
    """Compare the rows of bronze with the numbers that the manifest records."""
    counted = tables.execute("SELECT project, count(*), count(DISTINCT seq) FROM event GROUP BY project").fetchall()
    found = {project: (rows, numbers) for project, rows, numbers in counted}
    for project, mark in sorted(manifest.projects.items()):
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


def _messages(tables: duckdb.DuckDBPyConnection, manifest: Manifest) -> Iterator[Check]:
    """Compare `message_life` with the events that it was folded from."""
    counted = tables.execute(_LIVES)
    names = [column[0] for column in counted.description or []]
    found = {name: int(value) for name, value in zip(names, counted.fetchall()[0], strict=True)}
    yield Check("message_life", "messages with one row each", found["rows"], found["messages"])
    yield Check("message_life", "messages with an acceptance event", found["rows"], found["accepted"])
    yield Check("message_life", "messages in a valid state", found["rows"], found["known"])
    yield Check("message_life", "messages with more than one of delivered, expired, recalled", 0, found["clashing"])
    yield Check("message_life", "messages that are both open and ended", 0, found["open_and_ended"])
    if any(mark.retired or mark.retired_messages for mark in manifest.projects.values()):
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
