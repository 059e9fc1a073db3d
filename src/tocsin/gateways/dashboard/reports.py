"""The lab's reports: a self-contained HTML page and a JSON document for each.

The HTML is not trusted, so it is served in a sandbox: without scripts, in an origin of its own, and without network
access. A report is a folder `<id>` with `report.html` and `report.json`, as the lab writes it, or a pair of `<id>.html`
and `<id>.json`. The JSON document may be missing; its `title`, `kind`, `made_at`, `projects` and the names of its
`policies` are used. A report about other projects only is not shown.
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
#: Content security policy of a page: display only.
SANDBOX = (
    "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; font-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
)
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
#: Text of a report's own document that is passed on.
_TEXT_MAX = 300


class ReportView(msgspec.Struct, frozen=True):
    """A report."""

    report: str
    title: str
    #: Kind of study, from the report's document.
    kind: str
    made_at: str
    bytes: int
    #: Path of its page.
    path: str


def reports_in(hub: Hub) -> list[ReportView]:
    """List the reports, newest first."""
    folder = _folder(hub)
    pages = {name: page for name in _names(folder) if (page := _page_of(folder, name)) is not None}
    newest = sorted(pages, key=lambda name: pages[name].stat().st_mtime, reverse=True)
    found: list[ReportView] = []
    for name in newest:
        document = _document(pages[name].with_suffix(".json"))
        if len(found) < hub.config.history.reports_max and _concerns(document, hub.host.project):
            found.append(_view(name, pages[name], document))
    return found


def report_routes(hub: Hub) -> list[Route]:
    """Return the route of report pages."""

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
    """Return the path of a report's page, if there is such a report."""
    if not _ID.fullmatch(name):
        return None
    paths = (folder / f"{name}.html", folder / name / "report.html")
    return next((path for path in paths if path.is_file()), None)


def _page(hub: Hub, name: str) -> bytes:
    path = _page_of(_folder(hub), name)
    if path is None or not _concerns(_document(path.with_suffix(".json")), hub.host.project):
        raise refusal("E_STATE_004", f"there is no report {name[:64]}", found=name[:64])
    return path.read_bytes()


def _concerns(document: dict[str, Any], project: str) -> bool:
    projects = document.get("projects")
    return not isinstance(projects, list) or not projects or project in projects


def _view(name: str, path: Path, document: dict[str, Any]) -> ReportView:
    stat = path.stat()
    return ReportView(
        report=name,
        title=_text(document.get("title")) or _titled(document) or name,
        kind=_text(document.get("kind")),
        made_at=_moment(document.get("made_at")) or datetime.fromtimestamp(stat.st_mtime, UTC).isoformat(),
        bytes=stat.st_size,
        path=PATH.format(report=name),
    )


def _titled(document: dict[str, Any]) -> str:
    """Return a title made of the policies that a report compares."""
    policies = document.get("policies")
    rows = policies if isinstance(policies, list) else []
    names = [str(row["name"]) for row in rows if isinstance(row, dict) and "name" in row]
    return ", ".join(names)[:_TEXT_MAX]


def _document(path: Path) -> dict[str, Any]:
    """Return a report's JSON document; empty if there is none."""
    try:
        found = msgspec.json.decode(path.read_bytes())
    except (OSError, msgspec.DecodeError):
        return {}
    return found if isinstance(found, dict) else {}


def _moment(value: Any) -> str | None:
    """Return a time of a report's document, if it is valid."""
    try:
        return datetime.fromisoformat(value).astimezone(UTC).isoformat()
    except (TypeError, ValueError):
        return None


def _text(value: Any) -> str:
    return value[:_TEXT_MAX] if isinstance(value, str) else ""
