"""Summary of the demo: results of the scenes, and figures from the pipeline's tables."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from demo.hub import DemoHub
from tocsin.core.protocol.priority import priority_name
from tocsin.extract import Index, Piece, read_index, read_rows

__all__ = ["summary"]

_STATES = ("available_now", "drained", "expired", "recalled", "dead", "pending_pickup", "waiting")


def summary(findings: dict[str, str], hub: DemoHub, report: Path | None) -> Group:
    """Return the summary."""
    parts: list[RenderableType] = [Rule("Results", style="dim"), Text()]
    for title, finding in findings.items():
        parts += [Text(title.capitalize(), style="bold"), Padding(Text(finding), (0, 0, 1, 2))]
    if report is not None:
        parts += [Rule("History", style="dim"), Text(), *_history(hub)]
    parts += [Rule(style="dim"), _links(hub, report)]
    return Group(*parts)


def _history(hub: DemoHub) -> Iterator[RenderableType]:
    """Read the pipeline's extract, as the dashboard does."""
    folder = hub.data / "warehouse" / "_extract"
    index = read_index(folder)
    if index is None:
        yield Text("The pipeline wrote no extract.")
        return
    states: Counter[str] = Counter()
    for row in _rows(folder, index, "signal_state"):
        states.update({name: row[name] for name in (*_STATES, "accepted", "undeliverable")})
    text = ", ".join(f"{states[name]} {name.replace('_', ' ')}" for name in _STATES if states[name])
    yield Text(f"{states['accepted']} messages were accepted: {text}.")
    codes: Counter[str] = Counter()
    for row in _rows(folder, index, "refusal"):
        codes[row["code"]] += row["refusals"]
    yield Text("Refused: " + (", ".join(f"{count} with {code}" for code, count in codes.items()) or "nothing") + ".")
    yield Padding(_latencies(folder, index), (1, 0))
    advice = [piece for pieces in index.advice.values() for piece in pieces]
    if advice:
        yield Text("Advice", style="bold")
        yield from (_piece(piece) for piece in advice[:4])
    else:
        yield Text("No advice: one minute of history is too short.")


def _latencies(folder: Path, index: Index) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0))
    for name in ("priority", "messages", "within target", "target", "longest"):
        table.add_column(name, justify="left" if name == "priority" else "right", header_style="dim")
    by_level: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for row in _rows(folder, index, "delivery_sla"):
        by_level[row["priority"]].append(row)
    for level, rows in sorted(by_level.items(), reverse=True):
        messages, within = sum(row["messages"] for row in rows), sum(row["within_target"] for row in rows)
        longest = max((row["max_us"] or 0 for row in rows), default=0)
        share = f"{within / messages:.0%}" if messages else ""
        target = f"{rows[0]['target_us'] / 1e6:g} s"
        table.add_row(priority_name(level), str(messages), share, target, f"{longest / 1e6:.2f} s")
    return table


def _rows(folder: Path, index: Index, name: str) -> Iterator[dict[str, Any]]:
    table = index.tables[name]
    columns = [column.name for column in table.columns]
    for part in table.parts:
        for row in read_rows(folder, part):
            yield dict(zip(columns, row, strict=True))


def _piece(piece: Piece) -> RenderableType:
    return Padding(Group(Text(piece.text), Text(piece.patch.strip(), style="dim")), (0, 0, 1, 2))


def _links(hub: DemoHub, report: Path | None) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_row("dashboard", Text(f"{hub.url}/", style="bold"))
    table.add_row("sign in with", f"the token in {hub.token_file}, as hugo, the human")
    if report is not None:
        table.add_row("report", str(report))
    return table
