"""Contents of the report: gold tables summed to at most a few hundred points each."""

from collections.abc import Callable
from datetime import UTC, date, datetime
from typing import Any

import msgspec
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from tocsin.core.errors import TocsinError
from tocsin.pipeline.advice import Advice, Thresholds, advise_on
from tocsin.pipeline.gold.histogram import combined

__all__ = ["Contents", "Reader", "Row", "read_contents"]

Row = dict[str, Any]
Reader = Callable[[str], DataFrame]

_SECOND_US = 1_000_000
#: Possible widths of a bar, seconds; the first that gives at most `_BARS_MAX` bars is used.
_WIDTHS_S = (60, 300, 900, 3600, 3 * 3600, 6 * 3600, 86_400, 7 * 86_400, 30 * 86_400)
_BARS_MAX = 160
#: Most rows of a table or chart; the largest are shown.
_ROWS_MAX = 20
STATES = (
    *("available_now", "drained", "waiting", "pending_pickup", "held", "expired", "recalled", "dead"),
    "undeliverable",
)


class Contents(msgspec.Struct):
    """The data of one project on the page."""

    project: str
    #: Time range with data, microseconds since the epoch; equal if there is none.
    since: int
    until: int
    #: Width of a bar, seconds.
    width_s: int
    #: Start of each bar, microseconds since the epoch.
    bars: list[int]
    #: Per state, a count for each bar.
    states: dict[str, list[int]]
    #: Per priority, quantiles for each bar; null if nothing was sent.
    latency: dict[int, list[Row | None]]
    #: `delivery_sla` by priority, of messages on the push path.
    sla: list[Row]
    #: `sla_breach`, the latest.
    breaches: list[Row]
    #: Per level, the largest depth of each bar.
    depth: dict[int, list[int]]
    #: `time_to_drain` by type and path.
    drain: list[Row]
    #: Per outcome, the recalls of each bar.
    recalls: dict[str, list[int]]
    #: Per code, the refusals of each bar.
    refusals: dict[str, list[int]]
    #: `priority_mix` by agent: number of windows, windows over the threshold, highest share.
    mixes: list[Row]
    #: `retry` by type.
    retries: list[Row]
    #: `dead_letter` by reason and recipient.
    letters: list[Row]
    #: Average processing latency of each bar, microseconds.
    processing: list[int | None]
    #: Decay rate at the end of each bar.
    decay: list[float]
    #: Per kind of session, live and stale at the end of each bar.
    sessions: dict[str, list[int]]
    #: Number of agents by attachment at the end.
    attachments: dict[str, int]
    #: Number of messages by sender and recipient, of the busiest agents.
    traffic: dict[tuple[str, str], int]
    #: `lead_time` by kind and measure.
    leads: list[Row]
    #: `thread_outcome` by kind.
    outcomes: list[Row]
    #: Per subscriber priority, frames offered and dropped.
    frames: list[Row]
    #: `aging_wait` by priority.
    waits: list[Row]
    #: `escalation_outcome` by rule.
    escalations: list[Row]
    #: `deadlock`, the latest.
    deadlocks: list[Row]
    #: `inversion` by agent.
    inversions: list[Row]
    #: `lease_wait` by agent.
    leases: list[Row]
    advice: list[Advice]
    #: Reason for missing advice, if any.
    advice_note: str = ""


def read_contents(
    read: Reader,
    project: str,
    since: date | None = None,
    until: date | None = None,
    thresholds: Thresholds | None = None,
) -> Contents:
    """Read a project's tables for the days from `since` to `until`."""
    return _ContentsReader(read, project, since, until).contents(thresholds)


class _ContentsReader:
    """Reader of one project's tables over one time range."""

    def __init__(self, read: Reader, project: str, since: date | None, until: date | None) -> None:
        self._read = read
        self._project = project
        self._days = (since, until)
        self._begin, self._end = self._range()
        span_s = max(60, (self._end - self._begin) // _SECOND_US)
        self._width_s = next((width for width in _WIDTHS_S if span_s / width <= _BARS_MAX), _WIDTHS_S[-1])
        width_us = self._width_s * _SECOND_US
        first = self._begin - self._begin % width_us
        self._bars = list(range(first, self._end + 1, width_us)) if self._end > self._begin else []
        self._place = {bar: index for index, bar in enumerate(self._bars)}

    def _table(self, name: str) -> DataFrame:
        since, until = self._days
        rows = self._read(name).where(F.col("project") == self._project)
        if "date" in rows.columns:
            rows = rows.where(F.col("date") >= F.lit(since)) if since is not None else rows
            rows = rows.where(F.col("date") <= F.lit(until)) if until is not None else rows
        return rows

    def _range(self) -> tuple[int, int]:
        """Return the time range with data."""
        moments = [
            row
            for name in ("signal_state", "session_count")
            for row in self._table(name)
            .agg(F.min(F.unix_micros("minute")).alias("low"), F.max(F.unix_micros("minute")).alias("high"))
            .collect()
            if row["low"] is not None
        ]
        if not moments:
            now = datetime.combine(self._days[0] or date(1970, 1, 1), datetime.min.time(), UTC)
            return (int(now.timestamp()) * _SECOND_US,) * 2
        return min(row["low"] for row in moments), max(row["high"] for row in moments) + 60 * _SECOND_US

    def _bar(self, column: str) -> Column:
        at = F.unix_micros(column)
        return (at - at % (self._width_s * _SECOND_US)).alias("bar")

    def _counts(self, name: str, key: str | None, at: str, values: dict[str, Column]) -> dict[str, list[int]]:
        """Return sums per bar, by the values of a key column or by column."""
        keys = [self._bar(at)] + ([F.col(key)] if key is not None else [])
        rows = self._table(name).groupBy(*keys).agg(*(value.alias(title) for title, value in values.items())).collect()
        found: dict[str, list[int]] = {}
        for row in rows:
            for title in values:
                series = found.setdefault(str(row[key]) if key is not None else title, [0] * len(self._bars))
                if row["bar"] in self._place:
                    series[self._place[row["bar"]]] += row[title] or 0
        return dict(sorted(found.items()))

    def _steps(
        self, name: str, key: str, value: str, at: str = "minute", most: str | None = None
    ) -> dict[Any, list[Any]]:
        """Return a value that lasts until it changes, per bar: its maximum or its last value."""
        last = F.max_by(value, at).alias("last")
        highest = F.max(most if most is not None else value).alias("most")
        rows = self._table(name).groupBy(self._bar(at), key).agg(last, highest).collect()
        found: dict[Any, dict[int, Any]] = {}
        for row in rows:
            found.setdefault(row[key], {})[row["bar"]] = row
        series: dict[Any, list[Any]] = {}
        for title in sorted(found, key=str):
            standing: Any = 0
            values = []
            for bar in self._bars:
                changed = found[title].get(bar)
                if changed is None:
                    values.append(standing)
                else:
                    values.append(changed["last"] if most is None else max(changed["most"], standing))
                    standing = changed["last"]
            series[title] = values
        return series

    def _top(self, frame: DataFrame, order: str) -> list[Row]:
        return [row.asDict() for row in frame.orderBy(F.desc(order), *frame.columns[:2]).limit(_ROWS_MAX).collect()]

    def _latency(self) -> dict[int, list[Row | None]]:
        pushed = self._table("delivery_sla").withColumn("bar", self._bar("minute"))
        found: dict[int, list[Row | None]] = {}
        for row in combined(pushed, ["bar", "priority"]).where(F.col("samples") > 0).collect():
            series = found.setdefault(row["priority"], [None] * len(self._bars))
            if row["bar"] in self._place:
                series[self._place[row["bar"]]] = {
                    name: row[name] for name in ("p50_us", "p95_us", "p99_us", "samples")
                }
        return dict(sorted(found.items()))

    def _processing(self) -> list[int | None]:
        averages: list[int | None] = [None] * len(self._bars)
        sums = self._table("processing_latency").groupBy(self._bar("minute")).agg(F.sum("sum_us"), F.sum("samples"))
        for bar, total, samples in sums.collect():
            if samples and bar in self._place:
                averages[self._place[bar]] = total // samples
        return averages

    def _traffic(self) -> dict[tuple[str, str], int]:
        pairs = self._table("traffic").groupBy("sender", "recipient").agg(F.sum("messages").alias("messages"))
        busy: dict[str, int] = {}
        rows = pairs.orderBy(F.desc("messages"), "sender", "recipient").limit(2000).collect()
        for row in rows:
            for agent in (row["sender"], row["recipient"]):
                busy[agent] = busy.get(agent, 0) + row["messages"]
        shown = set(sorted(busy, key=lambda agent: (-busy[agent], agent))[:_ROWS_MAX])
        return {
            (row["sender"], row["recipient"]): row["messages"]
            for row in rows
            if row["sender"] in shown and row["recipient"] in shown
        }

    def _attachments(self) -> dict[str, int]:
        last = (
            self._table("agent_attachment").groupBy("agent").agg(F.max_by("attachment", "minute").alias("attachment"))
        )
        return {row["attachment"]: row["count"] for row in last.groupBy("attachment").count().collect()}

    def _advice(self, thresholds: Thresholds | None) -> tuple[list[Advice], str]:
        try:
            return advise_on(self._read, self._project, *self._days, thresholds), ""
        except TocsinError as error:
            return [], f"The policy in force cannot be read by this version: {error}"

    def contents(self, thresholds: Thresholds | None) -> Contents:
        """Read everything."""
        advice, note = self._advice(thresholds)
        pushed = self._table("delivery_sla").where(F.col("publish_path") == "pushed_to_ws")
        states = self._counts("signal_state", None, "minute", {state: F.sum(state) for state in STATES})
        sums = {name: F.sum(name) for name in ("messages", "within_target")}
        live = {f"{kind} live": counts for kind, counts in self._steps("session_count", "session_kind", "live").items()}
        stale = self._steps("session_count", "session_kind", "stale")
        rate = self._steps("decay_rate", "project", "new_rate", "changed_at")
        return Contents(
            project=self._project,
            since=self._begin,
            until=self._end,
            width_s=self._width_s,
            bars=self._bars,
            states={state: states.get(state, [0] * len(self._bars)) for state in STATES},
            latency=self._latency(),
            sla=[
                row.asDict()
                for row in combined(pushed, ["priority"], **sums, target_us=F.max("target_us"))
                .orderBy(F.desc("priority"))
                .collect()
            ],
            breaches=self._top(
                self._table("sla_breach").select(
                    "priority", F.unix_micros("began_at").alias("began_us"), "lasted_us", "messages", "late", "worst_us"
                ),
                "began_us",
            ),
            depth=self._steps("queue_depth", "level", "depth_end", most="depth_max"),
            drain=self._top(
                combined(
                    self._table("time_to_drain"), ["message_type", "publish_path"], messages=F.sum("messages")
                ).where(F.col("samples") > 0),
                "messages",
            ),
            recalls=self._counts("recall", "outcome", "minute", {"recalls": F.sum("recalls")}),
            refusals=self._counts("refusal", "code", "minute", {"refusals": F.sum("refusals")}),
            mixes=self._top(
                self._table("priority_mix")
                .groupBy("agent")
                .agg(
                    F.count_if("over").alias("over"),
                    F.count(F.lit(1)).alias("windows"),
                    F.max("high_share").alias("highest"),
                    F.sum("lowered").alias("lowered"),
                ),
                "over",
            ),
            retries=self._top(
                self._table("retry")
                .groupBy("message_type")
                .agg(
                    *(
                        F.sum(name).alias(name)
                        for name in ("messages", "offers", "requeues", "rejections", "dead", "redrives", "purged")
                    )
                ),
                "messages",
            ),
            letters=self._top(
                self._table("dead_letter")
                .groupBy("reason", "code", "recipient")
                .agg(F.sum("letters").alias("letters"), F.sum("attempts").alias("attempts")),
                "letters",
            ),
            processing=self._processing(),
            decay=next(iter(rate.values()), []),
            sessions=live | {f"{kind} stale": counts for kind, counts in stale.items() if any(counts)},
            attachments=self._attachments(),
            traffic=self._traffic(),
            leads=self._top(
                combined(self._table("lead_time"), ["thread_kind", "measure"]).where(F.col("samples") > 0), "samples"
            ),
            outcomes=self._top(
                self._table("thread_outcome")
                .groupBy("thread_kind")
                .agg(*(F.sum(name).alias(name) for name in ("threads", "completed", "lost", "open", "updates"))),
                "threads",
            ),
            frames=self._top(
                self._table("frame_drop")
                .groupBy("subscriber_priority")
                .agg(*(F.sum(name).alias(name) for name in ("offered", "dropped", "shed"))),
                "offered",
            ),
            waits=[
                row.asDict()
                for row in combined(
                    self._table("aging_wait"),
                    ["priority"],
                    **{name: F.sum(name) for name in ("messages", "boosted", "over_bound_available")},
                    bound_us=F.max("bound_us"),
                )
                .orderBy("priority")
                .collect()
            ],
            escalations=self._top(
                combined(
                    self._table("escalation_outcome"),
                    ["rule", "trigger"],
                    **{name: F.sum(name) for name in ("escalations", "to_director", "to_human", "closed")},
                ),
                "escalations",
            ),
            deadlocks=self._top(
                self._table("deadlock").select(
                    F.unix_micros("found_at").alias("found_us"), "victim", "refused", "cycle", "waits"
                ),
                "found_us",
            ),
            inversions=self._top(
                self._table("inversion")
                .groupBy("agent")
                .agg(
                    F.sum("raised").alias("raised"),
                    F.max("highest").alias("highest"),
                    F.sum("messages").alias("messages"),
                ),
                "raised",
            ),
            leases=self._top(
                combined(
                    self._table("lease_wait"),
                    ["agent"],
                    **{name: F.sum(name) for name in ("leases", "granted", "in_line", "given_up", "lost")},
                ),
                "leases",
            ),
            advice=advice,
            advice_note=note,
        )
