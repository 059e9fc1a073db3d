"""The reference page names every operation, and what it does."""

import re
from pathlib import Path

from tocsin.gateways.http.app import OPERATIONS
from tocsin.gateways.problems import HEAD_TIMEOUT, HTTP_ENTRIES

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "http.md"


def test_the_reference_names_every_operation_and_no_other() -> None:
    rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| `") and " /" in line]
    assert rows == [f"| `{row.method} {row.path}` | {row.summary} | {row.tag} |" for row in OPERATIONS]


def test_the_reference_names_what_only_http_gets_wrong() -> None:
    text = PAGE.read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(E_HTTP_\d+)` \| `(\w+)` \| (.+) \| (\d+) \|$", text, re.MULTILINE)
    entries = [*HTTP_ENTRIES.values(), HEAD_TIMEOUT]
    assert rows == [(entry.code, entry.name, entry.title, str(entry.status)) for entry in entries]
