"""SVG plots: bars over time, lines, ranges of quantiles and a matrix. Colours are the page's CSS variables.

All texts are escaped here, and the plots refer to nothing outside the page.
"""

import math
from collections.abc import Callable, Sequence
from html import escape

import msgspec

from tocsin.pipeline.report.formatting import clock, duration, ladder, moment, number

__all__ = ["Range", "Series", "legend", "matrix", "over_time", "ranges"]

_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 8, 10, 22
_SECOND_US = 1_000_000


class Series(msgspec.Struct, frozen=True):
    """One line, or one layer of stacked bars."""

    label: str
    #: Name of a CSS variable.
    colour: str
    values: Sequence[float | None]


class Range(msgspec.Struct, frozen=True):
    """One row of a plot of quantiles."""

    label: str
    p50: int
    p95: int
    p99: int
    samples: int
    #: Target value, if any.
    target: int | None = None


def legend(series: Sequence[Series]) -> str:
    """Return the legend of the series."""
    return (
        '<ul class="legend">'
        + "".join(f'<li><i style="background:var(--{s.colour})"></i>{escape(s.label)}</li>' for s in series)
        + "</ul>"
    )


def over_time(
    bars: Sequence[int],
    width_s: int,
    series: Sequence[Series],
    *,
    stacked: bool,
    log: bool = False,
    steps: bool = False,
    shown: Callable[[float | None], str] = number,
    title: str = "",
    width: int = 560,
    height: int = 190,
) -> str:
    """Draw stacked bars or lines over time; each bar has a tooltip with its values."""
    series = [one for one in series if any(value is not None for value in one.values)]
    if not bars or not series:
        return ""
    inner_w, inner_h = width - _LEFT - _RIGHT, height - _TOP - _BOTTOM
    slot = inner_w / len(bars)
    axis = _Axis([_totals(series)] if stacked else [s.values for s in series], inner_h, log=log)
    parts = [_open(width, height, title), *axis.grid(width, shown), *_time_labels(bars, width_s, slot, height)]
    if stacked:
        parts += _layers(series, slot, axis)
    else:
        parts += [_line(s, slot, axis, steps=steps) for s in series]
    for index, bar in enumerate(bars):
        values = [f"{s.label}: {shown(s.values[index])}" for s in series if s.values[index]]
        if values:
            tooltip = escape("\n".join([moment(bar), *values]))
            parts.append(
                f'<rect class="hit" x="{_LEFT + index * slot:.1f}" y="{_TOP}" width="{slot:.1f}" '
                f'height="{inner_h}"><title>{tooltip}</title></rect>'
            )
    return "".join([*parts, "</svg>"])


def _totals(series: Sequence[Series]) -> list[float]:
    return [sum(value or 0 for value in column) for column in zip(*(s.values for s in series), strict=True)]


class _Axis:
    """The vertical axis: maps values to positions."""

    def __init__(self, values: Sequence[Sequence[float | None]], height: int, *, log: bool) -> None:
        known = [value for some in values for value in some if value is not None and value > 0]
        self._height = height
        self._log = log
        self._low = 0.0
        if log:
            self._ticks = ladder(min(known, default=1), max(known, default=10))
            self._low, self._high = math.log10(self._ticks[0]), math.log10(self._ticks[-1])
        else:
            self._ticks = _nice(max(known, default=1))
            self._high = self._ticks[-1]

    def y(self, value: float) -> float:
        """Return the vertical position of a value."""
        at = math.log10(value) if self._log else value
        share = (at - self._low) / (self._high - self._low)
        return _TOP + self._height * (1 - min(1.0, max(0.0, share)))

    def grid(self, width: int, shown: Callable[[float | None], str]) -> list[str]:
        """Draw a line and a label at each tick."""
        parts = []
        for tick in _thinned(self._ticks):
            y = self.y(tick)
            parts.append(f'<line class="grid" x1="{_LEFT}" x2="{width - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
            parts.append(f'<text class="tick" x="{_LEFT - 6}" y="{y + 3.5:.1f}" text-anchor="end">{shown(tick)}</text>')
        return parts


def _thinned(ticks: Sequence[float]) -> list[float]:
    """Keep at most six ticks, the last among them."""
    every = math.ceil(len(ticks) / 6)
    return list(ticks[::-1][::every][::-1])


def _nice(highest: float) -> list[float]:
    """Return about four round ticks up to the highest value."""
    raw = max(highest, 1e-9) / 4
    power: float = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= raw - 1e-12)
    if step < 1 and highest >= 1:
        step = 1.0
    return [step * index for index in range(math.ceil(highest / step - 1e-9) + 1)]


def _time_labels(bars: Sequence[int], width_s: int, slot: float, height: int) -> list[str]:
    """Return the labels of the time axis, at round times."""
    every_s = next(
        (unit for unit in _ROUND_S if unit >= width_s and unit / width_s * slot >= 64), max(width_s, _ROUND_S[-1])
    )
    parts: list[str] = []
    for index, bar in enumerate(bars):
        if bar // _SECOND_US % every_s:
            continue
        x = _LEFT + index * slot
        if x > _LEFT + slot * len(bars) - 24:
            continue
        parts.append(
            f'<text class="tick" x="{x:.1f}" y="{height - 6}">{clock(bar, every_s, first=not parts)}</text>'
            f'<line class="mark" x1="{x:.1f}" x2="{x:.1f}" y1="{height - _BOTTOM}" y2="{height - _BOTTOM + 4}"/>'
        )
    if not parts:
        parts.append(f'<text class="tick" x="{_LEFT}" y="{height - 6}">{clock(bars[0], width_s, first=True)}</text>')
    return parts


_ROUND_S = (60, 300, 600, 900, 1800, 3600, 7200, 3 * 3600, 6 * 3600, 12 * 3600, 86_400, 2 * 86_400, 7 * 86_400)


def _layers(series: Sequence[Series], slot: float, axis: _Axis) -> list[str]:
    """Draw each layer as one path, to keep the page small."""
    base = [0.0] * len(series[0].values)
    parts = []
    gap = 1.0 if slot >= 4 else 0.0
    for one in series:
        path = []
        for index, value in enumerate(one.values):
            if value:
                x, top, bottom = _LEFT + index * slot, axis.y(base[index] + value), axis.y(base[index])
                path.append(f"M{x:.1f} {bottom:.1f}V{top:.1f}h{slot - gap:.1f}V{bottom:.1f}z")
                base[index] += value
        if path:
            parts.append(f'<path style="fill:var(--{one.colour})" d="{"".join(path)}"/>')
    return parts


def _line(series: Series, slot: float, axis: _Axis, *, steps: bool) -> str:
    """Draw a line with gaps for missing values; a single value is a dot."""
    path: list[str] = []
    dots: list[str] = []
    drawing = False
    values = [*series.values, None]
    for index, value in enumerate(series.values):
        if value is None or (value <= 0 and axis._log):
            drawing = False
            continue
        x, y = _LEFT + (index + (0 if steps else 0.5)) * slot, axis.y(value)
        if not drawing and values[index + 1] is None and not steps:
            dots.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="1.8" style="fill:var(--{series.colour})"/>')
            continue
        path.append(f"{'L' if drawing else 'M'}{x:.1f} {y:.1f}" + (f"h{slot:.1f}" if steps else ""))
        drawing = True
    line = f'<path class="line" style="stroke:var(--{series.colour})" d="{"".join(path)}"/>' if path else ""
    return line + "".join(dots)


def ranges(rows: Sequence[Range], *, title: str, width: int = 560) -> str:
    """Draw the median, 95th and 99th percentile of each row on a logarithmic time axis."""
    if not rows:
        return ""
    label_w, row_h = 190, 22
    height = _TOP + row_h * len(rows) + _BOTTOM
    known = [us for row in rows for us in (row.p50, row.p99, row.target or row.p99) if us > 0]
    marks = ladder(min(known, default=1), max(known, default=10))
    low, high = math.log10(marks[0]), math.log10(marks[-1])
    inner = width - label_w - 90

    def x(us: float) -> float:
        return label_w + inner * min(1.0, max(0.0, (math.log10(max(us, marks[0])) - low) / (high - low)))

    parts = [_open(width, height, title)]
    for mark in _thinned(marks):
        at = x(mark)
        parts.append(f'<line class="grid" x1="{at:.1f}" x2="{at:.1f}" y1="{_TOP}" y2="{height - _BOTTOM}"/>')
        parts.append(f'<text class="tick" x="{at:.1f}" y="{height - 6}" text-anchor="middle">{duration(mark)}</text>')
    for index, row in enumerate(rows):
        y = _TOP + row_h * index + row_h / 2
        tooltip = (
            f"{row.label}\n50 %: {duration(row.p50)}\n95 %: {duration(row.p95)}\n99 %: {duration(row.p99)}\n"
            f"of {number(row.samples)}"
        )
        parts.append(f'<text class="name" x="{label_w - 8}" y="{y + 4:.1f}" text-anchor="end">{_cut(row.label)}</text>')
        parts.append(
            f'<line class="thin" x1="{x(row.p50):.1f}" x2="{x(row.p99):.1f}" y1="{y:.1f}" y2="{y:.1f}"/>'
            f'<line class="thick" x1="{x(row.p50):.1f}" x2="{x(row.p95):.1f}" y1="{y:.1f}" y2="{y:.1f}"/>'
            f'<circle class="median" cx="{x(row.p50):.1f}" cy="{y:.1f}" r="4"/>'
        )
        if row.target:
            at = x(row.target)
            parts.append(f'<line class="target" x1="{at:.1f}" x2="{at:.1f}" y1="{y - 8:.1f}" y2="{y + 8:.1f}"/>')
        parts.append(f'<text class="tick" x="{width - 62}" y="{y + 4:.1f}">{duration(row.p95)}</text>')
        parts.append(
            f'<rect class="hit" x="0" y="{y - row_h / 2:.1f}" width="{width}" height="{row_h}">'
            f"<title>{escape(tooltip)}</title></rect>"
        )
    return "".join([*parts, "</svg>"])


def matrix(cells: dict[tuple[str, str], int], *, title: str, width: int = 560) -> str:
    """Draw the traffic matrix: rows send, columns receive, darker cells have more messages."""
    if not cells:
        return ""
    totals: dict[str, int] = {}
    for (sender, recipient), count in cells.items():
        totals[sender] = totals.get(sender, 0) + count
        totals[recipient] = totals.get(recipient, 0) + count
    names = sorted(totals, key=lambda name: (-totals[name], name))
    label_w, head_h = 120, 74
    # The label of the last column leans over the right edge of its cell.
    size = min(30.0, (width - label_w - 56) / len(names))
    height = math.ceil(head_h + size * len(names) + 10)
    most = max(cells.values())
    parts = [_open(width, height, title)]
    for index, name in enumerate(names):
        at = label_w + size * index + size / 2
        parts.append(
            f'<text class="name" transform="translate({at + 4:.1f} {head_h - 6}) rotate(-45)">{_cut(name, 13)}</text>'
        )
        y = head_h + size * index + size / 2 + 4
        parts.append(f'<text class="name" x="{label_w - 8}" y="{y:.1f}" text-anchor="end">{_cut(name, 18)}</text>')
    for row, sender in enumerate(names):
        for column, recipient in enumerate(names):
            count = cells.get((sender, recipient), 0)
            strength = 0.08 + 0.92 * math.sqrt(count / most) if count else 0.0
            colour = f'style="fill:var(--waiting);opacity:{strength:.2f}"' if count else 'class="empty"'
            tooltip = f"<title>{escape(f'{sender} to {recipient}: {number(count)}')}</title>" if count else ""
            parts.append(
                f'<rect {colour} x="{label_w + size * column:.1f}" y="{head_h + size * row:.1f}" '
                f'width="{size - 1.5:.1f}" height="{size - 1.5:.1f}" rx="2">{tooltip}</rect>'
            )
    return "".join([*parts, "</svg>"])


def _open(width: int, height: int, title: str) -> str:
    return f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{escape(title, quote=True)}">'


def _cut(text: str, most: int = 28) -> str:
    return escape(text if len(text) <= most else text[: most - 1] + "…")
