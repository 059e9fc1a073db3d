"""Writer of the extract: gold views and advice as plain files beside the tables, for readers without Spark.

Its format and reader are in `tocsin.extract`. Neither Java nor Spark is needed to write it. The extract has a lock of
its own, so that a run or a stream can go on meanwhile, and an index is never replaced by an older one.
"""

import fcntl
import hashlib
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import msgspec

from tocsin import zstd
from tocsin.extract import FOLDER, INDEX, Column, Index, Part, Piece, Reach, Table, read_index
from tocsin.pipeline.advice import Advised
from tocsin.pipeline.catalogue import VIEWS, open_tables, stored_inputs
from tocsin.pipeline.lake.intervals import gaps_of
from tocsin.pipeline.lake.relations import declared
from tocsin.pipeline.lake.warehouse import Snapshot, Warehouse
from tocsin.pipeline.tables.table import View

__all__ = ["Extractor", "write_extract"]

#: Returns the advice on a project.
Adviser = Callable[[str], Advised]
_GOLD = tuple(view for view in VIEWS if view.layer == "gold")
#: A part of a view: project and day; the day is None if the view is not by day.
_Key = tuple[str, str | None]


def write_extract(warehouse: Warehouse, adviser: Adviser) -> Index:
    """Update the extract to the newest state of the tables; `adviser` returns a project's advice."""
    folder = warehouse.root / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    with _alone(folder):
        state, before = warehouse.current(), _known(folder)
        if before is not None and before.version >= state.version:
            return before
        inner = [name for view in _GOLD for name in view.reads]
        with open_tables(warehouse, state, inner) as tables:
            writer = _Writer(warehouse, state, tables, folder, before)
            index = Index(
                version=state.version,
                written_at=state.written_at,
                tables={view.name: writer.extracted(view) for view in _GOLD},
                reach={
                    name: Reach(mark.covered[-1][1] if mark.covered else 0, mark.last_at, len(gaps_of(mark.covered)))
                    for name, mark in sorted(state.projects.items())
                },
                advice={
                    name: [msgspec.convert(msgspec.to_builtins(piece), Piece) for piece in adviser(name).advice]
                    for name in sorted(state.projects)
                },
                empty=sorted(writer.empty),
            )
        _write(folder / INDEX, msgspec.json.encode(index))
        _tidy(folder, index, before)
        return index


class Extractor:
    """Updates the extract of a warehouse while a stream runs, at most every `extract_every_s` seconds."""

    def __init__(self, warehouse: Warehouse, adviser: Adviser) -> None:
        self._warehouse = warehouse
        self._adviser = adviser
        self._due = 0.0

    def write(self) -> Index:
        """Update the extract now."""
        index = write_extract(self._warehouse, self._adviser)
        self._due = time.monotonic() + self._warehouse.settings.extract_every_s
        return index

    def keep_up(self) -> None:
        """Update the extract if it is due."""
        if time.monotonic() >= self._due:
            self.write()


def _known(folder: Path) -> Index | None:
    """Return the existing index; None if there is none or it has another format."""
    try:
        return read_index(folder)
    except msgspec.DecodeError:
        return None


class _Writer:
    """Writes the parts of views that changed since the index before."""

    def __init__(
        self,
        warehouse: Warehouse,
        state: Snapshot,
        tables: duckdb.DuckDBPyConnection,
        folder: Path,
        before: Index | None,
    ) -> None:
        self._most = warehouse.settings.extract_rows_max
        self._state = state
        self._tables = tables
        self._folder = folder
        self._parts = {part.file: part for table in (before.tables if before else {}).values() for part in table.parts}
        self._empty = set(before.empty if before else ())
        #: Names of parts that would have no rows.
        self.empty: set[str] = set()

    def extracted(self, view: View) -> Table:
        """Write the outdated parts of a view; return all its parts."""
        columns = [Column(column.name, column.type, column.about) for column in view.columns]
        found: list[Part] = []
        wanted: dict[_Key, str] = {}
        for (project, date), sources in self._sources(view).items():
            made_of = repr((view.name, view.sql, [(c.name, c.type) for c in columns], sorted(sources), self._most))
            file = f"{view.name}-{hashlib.blake2b(made_of.encode(), digest_size=12).hexdigest()}.ndjson.zst"
            if file in self._empty:
                self.empty.add(file)
            elif file in self._parts and (self._folder / file).exists():
                found.append(self._parts[file])
            else:
                wanted[project, date] = file
        found += self._written(view, columns, wanted)
        return Table(view.about, columns, sorted(found, key=lambda part: (part.project, part.date or "")))

    def _sources(self, view: View) -> dict[_Key, set[str]]:
        """Return the parts of a view, each with the files that it is made from."""
        parts: dict[_Key, set[str]] = {}
        whole: dict[str, set[str]] = {}
        for name, by_day in stored_inputs(view.name).items():
            for file in self._state.files(name):
                if by_day and view.by_day:
                    parts.setdefault((file.project, file.date), set()).add(file.path)
                else:
                    whole.setdefault(file.project, set()).add(file.path)
                    if not view.by_day:
                        parts.setdefault((file.project, None), set())
        for (project, _), sources in parts.items():
            sources |= whole.get(project, set())
        return parts

    def _written(self, view: View, columns: list[Column], wanted: dict[_Key, str]) -> Iterator[Part]:
        """Query the rows of parts and write them."""
        names = [column.name for column in columns]
        chosen = ", ".join(f'"{name}"' for name in names)
        ordered = [place for place, column in enumerate(columns) if "<" not in column.type]
        for project in sorted({project for project, _ in wanted}):
            dates = sorted(str(date) for name, date in wanted if name == project and date is not None)
            query = f"SELECT {chosen} FROM ({declared(view.columns, view.sql)}) WHERE project = $project"
            if view.by_day:
                days = ", ".join(f"DATE '{date}'" for date in dates)
                query += f" AND date IN ({days})"
            rows: dict[str | None, list[list[Any]]] = {}
            for values in self._tables.execute(query, {"project": project}).fetchall():
                row = [_plain(value) for value in values]
                rows.setdefault(row[names.index("date")] if view.by_day else None, []).append(row)
            for (name, date), file in wanted.items():
                if name != project:
                    continue
                found = rows.get(date, [])
                if not found:
                    self.empty.add(file)
                    continue
                found.sort(
                    key=lambda row: [
                        (row[place] is None, "" if row[place] is None else row[place]) for place in ordered
                    ]
                )
                encode = msgspec.json.Encoder().encode
                text = b"".join(encode(row) + b"\n" for row in found[: self._most])
                _write(self._folder / file, zstd.compress(text))
                yield Part(project, date, file, len(found), min(len(found), self._most))


def _plain(value: Any) -> Any:
    """Return a value for JSON; times as ISO 8601 in UTC."""
    if isinstance(value, datetime):
        return value.replace(tzinfo=UTC).isoformat() if value.tzinfo is None else value.astimezone(UTC).isoformat()
    return value.isoformat() if hasattr(value, "isoformat") else value


def _write(path: Path, content: bytes) -> None:
    """Write a file atomically and durably."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with temporary.open("wb") as out:
        out.write(content)
        out.flush()
        os.fsync(out.fileno())
    temporary.replace(path)


def _tidy(folder: Path, index: Index, before: Index | None) -> None:
    """Delete files that neither this index nor the previous one names; readers may still use the previous one."""
    named = {part.file for known in (index, before) if known for table in known.tables.values() for part in table.parts}
    for path in folder.glob("*.ndjson.zst"):
        if path.name not in named:
            path.unlink(missing_ok=True)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    with (folder / ".lock").open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
