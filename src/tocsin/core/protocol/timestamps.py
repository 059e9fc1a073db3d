"""Conversion between the core's microseconds and the datetimes of replies."""

from datetime import UTC, datetime, timedelta

__all__ = ["as_datetime", "as_datetime_or_none", "as_microseconds"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
#: Below this, in the year 2041, seconds as a float are exact to the microsecond; the conversion of a float is faster.
_EXACT = 1 << 51


def as_datetime(at: int) -> datetime:
    """Convert microseconds since the epoch to a UTC datetime."""
    if 0 <= at < _EXACT:
        return datetime.fromtimestamp(at / 1_000_000, UTC)
    return _EPOCH + timedelta(microseconds=at)


def as_datetime_or_none(at: int | None) -> datetime | None:
    """Convert microseconds since the epoch; 0 and None both mean that it never happened."""
    return _EPOCH + timedelta(microseconds=at) if at else None


def as_microseconds(at: datetime) -> int:
    """Convert a datetime to microseconds since the epoch; one without a time zone is UTC."""
    return ((at if at.tzinfo else at.replace(tzinfo=UTC)) - _EPOCH) // _MICROSECOND
