"""The extract: contents equal to the tables, and only changed parts are rewritten."""

from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.pipeline.rows import Given, Row, S, opened
from tocsin.extract import FOLDER, INDEX, Index, read_index, read_rows
from tocsin.pipeline.advice import Advice, Advised, Evidence, Goal
from tocsin.pipeline.catalogue import COLUMNS, VIEWS, open_warehouse
from tocsin.pipeline.jobs.extract_writer import write_extract
from tocsin.pipeline.lake.parquet_writer import Target
from tocsin.pipeline.lake.release import Batch, ProjectMark
from tocsin.pipeline.lake.warehouse import Warehouse
from tocsin.pipeline.views.occurrences.recall import RECALL

MONDAY, TUESDAY = date(2026, 3, 2), date(2026, 3, 3)
PIECE = Advice(
    "ttl_too_short",
    "Question",
    "Longer.",
    (Evidence("ttl_use", "expired", 0.2, 80),),
    "contracts: {}\n",
    Goal("expired"),
    "It helps.",
)


def nothing(_: str) -> Advised:
    return Advised()


def recalls(day: date, *counts: tuple[int, str, int], project: str = "apollo") -> list[Row]:
    """Return recalls as rows of `occurrence`: the minute, the outcome and how many."""
    begin = int(datetime(day.year, day.month, day.day, 9, tzinfo=UTC).timestamp()) * S
    return [
        {
            "project": project,
            "date": day,
            "seq": minute * 100 + number,
            "kind": "MessageRecalled" if outcome == "recalled" else "RecallRefused",
            "us": begin + minute * 60 * S,
            "outcome": None if outcome == "recalled" else outcome,
        }
        for minute, outcome, count in counts
        for number in range(count)
    ]


def commit(warehouse: Warehouse, rows: list[Row]) -> None:
    """Commit rows of `occurrence`, replacing those of the same days."""
    before = warehouse.current()
    target = Target(warehouse.storage.url, warehouse.new_batch())
    with opened(Given("occurrence", rows), only=[]) as tables:
        written = target.write(tables, "occurrence", COLUMNS["occurrence"], "SELECT * FROM occurrence")
    days = {(file.project, file.date) for file in written}
    kept = [file for file in before.files("occurrence") if (file.project, file.date) not in days]
    projects = {"apollo": ProjectMark(covered=[(1, 40), (51, 90)], last_at=1_772_528_400_000_000)}
    warehouse.commit(before, Batch(0, "refresh", 0, 0.1), {"occurrence": [*kept, *written]}, projects=projects)


def contents(warehouse: Warehouse, index: Index) -> list[list[Any]]:
    parts = index.tables["recall"].parts
    return [row for part in parts for row in read_rows(warehouse.root / FOLDER, part)]


def test_the_extract_is_what_the_table_has(warehouse: Warehouse) -> None:
    rows = recalls(MONDAY, (5, "recalled", 3), (4, "already_delivered", 1)) + recalls(TUESDAY, (1, "recalled", 2))
    commit(warehouse, rows + recalls(MONDAY, (1, "recalled", 7), project="a/b"))
    write_extract(warehouse, lambda project: Advised([PIECE] if project == "apollo" else []))
    index = read_index(warehouse.root / FOLDER)
    assert index is not None
    assert contents(warehouse, index) == [
        ["a/b", "2026-03-02", "2026-03-02T09:01:00+00:00", "recalled", 7],
        ["apollo", "2026-03-02", "2026-03-02T09:04:00+00:00", "already_delivered", 1],
        ["apollo", "2026-03-02", "2026-03-02T09:05:00+00:00", "recalled", 3],
        ["apollo", "2026-03-03", "2026-03-03T09:01:00+00:00", "recalled", 2],
    ]
    assert [column.name for column in index.tables["recall"].columns] == [c.name for c in RECALL.columns]
    assert set(index.tables) == {view.name for view in VIEWS if view.layer == "gold"}
    assert (index.reach["apollo"].last_seq, index.reach["apollo"].gaps) == (90, 1)
    assert index.advice["apollo"][0].evidence[0].value == 0.2
    assert index.advice["apollo"][0].verdict == "It helps."
    assert index.version == warehouse.current().version


def test_only_what_changed_is_written_again_and_the_last_but_one_goes(warehouse: Warehouse) -> None:
    folder = warehouse.root / FOLDER

    def files() -> set[str]:
        return {path.name for path in folder.glob("*.zst")}

    commit(warehouse, recalls(MONDAY, (1, "recalled", 1)) + recalls(TUESDAY, (1, "recalled", 1)))
    first = {part.date: part.file for part in write_extract(warehouse, nothing).tables["recall"].parts}
    inode = (folder / first["2026-03-02"]).stat().st_ino
    commit(warehouse, recalls(TUESDAY, (1, "recalled", 2)))
    second = {part.date: part.file for part in write_extract(warehouse, nothing).tables["recall"].parts}
    assert second["2026-03-02"] == first["2026-03-02"]
    assert (folder / second["2026-03-02"]).stat().st_ino == inode
    assert files() == {*first.values(), *second.values()}, "a reader may still have the index before"
    commit(warehouse, recalls(TUESDAY, (1, "recalled", 3)))
    third = {part.date: part.file for part in write_extract(warehouse, nothing).tables["recall"].parts}
    assert files() == {*second.values(), *third.values()}


def test_a_day_with_too_many_rows_is_cut_and_says_so(warehouse: Warehouse) -> None:
    small = open_warehouse(warehouse.root, msgspec.structs.replace(warehouse.settings, extract_rows_max=2))
    commit(small, recalls(MONDAY, *((minute, "recalled", 1) for minute in range(5))))
    index = write_extract(small, nothing)
    (part,) = index.tables["recall"].parts
    assert (part.rows, part.kept) == (5, 2)
    assert [row[2][14:16] for row in contents(small, index)] == ["00", "01"]


def test_nothing_new_writes_nothing(warehouse: Warehouse) -> None:
    commit(warehouse, recalls(MONDAY, (1, "recalled", 1)))
    write_extract(warehouse, nothing)
    before = (warehouse.root / FOLDER / INDEX).stat().st_ino

    def unasked(project: str) -> Advised:
        raise AssertionError(f"{project} was advised on again")

    write_extract(warehouse, unasked)
    assert (warehouse.root / FOLDER / INDEX).stat().st_ino == before


def test_an_index_of_another_format_is_written_anew(warehouse: Warehouse) -> None:
    commit(warehouse, recalls(MONDAY, (1, "recalled", 1)))
    write_extract(warehouse, nothing)
    (warehouse.root / FOLDER / INDEX).write_text('{"version": "of another kind"}')
    with pytest.raises(msgspec.ValidationError):
        read_index(warehouse.root / FOLDER)
    assert len(contents(warehouse, write_extract(warehouse, nothing))) == 1


def test_nothing_extracted_is_no_index(tmp_path: Path) -> None:
    assert read_index(tmp_path) is None
