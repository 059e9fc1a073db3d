"""Formatting of numbers, durations and times for the report."""

from datetime import UTC, datetime

__all__ = ["NOTHING", "clock", "duration", "figure", "ladder", "moment", "number", "share"]

#: Text for a missing value.
NOTHING = "\N{EN DASH}"
_STEPS = ((1, "µs"), (1_000, "ms"), (1_000_000, "s"), (60_000_000, "min"), (3_600_000_000, "h"), (86_400_000_000, "d"))
_GROUPS = ((1_000_000_000, "G"), (1_000_000, "M"), (10_000, "k"))


def duration(microseconds: float | None) -> str:
    """Format a duration in a fitting unit."""
    if microseconds is None:
        return NOTHING
    if microseconds <= 0:
        return "0"
    unit, name = next(((unit, name) for unit, name in reversed(_STEPS) if microseconds >= unit), _STEPS[0])
    return f"{_three(microseconds / unit)} {name}"


#: Marks of a logarithmic time axis, microseconds: powers of ten up to ten seconds, then minutes, hours and days.
_LADDER = (
    *(1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000),
    *(60_000_000, 600_000_000, 3_600_000_000, 36_000_000_000, 86_400_000_000, 864_000_000_000),
)


def ladder(low: float, high: float) -> list[float]:
    """Return the marks of a time axis that includes `low` and `high`; at least two."""
    first = max((index for index, mark in enumerate(_LADDER) if mark <= low), default=0)
    last = next((index for index, mark in enumerate(_LADDER) if mark >= high), len(_LADDER) - 1)
    marks = list(_LADDER[first : max(last, first + 1) + 1]) or list(_LADDER[-2:])
    return [float(mark) for mark in (marks if len(marks) > 1 else _LADDER[-2:])]


def number(value: float | None) -> str:
    """Format a count; from ten thousand on in thousands, millions or billions."""
    if value is None:
        return NOTHING
    for unit, name in _GROUPS:
        if abs(value) >= unit:
            return f"{_three(value / (1000 if name == 'k' else unit))}{name}"
    return f"{value:,.0f}".replace(",", " ") if value == int(value) else _three(value)


def _three(value: float) -> str:
    """Format a number with three significant digits."""
    digits = 0 if value >= 100 else 1 if value >= 10 else 2
    text = f"{value:.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def figure(name: str, value: float) -> str:
    """Format a figure of a table; those whose names begin with a column in `_us` are durations."""
    return duration(value) if name.split(" ")[0].endswith("_us") else number(float(f"{value:.4g}"))


def share(part: float | None, whole: float | None) -> str:
    """Format a share in per cent; it is never rounded to 0 % or 100 %."""
    if not whole or part is None:
        return NOTHING
    percent = 100 * part / whole
    if 0 < percent < 0.01:
        return "<0.01 %"
    if 99.99 < percent < 100:
        return ">99.99 %"
    return f"{percent:.2f}".rstrip("0").rstrip(".") + " %"


def moment(microseconds: int) -> str:
    """Format a time, to the minute, in UTC."""
    return f"{datetime.fromtimestamp(microseconds // 1_000_000, UTC):%Y-%m-%d %H:%M}"


def clock(microseconds: int, width_s: int, *, first: bool) -> str:
    """Format the label of a bar: the date at midnight, for the first bar and for bars of days, else the time."""
    at = datetime.fromtimestamp(microseconds // 1_000_000, UTC)
    if width_s >= 86_400 or first or (at.hour == 0 and at.minute == 0):
        return f"{at.day} {at:%b}"
    return f"{at:%H:%M}"
