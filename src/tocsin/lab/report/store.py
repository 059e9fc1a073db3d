"""Storage of reports: one folder each, with JSON, HTML page and policy files."""

import re
from pathlib import Path

import msgspec
import yaml

from tocsin.core.errors import refusal
from tocsin.lab.report.document import Report
from tocsin.lab.report.page import render
from tocsin.lab.tasks import write_atomically

__all__ = ["load_report", "save_report"]

_ID = re.compile(r"lab-[0-9a-f]{12}")


def save_report(folder: Path, report: Report) -> Path:
    """Save a report; return the path of its JSON file."""
    path = folder / "reports" / report.id / "report.json"
    for name, changes in report.changes.items():
        text = yaml.safe_dump(changes, sort_keys=False)
        write_atomically(path.parent / "policies" / f"{re.sub('[^A-Za-z0-9_.-]', '_', name)}.yaml", text.encode())
    write_atomically(path.parent / "report.html", render(report).encode())
    write_atomically(path, msgspec.json.format(msgspec.json.encode(report), indent=2) + b"\n")
    return path


def load_report(folder: Path, name: str) -> Report:
    """Read a saved report."""
    path = folder / "reports" / name / "report.json"
    if not _ID.fullmatch(name) or not path.exists():
        raise refusal("E_LAB_002", f"there is no report {name[:64]} in {folder}", found=name[:64])
    return msgspec.json.decode(path.read_bytes(), type=Report)
