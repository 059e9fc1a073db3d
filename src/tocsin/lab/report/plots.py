"""SVG plots of the lab: confidence intervals and a Pareto front. All texts are escaped."""

import math
from collections.abc import Sequence
from html import escape

import msgspec

from tocsin.pipeline.report.formatting import number

__all__ = ["Mark", "Point", "front", "intervals"]

_WIDTH, _LEFT, _RIGHT, _TOP, _BOTTOM = 560, 190, 90, 10, 24


class Mark(msgspec.Struct, frozen=True):
    """One difference with its interval, relative to the first policy's figure."""

    label: str
    #: The change as text.
    text: str
    change: float
    low: float | None
    high: float | None
    sure: bool


class Point(msgspec.Struct, frozen=True):
    """One policy of a search."""

    label: str
    x: float
    y: float
    on_front: bool
    #: Whether it is the policy that the search started from.
    base: bool = False


def intervals(marks: Sequence[Mark], *, title: str) -> str:
    """Draw changes around zero, each with its interval; marks whose interval excludes zero are filled."""
    if not marks:
        return ""
    row = 22
    height = _TOP + row * len(marks) + _BOTTOM
    reach = max(max(abs(v) for v in (m.change, m.low or 0.0, m.high or 0.0)) for m in marks) or 1.0
    reach = min(reach, 2.0)
    inner = _WIDTH - _LEFT - _RIGHT

    def x(value: float) -> float:
        return _LEFT + inner * (0.5 + max(-1.0, min(1.0, value / reach)) / 2)

    parts = [_open(height, title)]
    for share in (-reach, -reach / 2, 0.0, reach / 2, reach):
        at = x(share)
        kind = "mark" if share == 0 else "grid"
        parts.append(f'<line class="{kind}" x1="{at:.1f}" x2="{at:.1f}" y1="{_TOP}" y2="{height - _BOTTOM}"/>')
        label = "0" if share == 0 else f"{share:+.0%}"
        parts.append(f'<text class="tick" x="{at:.1f}" y="{height - 8}" text-anchor="middle">{label}</text>')
    for index, mark in enumerate(marks):
        y = _TOP + row * index + row / 2
        colour = "available_now" if mark.change < 0 else "dead"
        fill = f"fill:var(--{colour})" if mark.sure else "fill:var(--card)"
        parts.append(
            f'<text class="name" x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{escape(mark.label)}</text>'
        )
        if mark.low is not None and mark.high is not None:
            parts.append(
                f'<line x1="{x(mark.low):.1f}" x2="{x(mark.high):.1f}" y1="{y:.1f}" y2="{y:.1f}" '
                f'style="stroke:var(--{colour});stroke-width:2"/>'
            )
        parts.append(
            f'<circle cx="{x(mark.change):.1f}" cy="{y:.1f}" r="4" '
            f'style="{fill};stroke:var(--{colour});stroke-width:1.5"><title>{escape(mark.text)}</title></circle>'
        )
        parts.append(f'<text class="tick" x="{_WIDTH - _RIGHT + 8}" y="{y + 4:.1f}">{escape(mark.text)}</text>')
    return "".join([*parts, "</svg>"])


def front(points: Sequence[Point], *, x_label: str, y_label: str, title: str) -> str:
    """Draw the evaluated points and the Pareto front."""
    points = [point for point in points if math.isfinite(point.x) and math.isfinite(point.y)]
    if not points:
        return ""
    height, left = 320, 60
    x_low, x_high = _ends([point.x for point in points])
    y_low, y_high = _ends([point.y for point in points])
    inner_w, inner_h = _WIDTH - left - 16, height - _TOP - 42

    def x(value: float) -> float:
        return left + inner_w * (value - x_low) / (x_high - x_low)

    def y(value: float) -> float:
        return _TOP + inner_h * (1 - (value - y_low) / (y_high - y_low))

    parts = [_open(height, title)]
    for step in range(5):
        along, up = x_low + (x_high - x_low) * step / 4, y_low + (y_high - y_low) * step / 4
        parts.append(f'<line class="grid" x1="{left}" x2="{_WIDTH - 16}" y1="{y(up):.1f}" y2="{y(up):.1f}"/>')
        beside, below = number(_round(up)), number(_round(along))
        parts.append(
            f'<text class="tick" x="{left - 6}" y="{y(up) + 4:.1f}" text-anchor="end">{beside}</text>'
            f'<text class="tick" x="{x(along):.1f}" y="{height - 26}" text-anchor="middle">{below}</text>'
        )
    best = sorted((point for point in points if point.on_front), key=lambda point: (point.x, -point.y))
    path = "".join(f"{'L' if index else 'M'}{x(point.x):.1f} {y(point.y):.1f}" for index, point in enumerate(best))
    parts.append(f'<path class="line" style="stroke:var(--s0)" d="{path}"/>')
    for point in points:
        fill = "s1" if point.base else "s0" if point.on_front else "s6"
        tooltip = f"{point.label}\n{x_label}: {number(_round(point.x))}\n{y_label}: {number(_round(point.y))}"
        parts.append(
            f'<circle cx="{x(point.x):.1f}" cy="{y(point.y):.1f}" r="{5 if point.on_front or point.base else 3}" '
            f'style="fill:var(--{fill})"><title>{escape(tooltip)}</title></circle>'
        )
    middle, across = left + inner_w / 2, escape(x_label)
    parts.append(f'<text class="name" x="{middle:.0f}" y="{height - 6}" text-anchor="middle">{across}</text>')
    parts.append(
        f'<text class="name" transform="translate(12 {_TOP + inner_h / 2:.0f}) rotate(-90)" text-anchor="middle">'
        f"{escape(y_label)}</text>"
    )
    return "".join([*parts, "</svg>"])


def _ends(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    pad = (high - low) * 0.06 or max(abs(high), 1.0) * 0.1
    return (max(0.0, low - pad) if low >= 0 else low - pad), high + pad


def _round(value: float) -> float:
    return float(f"{value:.3g}")


def _open(height: float, title: str) -> str:
    return f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{escape(title, quote=True)}">'
