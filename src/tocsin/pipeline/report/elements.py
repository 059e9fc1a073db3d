"""HTML elements of the report: card, table and collapsible section."""

from collections.abc import Sequence
from html import escape

from tocsin.pipeline.report.contents import Row
from tocsin.pipeline.report.svg import Range

__all__ = ["PALETTE", "card", "details", "quantiles", "table"]

#: CSS variables for series without a fixed colour.
PALETTE = tuple(f"s{index}" for index in range(8))


def card(title: str, line: str, content: str) -> str:
    """Return a card with a title, a summary line and its content; empty without content."""
    if not content:
        return ""
    return f'<article class="card"><h3>{escape(title)}</h3><p class="line">{escape(line)}</p>{content}</article>'


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return an HTML table; empty without rows."""
    if not rows:
        return ""
    top = "".join(f"<th>{escape(name)}</th>" for name in head)
    lines = "".join("<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    return f'<div class="scroll"><table><thead><tr>{top}</tr></thead><tbody>{lines}</tbody></table></div>'


def details(title: str, content: str) -> str:
    """Return a collapsible section; empty without content."""
    return f"<details><summary>{escape(title)}</summary>{content}</details>" if content else ""


def quantiles(label: str, row: Row, target: int | None = None) -> Range:
    """Return the plot row for a table row with a distribution."""
    return Range(label, row["p50_us"], row["p95_us"], row["p99_us"], row["samples"], target)
