"""The `verify` job: consistency checks over all tables.

Every check compares a figure that is counted from the data with one that is obtained in another way: files with the
manifest, bronze with the journal's sequence numbers, `message_life` with events, derived tables with their inputs.
"""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from tocsin.core.messages.model import State
from tocsin.pipeline.bronze.landing_zone import landed_segments
from tocsin.pipeline.catalogue import DERIVED
from tocsin.pipeline.engine.spark import few_rows
from tocsin.pipeline.lake.intervals import count_of, gaps_of
from tocsin.pipeline.lake.manifest import Manifest
from tocsin.pipeline.lake.warehouse import Warehouse
from tocsin.pipeline.tables.table import Table

__all__ = ["Check", "verify"]

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


def verify(
    spark: SparkSession, warehouse: Warehouse, landing: Path | None, tables: tuple[Table, ...] = DERIVED
) -> list[Check]:
    """Run all checks; those that read rows only if all files are complete."""
    manifest = warehouse.current()
    checks = [*_files(warehouse, manifest), *_segments(manifest, landing)]
    if any(check.name == "files" and not check.balances for check in checks):
        return checks
    with few_rows(spark, warehouse.settings, manifest.rows("event")):
        return checks + _sums(spark, warehouse, manifest, tables)


def _sums(spark: SparkSession, warehouse: Warehouse, manifest: Manifest, tables: tuple[Table, ...]) -> list[Check]:
    """Run the checks that read rows."""
    folded = [file for file in manifest.files("event") if file.path not in manifest.pending]
    events = warehouse.read(spark, "event", folded)
    messages = warehouse.table(spark, "message_life")
    checks = [*_bronze(warehouse.table(spark, "event"), manifest)]
    checks += _messages(events, messages, manifest)
    for table in tables:
        checks += _derived(spark, warehouse, manifest, table)
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


def _bronze(events: DataFrame, manifest: Manifest) -> Iterator[Check]:
    """Compare the rows of bronze with the numbers that the manifest records."""
    found = {
        row.project: row
        for row in events.groupBy("project")
        .agg(F.count("*").alias("rows"), F.count_distinct("seq").alias("numbers"), F.max("seq").alias("last"))
        .collect()
    }
    for project, mark in sorted(manifest.projects.items()):
        expected = count_of(mark.covered) - mark.retired
        row = found.get(project)
        yield Check("bronze", f"events of {project}", expected, 0 if row is None else row.rows)
        yield Check("bronze", f"distinct sequence numbers of {project}", expected, 0 if row is None else row.numbers)


def _messages(events: DataFrame, messages: DataFrame, manifest: Manifest) -> Iterator[Check]:
    """Compare `message_life` with the events that it was folded from."""
    retired = sum(mark.retired for mark in manifest.projects.values())
    dropped = sum(mark.retired_messages for mark in manifest.projects.values())
    stamps = [F.col(name).isNotNull().cast("int") for name in ("delivered_at", "expired_at", "recalled_at")]
    found = messages.agg(
        F.count("*").alias("rows"),
        F.count_distinct("project", "message").alias("messages"),
        F.count("message_id").alias("accepted"),
        F.count_if(F.col("state").isin(*[state.value for state in State])).alias("known"),
        F.count_if(stamps[0] + stamps[1] + stamps[2] > 1).alias("clashing"),
        F.count_if(F.col("is_open") & (stamps[1] + stamps[2] > 0)).alias("open_and_ended"),
        F.coalesce(F.sum("offers"), F.lit(0)).alias("offers"),
        F.coalesce(F.sum("requeues"), F.lit(0)).alias("requeues"),
        F.coalesce(F.sum("rejections"), F.lit(0)).alias("rejections"),
        F.coalesce(F.sum("redrives"), F.lit(0)).alias("redrives"),
        F.count("acked_at").alias("acked"),
        F.count("processed_at").alias("processed"),
        F.count("expired_at").alias("expired"),
        F.count("recalled_at").alias("recalled"),
        F.count("purged_at").alias("purged"),
    ).collect()[0]
    yield Check("message_life", "messages with one row each", found.rows, found.messages)
    yield Check("message_life", "messages with an acceptance event", found.rows, found.accepted)
    yield Check("message_life", "messages in a valid state", found.rows, found.known)
    yield Check("message_life", "messages with more than one of delivered, expired, recalled", 0, found.clashing)
    yield Check("message_life", "messages that are both open and ended", 0, found.open_and_ended)
    if retired or dropped:
        return
    counts = {row.kind: row["count"] for row in events.groupBy("kind").count().collect()}
    for kind, name in _SUMS.items():
        yield Check("message_life", f"{kind} events in message_life", counts.get(kind, 0), found[name])


def _derived(spark: SparkSession, warehouse: Warehouse, manifest: Manifest, table: Table) -> Iterator[Check]:
    """Run the check that a derived table declares."""
    if table.balance is None or table.name not in manifest.tables:
        return
    frames = [warehouse.table(spark, table.name)]
    for item in table.inputs:
        files = [file for file in manifest.files(item.table) if file.path not in manifest.pending]
        frame = warehouse.read(spark, item.table, files)
        if item.table == "message_life":
            frame = frame.where(F.col("message_id").isNotNull())
        frames.append(frame.where(F.col("kind").isin(*item.kinds)) if item.kinds else frame)
    for row in table.balance(*frames).select("what", "expected", "found").collect():
        yield Check(table.name, row.what, row.expected or 0, row.found or 0)
