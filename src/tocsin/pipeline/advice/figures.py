"""Figures for the advice rules: gold views summed over the chosen days, one row per type, priority, code or agent."""

from datetime import date
from typing import Any

import duckdb
import msgspec

from tocsin.pipeline.engine.duck import rows_of
from tocsin.pipeline.facts.histogram import combined

__all__ = ["Figures", "Row", "gather"]

Row = dict[str, Any]
_LEVELS = ("info", "coordinate", "blocking", "critical", "director_override")


class Figures(msgspec.Struct, frozen=True):
    """The figures of one project."""

    #: `ttl_use` by type and TTL.
    ttls: list[Row] = []
    #: `late_pickup` by type and TTL.
    late: list[Row] = []
    #: `aging_wait` by priority.
    waits: list[Row] = []
    #: `refusal` by code.
    refusals: list[Row] = []
    #: `traffic` by level.
    accepted: dict[str, int] = {}
    #: `priority_mix` by agent.
    mixes: list[Row] = []
    #: `level_use` by type and requested priority.
    levels: list[Row] = []
    #: `recipient_load` by recipient.
    loads: list[Row] = []
    #: `retry` by type.
    retries: list[Row] = []
    #: `processing_latency` by type.
    processing: list[Row] = []
    #: `decay_rate` in one row, or none.
    rates: list[Row] = []


def gather(
    tables: duckdb.DuckDBPyConnection, project: str, since: date | None = None, until: date | None = None
) -> Figures:
    """Sum a project's views over the days from `since` to `until`."""

    def days(view: str, where: str = "true") -> str:
        limits = [where, "project = $project"]
        limits += ["date >= $since"] if since is not None else []
        limits += ["date <= $until"] if until is not None else []
        return f"(SELECT * FROM {view} WHERE {' AND '.join(limits)})"

    def sums(*names: str) -> dict[str, str]:
        return {name: f"sum({name})::BIGINT" for name in names}

    def rows(query: str) -> list[Row]:
        given = {"project": project, "since": since, "until": until}
        found = rows_of(tables, query, {name: value for name, value in given.items() if f"${name}" in query})
        return sorted(found, key=lambda row: str(list(row.values())[:2]))

    sends = days("refusal", "scope = 'send'")
    levels = ", ".join(f"coalesce(sum({name}), 0)::BIGINT AS {name}" for name in _LEVELS)
    return Figures(
        ttls=rows(
            combined(days("ttl_use"), ["message_type", "ttl_us"], **sums("messages", "expired", "stale", "waiting"))
        ),
        late=rows("SELECT * FROM late_pickup WHERE project = $project"),
        waits=rows(
            combined(
                days("aging_wait"),
                ["priority"],
                **sums("messages", "boosted", "boosts", "over_bound", "over_bound_available"),
                bound_us="max(bound_us)",
            )
        ),
        refusals=rows(
            "SELECT code, sum(refusals)::BIGINT AS refusals, count(DISTINCT sender) AS senders"
            f" FROM {sends} GROUP BY code"
        ),
        accepted=rows(f"SELECT {levels} FROM {days('traffic')}")[0],
        mixes=rows(
            "SELECT agent, count(*) AS windows, count(*) FILTER (WHERE over) AS over,"
            f" sum(messages)::BIGINT AS messages, sum(high)::BIGINT AS high FROM {days('priority_mix')} GROUP BY agent"
        ),
        levels=rows(
            combined(days("level_use"), ["message_type", "requested"], **sums("messages", "by_default", "lowered"))
        ),
        loads=rows(combined(days("recipient_load"), ["recipient"], **sums("messages", "held_back"))),
        retries=rows(
            f"SELECT message_type, {', '.join(f'{total} AS {name}' for name, total in sums(*_RETRIES).items())}"
            f" FROM {days('retry')} GROUP BY message_type"
        ),
        processing=rows(
            combined(
                days("processing_latency"),
                ["message_type"],
                **sums("messages", "decaying", "decay_rate_sum_ppm", "stale"),
            )
        ),
        rates=rows(_RATES.format(changes=days("decay_rate"))),
    )


_RETRIES = ("messages", "requeued", "requeues", "dead")
#: Changes of the decay rate, and those that reverse the previous one.
_RATES = """
SELECT count(*) AS changes, count(*) FILTER (WHERE rises <> before) AS reversals, max(new_rate) AS highest,
    max(us(changed_at)) - min(us(changed_at)) AS span_us
FROM (
    SELECT *, lag(rises) OVER (ORDER BY seq) AS before
    FROM (SELECT *, new_rate > old_rate AS rises FROM {changes}))
HAVING count(*) > 0
"""
