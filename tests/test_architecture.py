"""Checks of the import rules: arrows between and inside packages, and the purity of the core."""

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cache
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
    "process_groups": set(),
    "frames": set(),
    "extract": {"zstd"},
    "policies": {"core", "frames"},
    "wire": {"core", "ids", "extract"},
    "journal": {"core", "policies", "zstd"},
    "client": {"core", "wire", "ids", "framing"},
    "hub": {"core", "wire", "policies", "ids", "journal", "frames", "extract", "client", "process_groups"},
    "gateways": {"extract", "framing", "core", "wire", "policies", "ids", "journal", "hub", "frames"},
    "fleet": {"core", "wire", "policies", "ids", "journal", "hub", "gateways"},
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
        "fleet",
        "client",
        "frames",
        "pipeline",
        "lab",
        "process_groups",
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
    # For the type checker and mypyc only.
    "mypy_extensions",
    "operator",
    "re",
    "sys",
    "typing",
}

FILES = sorted(path for path in PACKAGE.rglob("*.py") if "vendor" not in path.parts)
#: Code that uses the package as anyone else would.
USERS = sorted(path for folder in ("tests", "bench") for path in (ROOT / folder).rglob("*.py"))
#: Names with a leading underscore that tests and benchmarks may use nevertheless, each with the reason.
PRIVATE_NAMES = {
    "_replace": "a method of every named tuple, documented",
    "_exit": "os._exit, documented",
    "_set_running_loop": "asyncio exports it for code that runs loops by itself, as Playwright's does",
    "_putter": "persist-queue has no public way to put a batch",
    "_sql_insert": "persist-queue has no public way to put a batch",
}


def part_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


@cache
def source(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(source(path))


@cache
def imports(path: Path) -> frozenset[str]:
    found: set[str] = set()
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name} imports relatively"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return frozenset(found)


def identity(path: Path) -> str:
    return str(path.relative_to(PACKAGE))


def of(*parts: str) -> list[Path]:
    return [path for path in FILES if part_of(path) in parts]


def none(problems: Iterable[str]) -> None:
    """Fail with all problems at once, one per line."""
    found = sorted(problems)
    assert not found, "\n" + "\n".join(found)


def arrow_problems(path: Path) -> Iterator[str]:
    part = part_of(path)
    if part not in ARROWS:
        yield f"{part} has no line in ARROWS"
        return
    for name in imports(path):
        if not name.startswith("tocsin.") or name.startswith("tocsin.__version__"):
            continue
        other = name.split(".")[1]
        if other != part and other not in ARROWS[part]:
            yield f"{identity(path)} must not import {name}"
        if part == "client" and other == "core" and name.split(".")[2] not in CLIENT_MAY_USE:
            yield f"{identity(path)} must not import {name}: of the client"
        if part == "hub" and other == "client" and path.stem not in EMBEDDED:
            yield f"{identity(path)} must not import {name}: only the embedded bus may"


def test_arrows_point_one_way() -> None:
    none(problem for path in FILES if part_of(path) != "__init__" for problem in arrow_problems(path))


def test_a_wrong_arrow_would_be_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{__name__}.PACKAGE", tmp_path)
    wrong = tmp_path / "core" / "wrong.py"
    wrong.parent.mkdir()
    wrong.write_text("from tocsin.hub import embedded\n")
    assert list(arrow_problems(wrong)) == ["core/wrong.py must not import tocsin.hub.embedded"]


def gateway_problems(path: Path) -> Iterator[str]:
    parts = path.relative_to(PACKAGE / "gateways").parts
    own = parts[0] if len(parts) > 1 else None
    allowed = {own} | (GATEWAY_ARROWS[own] if own is not None else set())
    for name in imports(path):
        other = name.removeprefix("tocsin.gateways.").split(".")[0] if name.startswith("tocsin.gateways.") else None
        if other in GATEWAY_ARROWS and other not in allowed:
            yield f"{identity(path)} must not import {name}"


def test_gateways_do_not_import_each_other() -> None:
    none(problem for path in of("gateways") for problem in gateway_problems(path))


def declaration_problems(path: Path) -> Iterator[str]:
    parts = path.relative_to(PACKAGE / "core").parts
    if parts[0].removesuffix(".py") not in CORE_DECLARATIONS or path.stem == "negotiation":
        return  # negotiation writes messages of the state in an agent's version
    for name in imports(path):
        if name.startswith("tocsin.core."):
            other = name.split(".")[2]
            if other not in CORE_DECLARATIONS and not name.startswith(
                ("tocsin.core.messages.message", "tocsin.core.messages.model")
            ):
                yield f"{identity(path)} must not import {name}"


def test_declarations_of_the_core_do_not_import_decisions() -> None:
    none(problem for path in of("core") for problem in declaration_problems(path))


def test_the_core_is_pure() -> None:
    none(
        f"{identity(path)} imports {name}"
        for path in of("core")
        for name in imports(path)
        if not name.startswith("tocsin.") and name.split(".")[0] not in PURE and name not in PURE
    )


def test_the_table_of_operations_knows_no_transport() -> None:
    transports = {"starlette", "uvicorn", "mcp", "typer", "websockets", "asyncio"}
    none(
        f"{identity(path)} imports {name}"
        for path in of("wire")
        for name in imports(path)
        if name.split(".")[0] in transports
    )


def test_the_core_reads_no_clock() -> None:
    for path in FILES:
        if part_of(path) == "core":
            text = source(path)
            for call in ("datetime.now(", "datetime.utcnow(", "datetime.today("):
                assert call not in text, f"{path.name} reads a clock"


def test_no_folder_is_crowded() -> None:
    """More than twenty modules in a folder hide what it is about."""
    for folder in {path.parent for path in FILES}:
        count = len([path for path in folder.glob("*.py") if path.name != "__init__.py"])
        assert count <= 27, f"{folder.relative_to(PACKAGE)} has {count} modules"


#: Functions that take the name of an attribute as a text.
_BY_NAME = {"getattr", "setattr", "hasattr", "delattr"}


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__") and name not in PRIVATE_NAMES


def is_own(node: ast.expr) -> bool:
    """Return whether an expression is the object that a method belongs to, or its base class."""
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id == "super"
    return isinstance(node, ast.Name) and node.id in ("self", "cls")


def private_names(node: ast.AST) -> Iterator[str]:
    """Return the private names of other objects and modules that a piece of code uses."""
    if isinstance(node, ast.Attribute) and not is_own(node.value):
        yield node.attr
    elif isinstance(node, ast.ImportFrom):
        yield from (node.module or "").split(".")
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.Import):
        yield from (part for alias in node.names for part in alias.name.split("."))
    elif isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) in _BY_NAME:
        texts = [one.value for one in node.args[:2] if isinstance(one, ast.Constant)]
        yield from (part for text in texts if isinstance(text, str) for part in text.split("."))


def private_problems(path: Path) -> Iterator[str]:
    for node in ast.walk(tree(path)):
        for name in private_names(node):
            if is_private(name):
                yield f"{path.name}:{getattr(node, 'lineno', 0)} uses {name}: use what is public, or make it public"


def test_tests_and_benchmarks_use_what_is_public() -> None:
    none(problem for path in USERS for problem in private_problems(path))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("agent._inbox.window", True),
        ("self.agent._inbox", True),
        ("patch.setattr(agent, '_inbox', None)", True),
        ("patch.setattr('tocsin.client.agent._PLAIN', None)", True),
        ("getattr(agent, '_inbox')", True),
        ("from tocsin.client.agent import _PLAIN", True),
        ("self._inbox", False),
        ("super()._put(1)", False),
        ("agent.__class__", False),
        ("pair._replace(one=1)", False),
    ],
)
def test_a_use_of_something_private_would_be_noticed(tmp_path: Path, text: str, found: bool) -> None:
    wrong = tmp_path / "test_wrong.py"
    wrong.write_text(f"{text}\n")
    assert bool(list(private_problems(wrong))) == found


#: Words that the project no longer uses for its own things; the glossary has the present ones.
RETIRED = ("affair", "badge", "turnstile", "onlooker", "recollection", "whereabouts", "custody", "attendant", "pulse")
_QUESTION = re.compile(r"(What|How|Who|Where|Which|Whom|Why|When|Whether|Whatever)\b")


def docstring_problems(path: Path) -> Iterator[str]:
    docstring = ast.get_docstring(tree(path))
    if not docstring and path.name != "__init__.py":
        yield f"{identity(path)} has no docstring"
    if docstring and _QUESTION.match(docstring):
        yield f"{identity(path)} opens with a question: {docstring.splitlines()[0]}"


def test_a_module_says_what_it_contains() -> None:
    none(problem for path in FILES for problem in docstring_problems(path))


def test_retired_words_stay_away() -> None:
    retired = re.compile(rf"\b({'|'.join(RETIRED)})s?\b")
    none(f"{identity(path)} says {word}" for path in FILES for word in retired.findall(source(path).lower()))
