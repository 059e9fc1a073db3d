"""The report: one self-contained HTML file on what the tables say, with plots and advice."""

import os
import time
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

from tocsin.pipeline.advice import Thresholds
from tocsin.pipeline.report.contents import Reader, read_contents
from tocsin.pipeline.report.page import render

__all__ = ["Reader", "make_report", "write_report"]


def make_report(
    read: Reader,
    projects: Sequence[str],
    status: Mapping[str, Any] | None = None,
    since: date | None = None,
    until: date | None = None,
    thresholds: Thresholds | None = None,
    made_at: int | None = None,
) -> str:
    """Return the page on some projects, of the days from `since` to `until`.

    `read` returns a table by name; `status` is what `tocsin pipeline status` says, for lag, quarantine and gaps.
    """
    contents = [read_contents(read, project, since, until, thresholds) for project in projects]
    return render(contents, status, time.time_ns() // 1000 if made_at is None else made_at)


def write_report(path: Path, page: str) -> None:
    """Write a page where there may be an older one: whoever reads sees the one or the other, whole."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(page, encoding="utf-8")
    temporary.replace(path)
