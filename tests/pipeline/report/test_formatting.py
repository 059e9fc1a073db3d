import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.pipeline.report.formatting import clock, duration, ladder, moment, number, share

MIDNIGHT = 1_772_409_600_000_000


@pytest.mark.parametrize(
    ("us", "text"),
    [
        (None, "–"),  # noqa: RUF001
        (0, "0"),
        (7, "7 µs"),
        (1_500, "1.5 ms"),
        (12_345, "12.3 ms"),
        (999_000, "999 ms"),
        (60_000_000, "1 min"),
        (90_000_000, "1.5 min"),
        (5_400_000_000, "1.5 h"),
        (604_800_000_000, "7 d"),
    ],
)
def test_a_time_is_written_in_the_unit_that_fits(us: int | None, text: str) -> None:
    assert duration(us) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (9_999, "9 999"), (10_000, "10k"), (12_345, "12.3k"), (2_500_000, "2.5M"), (0.25, "0.25")],
)
def test_a_count_is_shortened(value: float, text: str) -> None:
    assert number(value) == text


def test_a_share_never_hides_the_rest() -> None:
    assert share(1, 3) == "33.33 %"
    assert share(3, 3) == "100 %"
    assert share(0, 3) == "0 %"
    assert share(1, 10**6) == "<0.01 %"
    assert share(10**6 - 1, 10**6) == ">99.99 %"
    assert share(0, 0) == "–"  # noqa: RUF001


def test_moments_are_utc() -> None:
    assert moment(MIDNIGHT + 61_000_000) == "2026-03-02 00:01"
    assert clock(MIDNIGHT, 60, first=False) == "2 Mar"
    assert clock(MIDNIGHT + 3_600_000_000, 60, first=False) == "01:00"
    assert clock(MIDNIGHT + 3_600_000_000, 86_400, first=False) == "2 Mar"


@given(st.floats(0, 1e14), st.floats(0, 1e14))
def test_an_axis_holds_what_is_on_it(one: float, other: float) -> None:
    low, high = sorted((one, other))
    marks = ladder(low, high)
    assert len(marks) >= 2
    assert marks == sorted(marks)
    assert marks[0] <= max(low, 1)
    assert marks[-1] >= min(high, 864_000_000_000)
