"""Contents of the report: gold tables summed to at most a few hundred points each."""

from datetime import UTC, date, datetime
from typing import Any

import duckdb
import msgspec

from tocsin.pipeline.advice import Advised
from tocsin.pipeline.engine.duck import rows_of
from tocsin.pipeline.facts.histogram import combined

__all__ = ["Contents", "Row", "read_contents"]

Row = dict[str, Any]

_SECOND_US = 1_000_000
#: Possible widths of a bar, seconds; the first that gives at most `_BARS_MAX` bars is used.
_WIDTHS_S = (60, 300, 900, 3600, 3 * 3600, 6 * 3600, 86_400, 7 * 86_400, 30 * 86_400)
_BARS_MAX = 160
_PUSHED = "WHERE publish_path = 'pushed_to_ws'"
_WAKES = {
    "wakes": "count(*)",
    "woken": "count(*) FILTER (WHERE outcome = 'woken')",
    "given_up": "count(*) FILTER (WHERE given_up)",
}
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
    #: `delivery_sla` by priority, and how many of the messages had a connected recipient (`pushed`, `pushed_within`).
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
    #: `agent_wake` by agent: numbers, and quantiles of the times from the acceptance.
    wakes: list[Row]
    advised: Advised
    #: Totals of tables that are shown cut: `requeues`, `dead`, `escalations`, `to_human`, `deadlocks`, `wakes`,
    #: `woken` and `given_up`.
    totals: dict[str, int] = {}


def read_contents(
    tables: duckdb.DuckDBPyConnection,
    project: str,
    advised: Advised,
    since: date | None = None,
    until: date | None = None,
) -> Contents:
    """Read a project's views for the days from `since` to `until`."""
    return _ContentsReader(tables, project, since, until).contents(advised)


def _sums(*names: str) -> dict[str, str]:
    return {name: f"sum({name})::BIGINT" for name in names}


def _quantiles(*names: str) -> dict[str, str]:
    """Return aggregates of exact medians and 95th percentiles, as `<name>_p50` and `<name>_p95`."""
    return {f"{name}_p{share}": f"quantile_disc({name}, 0.{share})::BIGINT" for name in names for share in ("50", "95")}


def _listed(values: dict[str, str]) -> str:
    return ", ".join(f"{value} AS {title}" for title, value in values.items())


class _ContentsReader:
    """Reader of one project's views over one time range."""

    def __init__(self, tables: duckdb.DuckDBPyConnection, project: str, since: date | None, until: date | None) -> None:
        self._tables = tables
        self._project = project
        self._days = (since, until)
        self._begin, self._end = self._range()
        span_s = max(60, (self._end - self._begin) // _SECOND_US)
        self._width_s = next((width for width in _WIDTHS_S if span_s / width <= _BARS_MAX), _WIDTHS_S[-1])
        width_us = self._width_s * _SECOND_US
        first = self._begin - self._begin % width_us
        self._bars = list(range(first, self._end + 1, width_us)) if self._end > self._begin else []
        self._place = {bar: index for index, bar in enumerate(self._bars)}

    def _view(self, name: str, where: str = "true") -> str:
        """Return the SQL of a view's rows of the project and the days."""
        since, until = self._days
        limits = [where, "project = $project"]
        limits += ["date >= $since"] if since is not None else []
        limits += ["date <= $until"] if until is not None else []
        return f"(SELECT * FROM {name} WHERE {' AND '.join(limits)})"

    def _rows(self, query: str) -> list[Row]:
        given = {"project": self._project, "since": self._days[0], "until": self._days[1]}
        return rows_of(self._tables, query, {name: value for name, value in given.items() if f"${name}" in query})

    def _range(self) -> tuple[int, int]:
        """Return the time range with data."""
        moments = [
            row
            for name in ("signal_state", "session_count")
            for row in self._rows(f"SELECT min(us(minute)) AS low, max(us(minute)) AS high FROM {self._view(name)}")
            if row["low"] is not None
        ]
        if not moments:
            now = datetime.combine(self._days[0] or date(1970, 1, 1), datetime.min.time(), UTC)
            return (int(now.timestamp()) * _SECOND_US,) * 2
        return min(row["low"] for row in moments), max(row["high"] for row in moments) + 60 * _SECOND_US

    def _bar(self, column: str) -> str:
        return f"us({column}) - us({column}) % {self._width_s * _SECOND_US} AS bar"

    def _counts(self, name: str, key: str | None, at: str, values: dict[str, str]) -> dict[str, list[int]]:
        """Return sums per bar, by the values of a key column or by column."""
        keys = self._bar(at) + (f", {key}" if key is not None else "")
        found: dict[str, list[int]] = {}
        for row in self._rows(f"SELECT {keys}, {_listed(values)} FROM {self._view(name)} GROUP BY ALL"):
            for title in values:
                series = found.setdefault(str(row[key]) if key is not None else title, [0] * len(self._bars))
                if row["bar"] in self._place:
                    series[self._place[row["bar"]]] += row[title] or 0
        return dict(sorted(found.items()))

    def _steps(
        self, name: str, key: str, value: str, at: str = "minute", most: str | None = None
    ) -> dict[Any, list[Any]]:
        """Return a value that lasts until it changes, per bar: its maximum or its last value."""
        rows = self._rows(
            f"SELECT {self._bar(at)}, {key}, arg_max({value}, {at}) AS last, max({most or value}) AS most"
            f" FROM {self._view(name)} GROUP BY ALL"
        )
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

    def _summed(self, name: str, keys: tuple[str, ...], values: dict[str, str], order: str) -> list[Row]:
        query = f"SELECT {', '.join(keys)}, {_listed(values)} FROM {self._view(name)} GROUP BY ALL"
        return self._rows(f"SELECT * FROM ({query}) ORDER BY {order} DESC, {', '.join(keys)} LIMIT {_ROWS_MAX}")

    def _spread(
        self, name: str, keys: tuple[str, ...], values: dict[str, str], order: str, samples_min: int = 0
    ) -> list[Row]:
        """Return summed distributions, those with the largest values of a column."""
        query = f"SELECT * FROM ({combined(self._view(name), list(keys), **values)}) WHERE samples >= {samples_min}"
        return self._rows(f"{query} ORDER BY {order} DESC, {', '.join(keys)} LIMIT {_ROWS_MAX}")

    def _latency(self) -> dict[int, list[Row | None]]:
        found: dict[int, list[Row | None]] = {}
        query = combined(self._view("delivery_sla"), [self._bar("minute"), "priority"])
        for row in self._rows(f"SELECT * FROM ({query}) WHERE samples > 0"):
            series = found.setdefault(row["priority"], [None] * len(self._bars))
            if row["bar"] in self._place:
                series[self._place[row["bar"]]] = {
                    name: row[name] for name in ("p50_us", "p95_us", "p99_us", "samples")
                }
        return dict(sorted(found.items()))

    def _processing(self) -> list[int | None]:
        averages: list[int | None] = [None] * len(self._bars)
        values = _listed(_sums("sum_us", "samples"))
        query = f"SELECT {self._bar('minute')}, {values} FROM {self._view('processing_latency')} GROUP BY ALL"
        for row in self._rows(query):
            if row["samples"] and row["bar"] in self._place:
                averages[self._place[row["bar"]]] = row["sum_us"] // row["samples"]
        return averages

    def _traffic(self) -> dict[tuple[str, str], int]:
        busy: dict[str, int] = {}
        rows = self._rows(
            f"SELECT sender, recipient, sum(messages)::BIGINT AS messages FROM {self._view('traffic')} GROUP BY ALL"
            " ORDER BY messages DESC, sender, recipient LIMIT 2000"
        )
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
        last = f"SELECT arg_max(attachment, minute) AS attachment FROM {self._view('agent_attachment')} GROUP BY agent"
        rows = self._rows(f"SELECT attachment, count(*) AS agents FROM ({last}) GROUP BY ALL ORDER BY ALL")
        return {row["attachment"]: row["agents"] for row in rows}

    def _totals(self) -> dict[str, int]:
        """Return sums over all rows of tables of which the page shows the largest only."""
        sums = {"retry": ("requeues", "dead"), "escalation_outcome": ("escalations", "to_human")}
        found: dict[str, int] = {}
        for view, names in sums.items():
            chosen = ", ".join(f"coalesce(sum({name}), 0)::BIGINT AS {name}" for name in names)
            found |= self._rows(f"SELECT {chosen} FROM {self._view(view)}")[0]
        found |= self._rows(f"SELECT {_listed(_WAKES)} FROM {self._view('agent_wake')}")[0]
        return found | self._rows(f"SELECT count(*) AS deadlocks FROM {self._view('deadlock')}")[0]

    def contents(self, advised: Advised) -> Contents:
        """Read everything."""
        states = self._counts("signal_state", None, "minute", _sums(*STATES))
        live = {f"{kind} live": counts for kind, counts in self._steps("session_count", "session_kind", "live").items()}
        stale = self._steps("session_count", "session_kind", "stale")
        rate = self._steps("decay_rate", "project", "new_rate", "changed_at")
        sla = combined(
            self._view("delivery_sla"),
            ["priority"],
            **_sums("messages", "within_target"),
            target_us="max(target_us)",
            pushed=f"coalesce(sum(messages) FILTER ({_PUSHED}), 0)::BIGINT",
            pushed_within=f"coalesce(sum(within_target) FILTER ({_PUSHED}), 0)::BIGINT",
        )
        waits = combined(
            self._view("aging_wait"),
            ["priority"],
            **_sums("messages", "boosted", "over_bound_available"),
            bound_us="max(bound_us)",
        )
        return Contents(
            project=self._project,
            since=self._begin,
            until=self._end,
            width_s=self._width_s,
            bars=self._bars,
            states={state: states.get(state, [0] * len(self._bars)) for state in STATES},
            latency=self._latency(),
            sla=self._rows(f"SELECT * FROM ({sla}) ORDER BY priority DESC"),
            breaches=self._rows(
                "SELECT priority, us(began_at) AS began_us, lasted_us, messages, late, worst_us"
                f" FROM {self._view('sla_breach')} ORDER BY began_us DESC, priority LIMIT {_ROWS_MAX}"
            ),
            depth=self._steps("queue_depth", "level", "depth_end", most="depth_max"),
            drain=self._spread("time_to_drain", ("message_type", "publish_path"), _sums("messages"), "messages", 1),
            recalls=self._counts("recall", "outcome", "minute", _sums("recalls")),
            refusals=self._counts("refusal", "code", "minute", _sums("refusals")),
            mixes=self._summed(
                "priority_mix",
                ("agent",),
                {
                    "over": "count(*) FILTER (WHERE over)",
                    "windows": "count(*)",
                    "highest": "max(high_share)",
                    "lowered": "sum(lowered)::BIGINT",
                },
                "over",
            ),
            retries=self._summed(
                "retry",
                ("message_type",),
                _sums("messages", "offers", "requeues", "rejections", "dead", "redrives", "purged"),
                "messages",
            ),
            letters=self._summed(
                "dead_letter", ("reason", "code", "recipient"), _sums("letters", "attempts"), "letters"
            ),
            processing=self._processing(),
            decay=next(iter(rate.values()), []),
            sessions=live | {f"{kind} stale": counts for kind, counts in stale.items() if any(counts)},
            attachments=self._attachments(),
            traffic=self._traffic(),
            leads=self._spread("lead_time", ("thread_kind", "measure"), {}, "samples", 1),
            outcomes=self._summed(
                "thread_outcome", ("thread_kind",), _sums("threads", "completed", "lost", "open", "updates"), "threads"
            ),
            frames=self._summed("frame_drop", ("subscriber_priority",), _sums("offered", "dropped", "shed"), "offered"),
            waits=self._rows(f"SELECT * FROM ({waits}) ORDER BY priority"),
            escalations=self._spread(
                "escalation_outcome",
                ("rule", '"trigger"'),
                _sums("escalations", "to_director", "to_human", "closed"),
                "escalations",
            ),
            deadlocks=self._rows(
                "SELECT us(found_at) AS found_us, victim, refused, cycle, waits"
                f" FROM {self._view('deadlock')} ORDER BY found_us DESC, victim LIMIT {_ROWS_MAX}"
            ),
            inversions=self._summed(
                "inversion",
                ("agent",),
                {"raised": "sum(raised)::BIGINT", "highest": "max(highest)", "messages": "sum(messages)::BIGINT"},
                "raised",
            ),
            leases=self._spread(
                "lease_wait", ("agent",), _sums("leases", "granted", "in_line", "given_up", "lost"), "leases"
            ),
            wakes=self._summed(
                "agent_wake",
                ("agent",),
                _WAKES | _quantiles("to_request_us", "to_woken_us", "to_delivered_us"),
                "wakes",
            ),
            advised=advised,
            totals=self._totals(),
        )
