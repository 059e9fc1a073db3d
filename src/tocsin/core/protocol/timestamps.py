"""Conversion between the core's microseconds, datetimes and ISO 8601."""

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final

__all__ = ["as_datetime", "as_datetime_or_none", "as_microseconds", "iso"]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
#: Below this, in the year 2041, seconds as a float are exact to the microsecond; the conversion of a float is faster.
_EXACT: Final = 1 << 51
_from_seconds: Final = datetime.fromtimestamp
_MILLISECONDS: Final = tuple([f".{number:03d}Z" for number in range(1000)])


def as_datetime(at: int) -> datetime:
    """Convert microseconds since the epoch to a UTC datetime."""
    if 0 <= at < _EXACT:
        return _from_seconds(at / 1_000_000, UTC)
    return _EPOCH + timedelta(microseconds=at)


def as_datetime_or_none(at: int | None) -> datetime | None:
    """Convert microseconds since the epoch; 0 and None both mean that it never happened."""
    return _EPOCH + timedelta(microseconds=at) if at else None


def as_microseconds(at: datetime) -> int:
    """Convert a datetime to microseconds since the epoch; one without a time zone is UTC."""
    # Dividing the difference by a microsecond takes more instructions in the compiled form.
    since = (at if at.tzinfo else at.replace(tzinfo=UTC)) - _EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def iso(moment_us: int) -> str:
    """Convert microseconds since the epoch to an ISO 8601 UTC timestamp, in milliseconds if that is exact."""
    rest = moment_us % 1_000_000
    # Formatting a number takes the compiled form longer than all the rest.
    fraction = _MILLISECONDS[rest // 1000] if rest % 1000 == 0 else f".{rest:06d}Z"
    return _second(moment_us // 1_000_000) + fraction


@lru_cache(maxsize=4096)
def _second(seconds: int) -> str:
    """Format a whole second; cached, because timestamps formatted at one time mostly share a few of them."""
    return (_EPOCH + timedelta(seconds=seconds)).isoformat(timespec="seconds")[:-6]
