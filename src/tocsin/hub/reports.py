"""Reports of the pipeline and the lab on disk: which exist, and their pages.

A report is a folder `<id>` with `report.html` and `report.json`, or a pair of `<id>.html` and `<id>.json`. The JSON
document is optional; its `title`, `kind`, `made_at`, `projects` and the names of its `policies` are used. A report
about other projects only is not listed; a scenario is made up, so its reports are about no project.
"""

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from tocsin.core.errors import refusal
from tocsin.wire.archive import ReportRecord

if TYPE_CHECKING:
    from tocsin.hub.service import Hub

__all__ = ["REPORT_PATH", "read_report", "reports_in"]

#: URL path of a report's page.
REPORT_PATH = "/dashboard/reports/{report}"
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
#: Where reports are, in the data directory: those of the pipeline, then those of the lab.
_FOLDERS = ("reports", "lab/reports")
#: Kinds of reports about simulated messages.
_SIMULATED = frozenset({"scenario"})
#: Characters of a report's own texts that are returned.
_TEXT_MAX = 300


def reports_in(hub: "Hub") -> list[ReportRecord]:
    """List the reports of a project, newest first."""
    folders = _folders(hub)
    names = set[str]().union(*map(_names, folders))
    pages = {name: page for name in names if (page := _page_of(folders, name)) is not None}
    newest = sorted(pages, key=lambda name: pages[name].stat().st_mtime, reverse=True)
    found: list[ReportRecord] = []
    for name in newest:
        said = _said(pages[name].with_suffix(".json"))
        if len(found) < hub.config.history.reports_max and _concerns(said, hub.host.project):
            found.append(_view(name, pages[name], said))
    return found


def _folders(hub: "Hub") -> list[Path]:
    config = hub.config.history
    return [Path(config.reports)] if config.reports else [hub.data / name for name in _FOLDERS]


def _names(folder: Path) -> set[str]:
    if not folder.is_dir():
        return set()
    return {path.name.removesuffix(".html") for path in folder.iterdir() if path.suffix == ".html" or path.is_dir()}


def _page_of(folders: list[Path], name: str) -> Path | None:
    """Return where a report's page is, if there is such a report."""
    if not _ID.fullmatch(name):
        return None
    paths = (path for folder in folders for path in (folder / f"{name}.html", folder / name / "report.html"))
    return next((path for path in paths if path.is_file()), None)


def read_report(hub: "Hub", name: str) -> bytes:
    """Return the page of a report."""
    path = _page_of(_folders(hub), name)
    if path is None or not _concerns(_said(path.with_suffix(".json")), hub.host.project):
        raise refusal("E_STATE_004", f"there is no report {name[:64]}", found=name[:64])
    return path.read_bytes()


def _concerns(said: dict[str, Any], project: str) -> bool:
    projects, search = said.get("projects"), said.get("search")
    # A search on recorded messages has a fidelity; one on a scenario has none.
    simulated = said.get("kind") in _SIMULATED or (search is not None and said.get("fidelity") is None)
    return simulated or not isinstance(projects, list) or not projects or project in projects


def _view(name: str, path: Path, said: dict[str, Any]) -> ReportRecord:
    stat = path.stat()
    return ReportRecord(
        report=name,
        title=_words(said.get("title")) or _titled(said) or name,
        kind=_words(said.get("kind")),
        made_at=_moment(said.get("made_at")) or datetime.fromtimestamp(stat.st_mtime, UTC).isoformat(),
        bytes=stat.st_size,
        path=REPORT_PATH.format(report=name),
    )


def _titled(said: dict[str, Any]) -> str:
    """Name a report by the policies that it compares."""
    policies = said.get("policies")
    rows = policies if isinstance(policies, list) else []
    names = [str(row["name"]) for row in rows if isinstance(row, dict) and "name" in row]
    return ", ".join(names)[:_TEXT_MAX]


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
    return value[:_TEXT_MAX] if isinstance(value, str) else ""
