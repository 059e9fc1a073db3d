"""Imports inside the lab package point one way."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "src" / "tocsin" / "lab"

#: The parts of the package that each part may import, beside itself.
ARROWS: dict[str, set[str]] = {
    "settings": set(),
    "scenario": set(),
    "traces": {"settings"},
    "replays": {"traces"},
    "figures": {"replays", "settings", "traces"},
    "parameters": set(),
    "scenario_traces": {"scenario", "settings", "traces"},
    "tasks": {"figures", "replays", "settings", "traces"},
    "runners": {"tasks"},
    "experiment": {"parameters", "replays", "runners", "settings", "tasks", "traces"},
    "search": {"experiment", "figures", "parameters", "runners"},
    "trial": {"figures", "replays", "settings", "traces"},
    "report": {"experiment", "figures", "runners", "search", "tasks"},
}
FILES = sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")


def part_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_a_module_imports_only_what_its_part_may(path: Path) -> None:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    imported = {name.split(".")[2] for name in names if name.startswith("tocsin.lab.")}
    wrong = imported - ARROWS[part_of(path)] - {part_of(path)}
    assert not wrong, f"{path.relative_to(PACKAGE)} must not import {', '.join(sorted(wrong))}"


def test_no_part_reaches_itself() -> None:
    for part in ARROWS:
        found: set[str] = set()
        waiting = [part]
        while waiting:
            for other in ARROWS[waiting.pop()] - found:
                found.add(other)
                waiting.append(other)
        assert part not in found
