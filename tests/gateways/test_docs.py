"""The reference page lists every operation, every other endpoint and every error of HTTP."""

import re
from contextlib import AsyncExitStack
from pathlib import Path

from tests.gateways.hubs import registered_team
from tocsin.fleet.assembly import neighbours
from tocsin.gateways.http.app import ENDPOINTS
from tocsin.gateways.problems import HEAD_TIMEOUT
from tocsin.wire.problems import HTTP_ENTRIES
from tocsin.wire.table import OPERATIONS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "http.md"


def listed() -> list[tuple[str, ...]]:
    """Return heading, name, request and text of every row of an operation or endpoint."""
    rows: list[tuple[str, ...]] = []
    heading = ""
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("### "):
            heading = line[4:]
        elif found := re.fullmatch(r"\| `(\w+)` \| `([A-Z]+ /\S*)` \| (.+) \| [^|]+ \|", line):
            rows.append((heading, found[1], found[2], found[3]))
    return rows


async def test_the_reference_names_every_operation_and_no_other(tmp_path: Path) -> None:
    async with registered_team(tmp_path) as team:
        async with AsyncExitStack() as gateways:
            endpoints = (*ENDPOINTS, *(await neighbours(team.hub, gateways)).endpoints)
        wanted = {(row.tag.capitalize(), row.name, row.http, row.summary) for row in OPERATIONS.values()}
        wanted |= {("Other endpoints", row.name, row.http, row.summary) for row in endpoints}
        assert set(listed()) == wanted
        assert len(listed()) == len(OPERATIONS) + len(endpoints)


def test_the_reference_names_what_only_http_gets_wrong() -> None:
    text = PAGE.read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(E_HTTP_\d+)` \| `(\w+)` \| (.+) \| (\d+) \|$", text, re.MULTILINE)
    entries = [*HTTP_ENTRIES.values(), HEAD_TIMEOUT]
    assert rows == [(entry.code, entry.name, entry.title, str(entry.status)) for entry in entries]
