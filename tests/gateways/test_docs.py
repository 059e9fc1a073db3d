"""The reference page names every operation, and what it does."""

from pathlib import Path

from tocsin.gateways.http.app import OPERATIONS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "http.md"


def test_the_reference_names_every_operation_and_no_other() -> None:
    rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| `") and " /" in line]
    assert rows == [f"| `{row.method} {row.path}` | {row.summary} | {row.tag} |" for row in OPERATIONS]
