"""Every promise names the tests that show it, and every test that a page names exists."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PROMISES = sorted(path for path in (ROOT / "docs" / "promises").glob("*.md") if path.name != "README.md")
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
_NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
_FILE = re.compile(r"`(tests/[\w/.]+)`")


@cache
def names_in(path: Path) -> frozenset[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return frozenset(
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    )


def test_there_is_a_page_for_each_promise() -> None:
    assert [page.stem for page in PROMISES] == ["delivery", "durability", "order", "priority", "recall", "security"]
    index = (ROOT / "docs" / "promises" / "README.md").read_text(encoding="utf-8")
    for page in PROMISES:
        assert f"({page.name})" in index


@pytest.mark.parametrize("page", PROMISES, ids=lambda page: page.stem)
def test_every_promise_is_shown_by_a_test(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    holds, found, does_not = text.partition("\n## Not guaranteed\n")
    assert found, "the section of what is not guaranteed is missing"
    assert does_not.count("\n- ") >= 3
    rows = [line for line in holds.split("\n## Guarantees\n")[1].splitlines() if line.startswith("| ")][2:]
    assert len(rows) >= 8
    for row in rows:
        promise, shown = row.strip("| ").rsplit(" | ", 1)
        assert promise.endswith("."), row
        assert _NAMED.findall(shown), f"nothing shows that {promise}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_test_that_a_page_names_exists(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for name, test in _NAMED.findall(text):
        assert (ROOT / name).exists(), f"{name} is not there"
        assert test in names_in(ROOT / name), f"{name} has no {test}"
    for name in _FILE.findall(text):
        assert (ROOT / name).exists(), f"{name} is not there"


def test_a_test_that_is_not_there_would_be_noticed() -> None:
    assert names_in(Path(__file__)) >= {"test_a_test_that_is_not_there_would_be_noticed"}
    assert "test_something_that_nobody_wrote" not in names_in(Path(__file__))
