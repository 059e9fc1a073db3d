"""Every requirement names the tests that show it, and every named test exists."""

import sys
from pathlib import Path

import pytest

from tests.test_promises import names_in

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))
try:
    from requirements_page import Section, read_requirements
finally:
    sys.path.pop(0)

DOCUMENTS = read_requirements()
#: Headings of the documents, counted: a row may stand for several, but none may go.
FEWEST = {"USER": 3, "LIMINAL": 30, "SPEC-071": 28, "FRAMES": 20, "DECAY": 9, "APM": 40}


def problems(section: Section) -> list[str]:
    """List the tests of a section that do not exist."""
    found = []
    for test in section.tests:
        name, _, function = test.partition("::")
        file = ROOT / "tests" / name
        if not file.is_file() or function not in names_in(file):
            found.append(f"{section.section}: tests/{test} does not exist")
    return found


def test_every_named_test_exists() -> None:
    sections = [section for document in DOCUMENTS.values() for section in document.sections]
    assert [problem for section in sections for problem in problems(section)] == []


def test_every_document_is_listed_whole() -> None:
    assert {name: len(document.sections) >= FEWEST[name] for name, document in DOCUMENTS.items()} == dict.fromkeys(
        FEWEST, True
    )
    for name, document in DOCUMENTS.items():
        titles = [section.section for section in document.sections]
        assert len(set(titles)) == len(titles), name


def test_every_section_is_shown_or_says_why_not() -> None:
    for document in DOCUMENTS.values():
        for section in document.sections:
            assert section.kind in {"tests", "measured", "none", "missing"}


@pytest.mark.parametrize(
    "test", ["core/test_policy.py::test_something_that_nobody_wrote", "core/test_nothing.py::test_quotas"]
)
def test_a_test_that_is_not_there_is_noticed(test: str) -> None:
    assert problems(Section("1", tests=(test,))) == [f"1: tests/{test} does not exist"]


@pytest.mark.parametrize("section", [Section("1"), Section("1", none="a", missing="b")])
def test_a_section_with_no_reason_or_two_is_refused(section: Section) -> None:
    with pytest.raises(ValueError, match="exactly one of"):
        _ = section.kind
