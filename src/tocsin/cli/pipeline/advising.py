"""Advice of the pipeline's commands: rules on the tables, each recommendation tried by the lab on the same history."""

import time
from collections.abc import Sequence
from datetime import date
from pathlib import Path

import duckdb

from tocsin.cli.pipeline.options import OPTIONS
from tocsin.core.errors import TocsinError
from tocsin.lab.settings import load_settings
from tocsin.lab.traces.event_sources import Source, find_source
from tocsin.lab.trial import try_advice
from tocsin.pipeline.advice import ADVICE_VIEWS, Advised, advise_on, policy_in_force
from tocsin.pipeline.catalogue import open_tables
from tocsin.pipeline.lake.storage import open_storage
from tocsin.pipeline.lake.warehouse import Warehouse

__all__ = ["Adviser", "advice_from", "advice_on"]


def advice_on(
    warehouse: Warehouse, projects: Sequence[str] | None = None, since: date | None = None, until: date | None = None
) -> dict[str, Advised]:
    """Return the advice on some projects, or all."""
    names = sorted(warehouse.current().projects) if projects is None else projects
    with open_tables(warehouse, names=ADVICE_VIEWS) as tables:
        return {name: advice_from(tables, warehouse.root, name, since, until) for name in names}


def advice_from(
    tables: duckdb.DuckDBPyConnection, root: Path, project: str, since: date | None, until: date | None
) -> Advised:
    """Return the advice on one project from its tables, tried on the events below `root`."""
    try:
        policy = policy_in_force(tables, project)
        found = [] if policy is None else advise_on(tables, project, policy, since, until)
    except TocsinError as error:
        return Advised(note=f"The policy in force cannot be read by this version: {error}")
    if policy is None or not found:
        return Advised()
    first, last = _span(tables, project, since, until)
    try:
        source = _source(root, project)
    except TocsinError as error:
        return Advised(note=f"No recommendations, because there are no events to try them on: {error.problem.detail}")
    return try_advice(source, first, last, policy, found, load_settings(OPTIONS.data / "lab.yaml"))


def _span(tables: duckdb.DuckDBPyConnection, project: str, since: date | None, until: date | None) -> tuple[int, int]:
    """Return the numbers of the first and last event of some days."""
    given = {"project": project, "since": since or date.min, "until": until or date.max}
    query = "SELECT min(seq), max(seq) FROM event WHERE project = $project AND date BETWEEN $since AND $until"
    low, high = tables.execute(query, given).fetchall()[0]
    return low or 1, high or 0


def _source(root: Path, project: str) -> Source:
    """Return the events of a project: its segments, or the tables where those are gone."""
    try:
        (source,) = find_source(open_storage(OPTIONS.landing).local or root, [project])
        if source.files and source.files[0].endswith(f"{1:020d}.ndjson.zst"):
            return source
    except TocsinError:
        pass
    (source,) = find_source(root, [project])
    return source


class Adviser:
    """Advises on projects at most every `advice_every_s` seconds; in between its advice stays the same."""

    def __init__(self, warehouse: Warehouse) -> None:
        self._warehouse = warehouse
        self._known: dict[str, Advised] = {}
        self._due: dict[str, float] = {}

    def advise(self, project: str) -> Advised:
        """Return the advice on a project."""
        if time.monotonic() >= self._due.get(project, 0.0):
            self._known |= advice_on(self._warehouse, [project])
            self._due[project] = time.monotonic() + self._warehouse.settings.advice_every_s
        return self._known[project]
