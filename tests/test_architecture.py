"""Arrows point one way, and the core is pure: the rules of the house, checked on the imports."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "tocsin"

#: Whom each part may import, beside itself. A part that is not here yet gets a line when it comes.
ARROWS: dict[str, set[str]] = {
    "core": set(),
    "policies": {"core", "frames"},
    "ids": set(),
    "extract": {"zstd"},
    "zstd": set(),
    "journal": {"core", "policies", "zstd"},
    "hub": {"core", "policies", "ids", "journal", "frames", "client"},
    "gateways": {"extract", "core", "policies", "ids", "journal", "hub", "frames", "dashboard"},
    "cli": {"core", "policies", "ids", "journal", "hub", "gateways", "client", "frames", "pipeline", "lab"},
    "client": {"core", "ids"},
    "frames": set(),
    "pipeline": {"core", "policies", "extract", "zstd"},
    "lab": {"core", "policies", "journal", "pipeline", "zstd"},
    "dashboard": set(),
    "__main__": {"cli"},
}
#: The parts of the core that the client may know: what an envelope is, and what can go wrong.
CLIENT_MAY_KNOW = {"protocol", "errors", "commands", "messages"}
#: What the core may import: nothing that reads a clock, draws a number, touches a file or a socket, or waits.
PURE = {
    "bisect",
    "collections",
    "collections.abc",
    "datetime",
    "difflib",
    "enum",
    "functools",
    "hashlib",
    "heapq",
    "itertools",
    "math",
    "msgspec",
    "re",
    "sys",
    "typing",
}

FILES = sorted(PACKAGE.rglob("*.py"))


def part_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name} imports relatively"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


@pytest.mark.parametrize("path", [path for path in FILES if part_of(path) != "__init__"], ids=str)
def test_arrows_point_one_way(path: Path) -> None:
    part = part_of(path)
    assert part in ARROWS, f"{part} has no line in ARROWS"
    for name in imports(path):
        if name.startswith("tocsin."):
            other = name.split(".")[1]
            if other == "__version__":
                continue
            assert other == part or other in ARROWS[part], f"{part} must not import {name}"
            if part == "client" and other == "core":
                assert name.split(".")[2] in CLIENT_MAY_KNOW, f"the client must not know {name}"


@pytest.mark.parametrize("path", [path for path in FILES if part_of(path) == "core"], ids=str)
def test_the_core_is_pure(path: Path) -> None:
    for name in imports(path):
        if not name.startswith("tocsin."):
            assert name.split(".")[0] in PURE or name in PURE, f"{path.name} imports {name}"


def test_the_core_reads_no_clock() -> None:
    for path in FILES:
        if part_of(path) == "core":
            text = path.read_text(encoding="utf-8")
            for call in ("datetime.now(", "datetime.utcnow(", "datetime.today("):
                assert call not in text, f"{path.name} reads a clock"
