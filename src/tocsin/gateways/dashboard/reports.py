"""The lab's reports: a self-contained page and a JSON document for each, shown as they are.

A page is somebody else's HTML, so it is served where it can do nothing: without scripts, in an origin of its own, and
without any way to reach out. A report is a folder `<id>` with `report.html` and `report.json`, as the lab keeps it, or
a pair of `<id>.html` and `<id>.json`. The document may be missing; what it says of `title`, `kind`, `made_at`,
`projects` and the names of its `policies` is used. A report about other projects only is nobody's business here.
"""

import asyncio
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tocsin.core.errors import TocsinError, refusal
from tocsin.gateways.http.identity import identify_reader, may_see_everything
from tocsin.gateways.http.problems import problem_response
from tocsin.hub.service import Hub

__all__ = ["PATH", "SANDBOX", "ReportView", "report_routes", "reports_in"]

PATH = "/dashboard/reports/{report}"
#: What a page may do: be looked at.
SANDBOX = (
    "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; font-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
)
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
#: Text of a report's own document that is passed on.
_WORDS_MAX = 300


class ReportView(msgspec.Struct, frozen=True):
    """A report that can be looked at."""

    report: str
    title: str
    #: What sort of study it is of, as it says itself.
    kind: str
    made_at: str
    bytes: int
    #: Where its page is.
    path: str


def reports_in(hub: Hub) -> list[ReportView]:
    """List the reports, newest first."""
    folder = _folder(hub)
    pages = {name: page for name in _names(folder) if (page := _page_of(folder, name)) is not None}
    newest = sorted(pages, key=lambda name: pages[name].stat().st_mtime, reverse=True)
    found: list[ReportView] = []
    for name in newest:
        said = _said(pages[name].with_suffix(".json"))
        if len(found) < hub.config.history.reports_max and _concerns(said, hub.host.project):
            found.append(_view(name, pages[name], said))
    return found


def report_routes(hub: Hub) -> list[Route]:
    """Return the route that shows a page."""

    async def show(request: Request) -> Response:
        try:
            grant = identify_reader(hub, request)
            if not may_see_everything(hub, grant):
                raise refusal("E_AUTH_003", f"{grant.agent} may not see reports: a director or a human may")
            page = await asyncio.to_thread(_page, hub, request.path_params["report"])
        except TocsinError as error:
            return problem_response(error.problem)
        headers = {
            "Content-Security-Policy": SANDBOX,
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "no-referrer",
            "Cache-Control": "no-store",
        }
        return Response(page, media_type="text/html; charset=utf-8", headers=headers)

    return [Route(PATH, show, methods=["GET"], name="report_page")]


def _folder(hub: Hub) -> Path:
    config = hub.config.history
    return Path(config.reports) if config.reports else hub.data / "lab" / "reports"


def _names(folder: Path) -> set[str]:
    if not folder.is_dir():
        return set()
    return {path.name.removesuffix(".html") for path in folder.iterdir() if path.suffix == ".html" or path.is_dir()}


def _page_of(folder: Path, name: str) -> Path | None:
    """Return where a report's page is, if there is such a report."""
    if not _ID.fullmatch(name):
        return None
    paths = (folder / f"{name}.html", folder / name / "report.html")
    return next((path for path in paths if path.is_file()), None)


def _page(hub: Hub, name: str) -> bytes:
    path = _page_of(_folder(hub), name)
    if path is None or not _concerns(_said(path.with_suffix(".json")), hub.host.project):
        raise refusal("E_STATE_004", f"there is no report {name[:64]}", found=name[:64])
    return path.read_bytes()


def _concerns(said: dict[str, Any], project: str) -> bool:
    projects = said.get("projects")
    return not isinstance(projects, list) or not projects or project in projects


def _view(name: str, path: Path, said: dict[str, Any]) -> ReportView:
    stat = path.stat()
    return ReportView(
        report=name,
        title=_words(said.get("title")) or _titled(said) or name,
        kind=_words(said.get("kind")),
        made_at=_moment(said.get("made_at")) or datetime.fromtimestamp(stat.st_mtime, UTC).isoformat(),
        bytes=stat.st_size,
        path=PATH.format(report=name),
    )


def _titled(said: dict[str, Any]) -> str:
    """Name a report by the policies that it compares."""
    policies = said.get("policies")
    rows = policies if isinstance(policies, list) else []
    names = [str(row["name"]) for row in rows if isinstance(row, dict) and "name" in row]
    return ", ".join(names)[:_WORDS_MAX]


def _said(path: Path) -> dict[str, Any]:
    """Return what a report says about itself, if it does."""
    try:
        found = msgspec.json.decode(path.read_bytes())
    except (OSError, msgspec.DecodeError):
        return {}
    return found if isinstance(found, dict) else {}


def _moment(value: Any) -> str | None:
    """Return a time that a report says, if it is one."""
    try:
        return datetime.fromisoformat(value).astimezone(UTC).isoformat()
    except (TypeError, ValueError):
        return None


def _words(value: Any) -> str:
    return value[:_WORDS_MAX] if isinstance(value, str) else ""
