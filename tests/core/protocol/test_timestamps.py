"""Times of replies: microseconds to UTC datetimes and back, exactly."""

from datetime import UTC, datetime, timedelta, timezone

from hypothesis import given
from hypothesis import strategies as st

from tests.core.driver import START
from tocsin.core.protocol.timestamps import as_datetime, as_datetime_or_none, as_microseconds


def test_a_time_is_a_utc_datetime() -> None:
    assert as_datetime(START + 1) == datetime(2025, 11, 12, 10, 0, 0, 1, tzinfo=UTC)
    assert as_datetime(START).tzinfo is UTC


@given(st.integers(0, 10**17))
def test_no_microsecond_is_lost(at: int) -> None:
    assert as_microseconds(as_datetime(at)) == at


def test_any_time_zone_is_understood_and_none_is_utc() -> None:
    east = timezone(timedelta(hours=2))
    assert as_microseconds(datetime(2025, 11, 12, 12, 0, tzinfo=east)) == START
    assert as_microseconds(datetime(2025, 11, 12, 10, 0)) == START


def test_what_never_happened_has_no_time() -> None:
    assert (as_datetime_or_none(0), as_datetime_or_none(None)) == (None, None)
    assert as_datetime_or_none(START) == as_datetime(START)
