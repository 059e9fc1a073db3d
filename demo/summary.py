"""What happened, on one page in plain words: what the acts found, and what the tables say of all of it."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from demo.stage import Stage
from tocsin.core.protocol.priority import liminal_name
from tocsin.extract import Index, Piece, read_index, read_rows

__all__ = ["page"]

_FATES = ("available_now", "drained", "expired", "recalled", "dead", "pending_pickup", "waiting")


def page(findings: dict[str, str], scene: Stage, report: Path | None) -> Group:
    """Lay out the page."""
    parts: list[RenderableType] = [Rule("What happened", style="dim"), Text()]
    for title, finding in findings.items():
        parts += [Text(title.capitalize(), style="bold"), Padding(Text(finding), (0, 0, 1, 2))]
    if report is not None:
        parts += [Rule("What history says", style="dim"), Text(), *_history(scene)]
    parts += [Rule(style="dim"), _doors(scene, report)]
    return Group(*parts)


def _history(scene: Stage) -> Iterator[RenderableType]:
    """Read the pipeline's extract, as the dashboard does."""
    folder = scene.data / "warehouse" / "_extract"
    index = read_index(folder)
    if index is None:
        yield Text("The pipeline has left nothing to read.")
        return
    fates: Counter[str] = Counter()
    for row in _rows(folder, index, "signal_state"):
        fates.update({name: row[name] for name in (*_FATES, "accepted", "undeliverable")})
    told = ", ".join(f"{fates[name]} {name.replace('_', ' ')}" for name in _FATES if fates[name])
    yield Text(f"{fates['accepted']} messages were accepted: {told}.")
    codes: Counter[str] = Counter()
    for row in _rows(folder, index, "refusal"):
        codes[row["code"]] += row["refusals"]
    yield Text("Refused: " + (", ".join(f"{count} with {code}" for code, count in codes.items()) or "nothing") + ".")
    yield Padding(_latencies(folder, index), (1, 0))
    advice = [piece for pieces in index.advice.values() for piece in pieces]
    if advice:
        yield Text("Its advice", style="bold")
        yield from (_piece(piece) for piece in advice[:4])
    else:
        yield Text("It has no advice: a minute is too short a history.")


def _latencies(folder: Path, index: Index) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0))
    for name in ("priority", "messages", "offered within", "promised", "longest"):
        table.add_column(name, justify="left" if name == "priority" else "right", header_style="dim")
    by_level: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for row in _rows(folder, index, "delivery_sla"):
        by_level[row["priority"]].append(row)
    for level, rows in sorted(by_level.items(), reverse=True):
        messages, within = sum(row["messages"] for row in rows), sum(row["within_target"] for row in rows)
        longest = max((row["max_us"] or 0 for row in rows), default=0)
        share = f"{within / messages:.0%}" if messages else ""
        target = f"{rows[0]['target_us'] / 1e6:g} s"
        table.add_row(liminal_name(level), str(messages), share, target, f"{longest / 1e6:.2f} s")
    return table


def _rows(folder: Path, index: Index, name: str) -> Iterator[dict[str, Any]]:
    table = index.tables[name]
    columns = [column.name for column in table.columns]
    for part in table.parts:
        for row in read_rows(folder, part):
            yield dict(zip(columns, row, strict=True))


def _piece(piece: Piece) -> RenderableType:
    return Padding(Group(Text(piece.text), Text(piece.patch.strip(), style="dim")), (0, 0, 1, 2))


def _doors(scene: Stage, report: Path | None) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_row("dashboard", Text(f"{scene.url}/", style="bold"))
    table.add_row("sign in with", f"the token in {scene.browser_session}, as hugo, the human")
    if report is not None:
        table.add_row("as a file", str(report))
    return table
