"""What cards are made of: a frame, a table, something folded away."""

from collections.abc import Sequence
from html import escape

from tocsin.pipeline.report.contents import Row
from tocsin.pipeline.report.svg import Range

__all__ = ["PALETTE", "card", "details", "quantiles", "table"]

#: Colours of series that have none of their own.
PALETTE = tuple(f"s{index}" for index in range(8))


def card(title: str, line: str, content: str) -> str:
    """Frame a plot or a table with its title and its point; nothing around nothing."""
    if not content:
        return ""
    return f'<article class="card"><h3>{escape(title)}</h3><p class="line">{escape(line)}</p>{content}</article>'


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Write a table; nothing without rows."""
    if not rows:
        return ""
    top = "".join(f"<th>{escape(name)}</th>" for name in head)
    lines = "".join("<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    return f'<div class="scroll"><table><thead><tr>{top}</tr></thead><tbody>{lines}</tbody></table></div>'


def details(title: str, content: str) -> str:
    """Fold something away under its title."""
    return f"<details><summary>{escape(title)}</summary>{content}</details>" if content else ""


def quantiles(label: str, row: Row, target: int | None = None) -> Range:
    """Return a row of a table with a distribution as a row of a plot."""
    return Range(label, row["p50_us"], row["p95_us"], row["p99_us"], row["samples"], target)
