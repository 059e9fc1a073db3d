"""Differences of policies and their intervals, on literal rows."""

import pytest

from tests.lab.histories import settings
from tocsin.lab.figures.comparison import Difference, compared, figures_of, windows_needed
from tocsin.lab.figures.measures import ALL, Row, measured
from tocsin.lab.replays.replay import Replay
from tocsin.lab.traces.message_history import MessageHistory
from tocsin.lab.traces.trace import RefusedSend

SECOND = 1_000_000


def history(requested: int, waited_s: float | None, **said: object) -> MessageHistory:
    offered = 0 if waited_s is None else 1 + round(waited_s * SECOND)
    fields = {"state": "delivered" if offered else "queued", "offers": int(bool(offered))} | said
    fields = {"priority": requested, "accepted_at": 1} | fields
    return MessageHistory("m", "ann", "bob", "T", requested, first_offered_at=offered, **fields)  # type: ignore[arg-type]


def rows(histories: list[MessageHistory], refused: list[RefusedSend] | None = None) -> list[Row]:
    replay = Replay(histories, refused or [], 3, 1, 10, 5, 0, roles={"bob": "director"})
    return measured(replay, 100 * SECOND, 60 * SECOND)


def difference(before: list[list[Row]], after: list[list[Row]], metric: str, level: int = 1) -> Difference:
    found = compared(before, after, settings(bootstrap_draws=500))
    return next(one for one in found if (one.metric, one.level) == (metric, level))


def test_a_window_is_counted() -> None:
    found = {
        row.level: row
        for row in rows(
            [
                history(1, 0.5),
                history(1, 70.0),
                history(1, None),
                history(0, None, state="expired", reason="ttl", ended_at=30 * SECOND),
                history(0, None, state="expired", reason="stale", ended_at=5 * SECOND, priority=-1),
                history(2, 1.0, state="dead", boosts=2, requeues=3),
            ],
            [RefusedSend("x", 1, "E_ADMISSION_001"), RefusedSend("y", 1, "E_ROUTING_001")],
        )
    }
    assert (found[1].sent, found[1].accepted, found[1].offered, found[1].starved) == (5, 3, 2, 2)
    assert (found[1].rate_limited, found[1].refused) == (1, 2)
    assert found[1].longest_us == 100 * SECOND - 1  # A message that still waits has waited until the end.
    assert (found[0].expired, found[0].stale) == (1, 1)
    assert (found[2].dead, found[2].boosts) == (1, 2)
    assert (found[2].retries, found[0].lowered) == (3, 1)
    assert (found[ALL].sent, found[ALL].escalations, found[ALL].deadlocks, found[ALL].director_load) == (8, 3, 1, 6)


def test_percentiles_are_right_to_a_few_per_cent() -> None:
    (figures,) = [row for row in figures_of([rows([history(1, float(s)) for s in range(1, 101)])]) if row.level == 1]
    assert figures.values["p50_s"] == pytest.approx(50, rel=0.04)
    assert figures.values["p99_s"] == pytest.approx(99, rel=0.04)
    assert figures.values["longest_s"] == 100.0


def test_a_difference_in_every_window_is_sure() -> None:
    before = [rows([history(1, 10.0 + day)] * 20) for day in range(6)]
    after = [rows([history(1, 5.0 + day)] * 20) for day in range(6)]
    found = difference(before, after, "p50_s")
    assert found.sure
    assert found.low is not None
    assert found.high is not None
    assert found.low <= found.change <= found.high < 0  # type: ignore[operator]
    assert found.change == pytest.approx(-5, rel=0.1)


def test_a_difference_that_comes_and_goes_is_not() -> None:
    before = [rows([history(1, 10.0)] * 20) for _ in range(6)]
    after = [rows([history(1, 5.0 if day % 2 else 20.0)] * 20) for day in range(6)]
    assert not difference(before, after, "p50_s").sure


@pytest.mark.parametrize("windows", [1, 2, 5])
def test_few_windows_have_no_interval(windows: int) -> None:
    """Two windows with the same sign are no evidence: by chance every second pair agrees."""
    found = difference([rows([history(1, 10.0)])] * windows, [rows([history(1, 5.0)])] * windows, "p50_s")
    assert (found.low, found.high, found.sure) == (None, None, False)
    assert found.change == pytest.approx(-5, rel=0.1)


def test_the_number_of_windows_follows_from_the_confidence() -> None:
    assert [windows_needed(level) for level in (0.5, 0.9, 0.95, 0.99)] == [2, 5, 6, 8]


def test_nothing_to_measure_is_nothing() -> None:
    found = difference([rows([])] * 2, [rows([])] * 2, "p99_s")
    assert (found.before, found.after, found.change) == (None, None, None)


def test_the_same_seed_draws_the_same_interval() -> None:
    before = [rows([history(1, 10.0 + day)] * 20) for day in range(6)]
    after = [rows([history(1, 9.0 + day * 1.3)] * 20) for day in range(6)]
    assert difference(before, after, "p50_s") == difference(before, after, "p50_s")


def test_no_percentile_is_above_the_longest_wait() -> None:
    """A percentile is the middle of its bucket, which may be above all values in it."""
    for waited_s in (1.0, 1.01, 1.02, 1.03, 1.04, 77.7):
        (figures,) = [row for row in figures_of([rows([history(1, waited_s)])]) if row.level == 1]
        assert (figures.values["p99_s"] or 0) <= (figures.values["longest_s"] or 0)
