"""The page of requirements and the tests that show them, from tests/requirements.yaml."""

from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import yaml

SOURCE = Path(__file__).resolve().parent.parent / "tests" / "requirements.yaml"


class Section(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A section or number of a document, with the tests that show it or the reason why there are none."""

    #: Number and title.
    section: str
    #: What it asks for, where the title does not say it.
    says: str = ""
    #: Tests, as file below tests/ and name.
    tests: tuple[str, ...] = ()
    #: The benches that give its figures.
    measured: str = ""
    #: Why nothing is asked for.
    none: str = ""
    #: What no test shows.
    missing: str = ""

    @property
    def kind(self) -> str:
        """Return how it is shown: `tests`, `measured`, `none` or `missing`."""
        given = [name for name in ("tests", "measured", "none", "missing") if getattr(self, name)]
        if len(given) != 1:
            raise ValueError(f"{self.section}: exactly one of tests, measured, none and missing is needed, not {given}")
        return given[0]


class Document(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One of the documents."""

    title: str
    sections: tuple[Section, ...]


def read_requirements(path: Path = SOURCE) -> dict[str, Document]:
    """Read the documents and their sections."""
    return msgspec.convert(yaml.safe_load(path.read_text(encoding="utf-8")), dict[str, Document])


def requirements() -> str:
    """Return a table of counts, what is missing, and one table per document."""
    documents = read_requirements()
    kinds = ("tests", "measured", "none", "missing")
    lines = [
        _row("document", "sections", "shown by tests", "measured", "nothing to show", "missing"),
        _row(*["---"] * 6),
    ]
    for name, document in documents.items():
        counts = Counter(section.kind for section in document.sections)
        lines.append(_row(f"{name}: {document.title}", len(document.sections), *(counts[kind] for kind in kinds)))
    lines += ["", "### Missing", ""]
    lines += [
        f"- {name}, {section.section}: {section.missing}."
        for name, document in documents.items()
        for section in document.sections
        if section.missing
    ] or ["Nothing."]
    for name, document in documents.items():
        lines += ["", f"### {name}: {document.title}", "", _row("section", "shown by"), _row("---", "---")]
        lines += [_row(_title(section), _shown(section)) for section in document.sections]
    return "\n".join(lines)


def _title(section: Section) -> str:
    return f"**{section.section}**" + (f"<br>{section.says}" if section.says else "")


def _shown(section: Section) -> str:
    return {
        "tests": "<br>".join(f"`tests/{test}`" for test in section.tests),
        "measured": f"`{section.measured}`",
        "none": f"nothing to show: {section.none}",
        "missing": f"**missing**: {section.missing}",
    }[section.kind]


def _row(*cells: Any) -> str:
    return "| " + " | ".join(str(cell) for cell in cells) + " |"
