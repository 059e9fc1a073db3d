"""Imports inside the pipeline package point one way."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "src" / "tocsin" / "pipeline"

#: The parts of the package that each part may import, beside itself.
ARROWS: dict[str, set[str]] = {
    "errors": set(),
    "settings": {"errors"},
    "engine": {"errors", "settings"},
    "tables": set(),
    "lake": {"errors", "settings", "tables"},
    "bronze": {"engine", "lake", "tables"},
    "silver": {"tables"},
    "facts": {"tables"},
    "views": {"facts", "tables"},
    "catalogue": {"engine", "facts", "lake", "settings", "silver", "tables", "views"},
    "advice": {"engine", "facts"},
    "report": {"advice", "engine", "facts"},
    "jobs": {"advice", "bronze", "catalogue", "engine", "errors", "facts", "lake", "settings", "silver", "tables"},
}
FILES = sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")


def part_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported_parts(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return {name.split(".")[2] for name in names if name.startswith("tocsin.pipeline.")}


def reachable(part: str) -> set[str]:
    found: set[str] = set()
    waiting = [part]
    while waiting:
        for other in ARROWS[waiting.pop()] - found:
            found.add(other)
            waiting.append(other)
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_a_module_imports_only_what_its_part_may(path: Path) -> None:
    part = part_of(path)
    assert part in ARROWS, f"{part} has no row in ARROWS"
    wrong = imported_parts(path) - ARROWS[part] - {part}
    assert not wrong, f"{path.relative_to(PACKAGE)} must not import {', '.join(sorted(wrong))}"


def test_every_row_is_needed() -> None:
    """A part or an arrow that no module uses any more leaves the table."""
    used: dict[str, set[str]] = {}
    for path in FILES:
        used.setdefault(part_of(path), set()).update(imported_parts(path) - {part_of(path)})
    assert used == ARROWS


@pytest.mark.parametrize("part", sorted(ARROWS))
def test_no_part_reaches_itself(part: str) -> None:
    assert part not in reachable(part)


def test_bronze_knows_nothing_of_the_layers_above_it() -> None:
    assert not reachable("bronze") & {"silver", "facts", "views", "catalogue", "advice", "report", "jobs"}
