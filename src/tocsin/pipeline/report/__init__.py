"""The report: one self-contained HTML file with plots, tables and advice."""

import os
import time
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any

import duckdb

from tocsin.pipeline.advice import Advised
from tocsin.pipeline.report.contents import read_contents
from tocsin.pipeline.report.page import render

__all__ = ["make_report", "write_report"]


def make_report(
    tables: duckdb.DuckDBPyConnection,
    advised: Mapping[str, Advised],
    status: Mapping[str, Any] | None = None,
    since: date | None = None,
    until: date | None = None,
    made_at: int | None = None,
) -> str:
    """Return the HTML page for the projects that were advised and the days from `since` to `until`.

    `tables` has the views by name; `status` is the result of the status job, for lag, quarantine and gaps.
    """
    contents = [read_contents(tables, project, advice, since, until) for project, advice in advised.items()]
    return render(contents, status, time.time_ns() // 1000 if made_at is None else made_at)


def write_report(path: Path, page: str) -> None:
    """Write a page atomically, replacing an older one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(page, encoding="utf-8")
    temporary.replace(path)
