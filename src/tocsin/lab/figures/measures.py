"""Figures of a replay, for each requested priority and for the whole project.

Waiting times are counted in buckets a few per cent wide, so that windows can be summed; the longest is exact. The
waiting time of a message from before the window counts from its acceptance.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from tocsin.core.commands import SYSTEM
from tocsin.core.protocol.priority import Priority, priority_name
from tocsin.lab.figures.tallies import Tally, tally_by_level
from tocsin.lab.replays.replay import Replay
from tocsin.lab.traces.trace import RefusedSend

__all__ = ["ALL", "METRICS", "Metric", "Row", "levels", "measured", "measured_parts", "quantile"]

#: Level of the row for the whole project.
ALL = -1
_GROWTH = 1.04
_FIRST_US = 100.0
_BUCKETS = 640
_LOG = math.log(_GROWTH)
_EDGES: npt.NDArray[np.float64] = np.asarray(_FIRST_US * _GROWTH ** np.arange(_BUCKETS), dtype=np.float64)
_LIMITS = {"E_ADMISSION_001", "E_ADMISSION_002", "E_ADMISSION_003"}


class Metric(msgspec.Struct, frozen=True):
    """One figure of a row."""

    name: str
    #: Name in tables for people, without a unit: durations are shown with theirs.
    title: str
    #: Description, in a sentence.
    about: str
    #: Whether it exists only for the whole project.
    whole: bool = False


#: All figures that policies are compared by; for all of them lower is better.
METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric("p50_s", "median wait", "Median waiting time from acceptance to the first offer, seconds."),
        Metric("p95_s", "p95 wait", "95th percentile of the waiting time, seconds."),
        Metric("p99_s", "p99 wait", "99th percentile of the waiting time, seconds."),
        Metric("longest_s", "longest wait", "Longest waiting time, including messages that still wait, seconds."),
        Metric("starved", "starved", "Messages that waited longer than `starved_after_s` for their first offer."),
        Metric("expired", "expired", "Messages that expired without an offer."),
        Metric("stale", "stale", "Messages that expired because their importance had decayed."),
        Metric("dead", "dead", "Dead letters at the end."),
        Metric("retries", "retries", "Number of times that a message went back to its queue after an offer."),
        Metric("lowered", "lowered", "Messages accepted at a lower priority than requested."),
        Metric("boosts", "boosts", "Number of boosts, by aging or an escalation."),
        Metric("rate_limited", "rate limited", "Sends refused by a token bucket or a quota."),
        Metric("refused", "refused", "Sends refused for any reason."),
        Metric("escalations", "escalations", "Escalations opened.", whole=True),
        Metric("deadlocks", "deadlocks", "Deadlocks found and resolved.", whole=True),
        Metric("rate_changes", "rate changes", "Changes of the decay rate by the queue manager.", whole=True),
        Metric(
            "director_load",
            "director load",
            "Messages to directors and humans, including notices of the bus.",
            whole=True,
        ),
    )
}


class Row(msgspec.Struct, array_like=True):
    """Counts of one priority in one window under one policy."""

    level: int
    sent: int = 0
    accepted: int = 0
    offered: int = 0
    delivered: int = 0
    waited_us: int = 0
    longest_us: int = 0
    starved: int = 0
    expired: int = 0
    stale: int = 0
    dead: int = 0
    recalled: int = 0
    boosts: int = 0
    rate_limited: int = 0
    refused: int = 0
    escalations: int = 0
    deadlocks: int = 0
    director_load: int = 0
    retries: int = 0
    lowered: int = 0
    rate_changes: int = 0
    #: Number of waiting times per bucket, without trailing zeros.
    histogram: list[int] = []


def measured(replay: Replay, ends_at: int, starved_us: int) -> list[Row]:
    """Return the rows of a replay: one per requested priority, and one for all.

    Notices of the bus count only in `director_load`.
    """
    directing = {name for name, role in replay.roles.items() if role in ("director", "human")}
    tallies, directed = tally_by_level(replay.histories, len(Priority), directing, ends_at, starved_us)
    total = Tally()
    for tally in tallies:
        total.add(tally)
    rows = {level: _row_of(level, tally) for level, tally in ((ALL, total), *enumerate(tallies))}
    for refusal in replay.refused:
        for level in (refusal.requested, ALL):
            _count_refusal(rows[level], refusal)
    whole = rows[ALL]
    whole.director_load = directed
    whole.escalations, whole.deadlocks = replay.escalations, replay.deadlocks
    whole.rate_changes = len(replay.rate_changes)
    return list(rows.values())


def measured_parts(
    replay: Replay,
    begins_at: int,
    ends_at: int,
    parts: int,
    starved_us: int,
    chosen: Callable[[int, str], bool],
) -> list[Row]:
    """Return a row for each of several equal parts of the time, by when messages were accepted or refused.

    `chosen` tells from the requested priority and the type whether a message counts. Messages from before the replay,
    and notices of the bus, do not.
    """
    tallies = [Tally() for _ in range(parts)]

    def part(at: int) -> int:
        return min(parts - 1, max(0, (at - begins_at) * parts // max(1, ends_at - begins_at)))

    for history in replay.histories:
        known = history.sender != SYSTEM.agent and history.accepted_at >= begins_at
        if not known or not chosen(history.requested, history.message_type):
            continue
        tallies[part(history.accepted_at)].count(history, ends_at, starved_us)
    rows = [_row_of(ALL, tally) for tally in tallies]
    for refusal in replay.refused:
        if chosen(refusal.requested, refusal.message_type):
            _count_refusal(rows[part(refusal.at)], refusal)
    for at in replay.rate_changes:
        rows[part(at)].rate_changes += 1
    return rows


def _count_refusal(row: Row, refusal: RefusedSend) -> None:
    row.sent += 1
    row.refused += 1
    row.rate_limited += refusal.code in _LIMITS


def _row_of(level: int, tally: Tally) -> Row:
    """Return the row of counts; what was sent is what was accepted, until refusals are counted."""
    return Row(
        level,
        sent=tally.accepted,
        accepted=tally.accepted,
        offered=tally.offered,
        delivered=tally.delivered,
        waited_us=sum(tally.waits),
        longest_us=tally.longest_us,
        starved=tally.starved,
        expired=tally.expired,
        stale=tally.stale,
        dead=tally.dead,
        recalled=tally.recalled,
        boosts=tally.boosts,
        retries=tally.retries,
        lowered=tally.lowered,
        histogram=_histogram(tally.waits),
    )


def _histogram(waits: list[int]) -> list[int]:
    if not waits:
        return []
    places = np.searchsorted(_EDGES, np.asarray(waits, dtype=np.float64), side="left")
    counts: list[int] = np.bincount(np.minimum(places, _BUCKETS)).tolist()
    return counts


def levels() -> list[int]:
    """Return the priorities, highest first."""
    return sorted(map(int, Priority), reverse=True)


def level_name(level: int) -> str:
    """Return the name of a priority, or `all`."""
    return "all" if level == ALL else priority_name(level)


def dense(histogram: Sequence[int]) -> npt.NDArray[np.float64]:
    """Return a histogram with all buckets."""
    full = np.zeros(_BUCKETS + 1)
    full[: len(histogram)] = histogram
    return full


def quantile(histograms: npt.NDArray[Any], share: float) -> npt.NDArray[np.float64]:
    """Estimate a quantile from each of several histograms, seconds; NaN for an empty one."""
    totals = histograms.sum(axis=-1, keepdims=True)
    below = np.cumsum(histograms, axis=-1)
    places = (below < share * totals).sum(axis=-1)
    middle = np.concatenate(([0.0], np.sqrt(_EDGES[:-1] * _EDGES[1:]), [_EDGES[-1]]))
    middle[1] = _FIRST_US / 2 if len(middle) > 1 else 0.0
    values = middle[np.minimum(places, len(middle) - 1)] / 1e6
    return np.where(totals[..., 0] > 0, values, np.nan)
