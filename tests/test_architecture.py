"""Checks of the import rules: arrows between and inside packages, and the purity of the core."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "tocsin"

#: The parts that each part may import, beside itself.
ARROWS: dict[str, set[str]] = {
    "core": set(),
    "ids": set(),
    "zstd": set(),
    "framing": set(),
    "form": set(),
    "frames": set(),
    "extract": {"zstd"},
    "policies": {"core", "frames"},
    "wire": {"core", "ids", "extract"},
    "journal": {"core", "policies", "zstd"},
    "client": {"core", "wire", "ids", "framing"},
    "hub": {"core", "wire", "policies", "ids", "journal", "frames", "extract", "client"},
    "gateways": {"extract", "framing", "core", "wire", "policies", "ids", "journal", "hub", "frames"},
    "pipeline": {"core", "policies", "extract", "zstd"},
    "lab": {"core", "policies", "journal", "pipeline", "zstd"},
    "cli": {
        "core",
        "form",
        "wire",
        "policies",
        "ids",
        "journal",
        "hub",
        "gateways",
        "client",
        "frames",
        "pipeline",
        "lab",
    },
    "__main__": {"cli"},
}
#: The packages of the core that the client may use: message format, errors, and the types of replies.
CLIENT_MAY_USE = {"protocol", "errors", "commands", "messages"}
#: The modules of the hub that may use the client: the embedded bus, where agents and host share a process.
EMBEDDED = {"embedded", "inprocess", "sync_embedded"}
#: The gateways stand side by side: each may import the modules in `gateways` itself, and these.
GATEWAY_ARROWS: dict[str, set[str]] = {
    "websocket": set(),
    "mcp": set(),
    "files": set(),
    "dashboard": set(),
    "http": {"websocket"},
}
#: Layers of the core, lowest first; a module imports its own layer and lower ones, beside the shared state.
CORE_DECLARATIONS = {"protocol", "policy", "events", "commands", "errors"}
#: What the core may import: nothing that reads a clock, draws a number, touches a file or a socket, or waits.
PURE = {
    "base64",
    "binascii",
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
    "operator",
    "re",
    "sys",
    "typing",
}

FILES = sorted(path for path in PACKAGE.rglob("*.py") if "vendor" not in path.parts)


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


def identity(path: Path) -> str:
    return str(path.relative_to(PACKAGE))


@pytest.mark.parametrize("path", [path for path in FILES if part_of(path) != "__init__"], ids=identity)
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
                assert name.split(".")[2] in CLIENT_MAY_USE, f"the client must not import {name}"
            if part == "hub" and other == "client":
                assert path.stem in EMBEDDED, f"only the embedded bus may import {name}"


@pytest.mark.parametrize("path", [path for path in FILES if part_of(path) == "gateways"], ids=identity)
def test_gateways_do_not_import_each_other(path: Path) -> None:
    parts = path.relative_to(PACKAGE / "gateways").parts
    own = parts[0] if len(parts) > 1 else None
    for name in imports(path):
        other = name.removeprefix("tocsin.gateways.").split(".")[0] if name.startswith("tocsin.gateways.") else None
        if other in GATEWAY_ARROWS:
            allowed = {own} | (GATEWAY_ARROWS[own] if own is not None else set())
            assert other in allowed, f"{identity(path)} must not import {name}"


@pytest.mark.parametrize("path", [path for path in FILES if part_of(path) == "core"], ids=identity)
def test_declarations_of_the_core_do_not_import_decisions(path: Path) -> None:
    parts = path.relative_to(PACKAGE / "core").parts
    if parts[0].removesuffix(".py") not in CORE_DECLARATIONS or path.stem == "negotiation":
        return  # negotiation writes messages of the state in an agent's version
    for name in imports(path):
        if name.startswith("tocsin.core."):
            other = name.split(".")[2]
            model = name.startswith("tocsin.core.messages.model")
            assert model or other in CORE_DECLARATIONS, f"{identity(path)} must not import {name}"


@pytest.mark.parametrize("path", [path for path in FILES if part_of(path) == "core"], ids=identity)
def test_the_core_is_pure(path: Path) -> None:
    for name in imports(path):
        if not name.startswith("tocsin."):
            assert name.split(".")[0] in PURE or name in PURE, f"{path.name} imports {name}"


@pytest.mark.parametrize("path", [path for path in FILES if part_of(path) == "wire"], ids=identity)
def test_the_table_of_operations_knows_no_transport(path: Path) -> None:
    for name in imports(path):
        assert name.split(".")[0] not in {"starlette", "uvicorn", "mcp", "typer", "websockets", "asyncio"}, name


def test_the_core_reads_no_clock() -> None:
    for path in FILES:
        if part_of(path) == "core":
            text = path.read_text(encoding="utf-8")
            for call in ("datetime.now(", "datetime.utcnow(", "datetime.today("):
                assert call not in text, f"{path.name} reads a clock"


def test_no_folder_is_crowded() -> None:
    """More than twenty modules in a folder hide what it is about."""
    for folder in {path.parent for path in FILES}:
        count = len([path for path in folder.glob("*.py") if path.name != "__init__.py"])
        assert count <= 27, f"{folder.relative_to(PACKAGE)} has {count} modules"


#: Words that the project no longer uses for its own things; the glossary has the present ones.
RETIRED = ("affair", "badge", "turnstile", "onlooker", "recollection", "whereabouts", "custody", "attendant", "pulse")
_QUESTION = re.compile(r"(What|How|Who|Where|Which|Whom|Why|When|Whether|Whatever)\b")


@pytest.mark.parametrize("path", FILES, ids=identity)
def test_a_module_says_what_it_contains(path: Path) -> None:
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    assert docstring or path.name == "__init__.py", f"{identity(path)} has no docstring"
    if docstring:
        assert not _QUESTION.match(docstring), f"{identity(path)} opens with a question: {docstring.splitlines()[0]}"


@pytest.mark.parametrize("path", FILES, ids=identity)
def test_retired_words_stay_away(path: Path) -> None:
    text = path.read_text(encoding="utf-8").lower()
    for word in RETIRED:
        assert not re.search(rf"\b{word}s?\b", text), f"{identity(path)} says {word}"
