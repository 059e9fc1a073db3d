"""Commits and releases, in a folder and on S3: all of a batch or nothing of it, one writer, and bounded logs."""

from pathlib import Path

import msgspec
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from tocsin.pipeline.errors import CommitLost, WarehouseDamaged, WarehouseOutdated
from tocsin.pipeline.lake.compaction import Housekeeping, compact, vacuum
from tocsin.pipeline.lake.data_file import DataFile
from tocsin.pipeline.lake.delta_table import StoredTable
from tocsin.pipeline.lake.parquet_writer import new_path, write_arrow
from tocsin.pipeline.lake.release import Batch, ProjectMark, Releases
from tocsin.pipeline.lake.warehouse import Snapshot, Warehouse
from tocsin.pipeline.settings import Settings
from tocsin.pipeline.tables.schemas import Column

ONE = (Column("project", "string", ""), Column("date", "date", ""), Column("seq", "bigint", ""))
TWO = (Column("project", "string", ""), Column("name", "string", ""))
COLUMNS = {"event": ONE, "two": TWO}


@pytest.fixture(params=["local", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(tmp_path / "warehouse") if request.param == "local" else str(request.getfixturevalue("s3"))


def opened(place: str, settings: Settings) -> Warehouse:
    return Warehouse(place, settings, COLUMNS)


def events(house: Warehouse, low: int, high: int, project: str = "a/b c") -> DataFile:
    """Write a file of `event`, as a task does."""
    path = new_path("event", {"project": project, "date": "2026-03-02"})
    size = write_arrow(house.storage, path, pa.table({"seq": list(range(low, high + 1))}))
    return DataFile(path, project, "2026-03-02", high - low + 1, size, low, high)


def names(house: Warehouse, *values: str) -> DataFile:
    path = new_path("two", {"project": "p"})
    return DataFile(path, "p", None, len(values), write_arrow(house.storage, path, pa.table({"name": list(values)})))


def batch() -> Batch:
    return Batch(0, "ingest", 0, 0.1)


def test_a_batch_is_released_at_once(place: str, settings: Settings) -> None:
    house = opened(place, settings)
    empty = house.current()
    assert (empty.version, empty.tables, empty.rows("event")) == (0, [], 0)
    first, second, other = events(house, 1, 10), events(house, 11, 12), names(house, "x")
    marks = {"a/b c": ProjectMark(covered=[(1, 12)])}
    house.commit(
        empty, batch(), {"event": [first, second], "two": [other]}, pending={first.path: ["K"]}, projects=marks
    )
    state = opened(place, settings).current()
    assert (state.version, state.pending, state.projects) == (1, {first.path: ["K"]}, marks)
    assert set(state.files("event")) == {first, second}
    assert state.files("two") == [other]
    third = events(house, 13, 13)
    house.commit(state, batch(), {"event": [second, third]}, pending={})
    after = opened(place, settings).current()
    assert set(after.files("event")) == {second, third}
    assert after.files("two") == [other]
    assert set(state.files("event")) == {first, second}, "a reader of the release before"
    assert [found.version for found in house.releases.batches(10)] == [2, 1]


def test_other_engines_read_a_table_as_it_lies(place: str, settings: Settings) -> None:
    house = opened(place, settings)
    house.commit(house.current(), batch(), {"event": [events(house, 1, 3), events(house, 4, 4, "p")]})
    table = DeltaTable(house.storage.uri("event"))
    rows = sorted((row["project"], str(row["date"]), row["seq"]) for row in table.to_pyarrow_table().to_pylist())
    assert rows == [(name, "2026-03-02", seq) for name, seq in (("a/b c", 1), ("a/b c", 2), ("a/b c", 3), ("p", 4))]


def test_of_two_writers_one_wins(place: str, settings: Settings) -> None:
    one, two = opened(place, settings), opened(place, settings)
    seen = two.current()
    one.commit(one.current(), batch(), {"event": [events(one, 1, 1)]})
    with pytest.raises(CommitLost, match="another writer"):
        two.commit(seen, batch(), {"event": [events(two, 2, 2)]})
    assert [file.low for file in opened(place, settings).current().files("event")] == [1]
    seen = two.current()
    one.commit(one.current(), batch(), {"two": [names(one, "x")]})
    with pytest.raises(CommitLost, match="another writer"):
        two.commit(seen, batch(), {"event": []})
    assert [file.low for file in opened(place, settings).current().files("event")] == [1]


def test_a_commit_between_reading_and_writing_is_noticed(
    place: str, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    house = opened(place, settings)
    first, second, third = (events(house, number, number) for number in (1, 2, 3))
    table = house.table("event")
    table.commit([first])
    read = table.opened()
    table.commit([first, second])
    monkeypatch.setattr(table, "opened", lambda: read)
    with pytest.raises(CommitLost, match="another writer"):
        table.commit([first, third])
    assert set(opened(place, settings).table("event").files()) == {first, second}


def test_a_writer_that_lost_does_its_work_again(place: str, settings: Settings) -> None:
    one, two = opened(place, settings), opened(place, settings)
    tries = []

    def work() -> Snapshot:
        state = two.current()
        tries.append(state.version)
        if len(tries) == 1:
            one.commit(one.current(), batch(), {"event": [events(one, 1, 1)]})
        return two.commit(state, batch(), {"event": [*state.files("event"), events(two, 2, 2)]})

    assert sorted(file.low for file in two.written(work).files("event")) == [1, 2]
    assert tries == [0, 1]


def test_what_a_killed_batch_left_is_undone(place: str, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was killed after it had committed the tables, and before its release."""
    house = opened(place, settings)
    kept, gone = events(house, 1, 2), events(house, 3, 4)
    before = house.commit(house.current(), batch(), {"event": [kept, gone]})
    with monkeypatch.context() as patch:
        patch.setattr(Releases, "commit", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            house.commit(before, batch(), {"event": [kept, events(house, 5, 9)], "two": [names(house, "x")]})
    fresh = opened(place, settings)
    assert fresh.current().version == 1
    assert set(fresh.current().files("event")) == {kept, gone}
    with fresh.writing():
        pass
    for name, wanted in (("event", [kept, gone]), ("two", [])):
        assert set(fresh.table(name).files()) == set(wanted), "the newest version of the table is not the release's"
    vacuum(fresh, done := Housekeeping())
    assert done.files_deleted == 2, "the files of the killed batch"
    assert sorted(fresh.data_files()) == sorted([kept.path, gone.path])
    assert set(fresh.current().files("event")) == {kept, gone}


def test_small_files_are_merged_in_parts_and_the_old_ones_deleted(place: str, settings: Settings) -> None:
    house = opened(place, settings)
    for low in range(1, 40, 10):
        state = house.current()
        house.commit(state, batch(), {"event": [*state.files("event"), events(house, low, low + 9)]})
    half = 2 * house.current().files("event")[0].bytes + 10
    small = Warehouse(place, msgspec.structs.replace(settings, compact_bytes_max=half), COLUMNS)
    reader = small.current()
    done = Housekeeping()
    compact(small, done)
    assert (done.files_before, done.files_after) == (4, 2)
    state = small.current()
    assert sorted((file.low, file.high, file.rows) for file in state.files("event")) == [(1, 20, 20), (21, 40, 20)]
    assert len(reader.files("event")) == 4
    vacuum(small, done)
    assert sorted(small.data_files()) == sorted(file.path for file in state.files("event"))
    assert done.files_deleted >= 4
    compact(small, again := Housekeeping())
    assert again.files_before == 0


def test_what_a_killed_batch_left_is_undone_before_files_are_merged(
    tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    house = opened(str(tmp_path), settings)
    kept = [events(house, 1, 2), events(house, 3, 4)]
    before = house.commit(house.current(), batch(), {"event": kept, "two": [names(house, "x")]})
    with monkeypatch.context() as patch:
        patch.setattr(Releases, "commit", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            house.commit(before, batch(), {"event": [*kept, events(house, 5, 9)], "two": [names(house, "y")]})
    compact(house, done := Housekeeping())
    assert (done.files_before, done.files_after) == (2, 1)
    assert [(file.low, file.high) for file in house.current().files("event")] == [(1, 4)]
    for name in ("event", "two"):
        assert house.table(name).files() == house.current().files(name)


def test_merging_reads_the_log_of_a_table_only_to_merge_it(
    tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each table was compared with its release once for each table, which takes long on S3."""
    house = opened(str(tmp_path), settings)
    house.commit(house.current(), batch(), {"event": [events(house, 1, 1)], "two": [names(house, "x")]})
    read: list[StoredTable] = []
    open_log = StoredTable.opened

    def counted(table: StoredTable, version: int | None = None) -> DeltaTable | None:
        read.append(table)
        return open_log(table, version)

    monkeypatch.setattr(StoredTable, "opened", counted)
    compact(house, Housekeeping())
    assert [read.count(house.table(name)) for name in COLUMNS] == [2, 2]


def test_files_to_be_folded_are_not_merged(place: str, settings: Settings) -> None:
    house = opened(place, settings)
    files = [events(house, 1, 1), events(house, 2, 2)]
    house.commit(house.current(), batch(), {"event": files}, pending={file.path: [] for file in files})
    compact(house, done := Housekeeping())
    assert done.files_before == 0


def test_commits_and_logs_do_not_grow_with_history(tmp_path: Path, settings: Settings) -> None:
    house = opened(str(tmp_path), settings)
    sizes = []
    for number in range(1, 70):
        state = house.current()
        house.commit(state, batch(), {"event": [*state.files("event")[-3:], events(house, number, number)]})
        newest = sorted((tmp_path / "release" / "_delta_log").glob("*.json"))[-1]
        sizes.append(newest.stat().st_size + (tmp_path / house.current().release.path).stat().st_size)
    assert max(sizes[10:]) < 1.05 * min(sizes[10:])
    for name in ("event", "release"):
        left = list((tmp_path / name / "_delta_log").iterdir())
        assert len(left) < 50, "the log was not cleaned"
    assert len(house.current().files("event")) == 4


def test_new_columns_are_added_and_a_rebuilt_table_may_change(tmp_path: Path, settings: Settings) -> None:
    house = opened(str(tmp_path), settings)
    old = events(house, 1, 1)
    house.commit(house.current(), batch(), {"event": [old], "two": [names(house, "x")]})
    wider = (*ONE, Column("kind", "string", ""))
    other = (Column("project", "string", ""), Column("name", "bigint", ""))
    later = Warehouse(tmp_path, settings, {"event": wider, "two": other})
    state = later.current()
    path = new_path("two", {"project": "p"})
    size = write_arrow(later.storage, path, pa.table({"name": [7]}))
    later.commit(state, batch(), {"event": [old, events(later, 2, 2)], "two": [DataFile(path, "p", None, 1, size)]})
    schema = DeltaTable(tmp_path / "event").schema()
    assert [field.name for field in schema.fields] == ["project", "date", "seq", "kind"]
    assert DeltaTable(tmp_path / "two").to_pyarrow_table().to_pylist() == [{"project": "p", "name": 7}]
    changed = Warehouse(tmp_path, settings, {"event": (*ONE[:2], Column("seq", "string", "")), "two": other})
    with pytest.raises(WarehouseDamaged, match="column seq of event"):
        changed.commit(changed.current(), batch(), {"event": [old]})


def test_tables_of_an_earlier_version_are_told(tmp_path: Path, settings: Settings) -> None:
    (tmp_path / "_manifests").mkdir()
    with pytest.raises(WarehouseOutdated, match="tocsin pipeline run"):
        opened(str(tmp_path), settings).current()


def test_a_damaged_release_is_told(tmp_path: Path, settings: Settings) -> None:
    house = opened(str(tmp_path), settings)
    state = house.commit(house.current(), batch(), {"two": [names(house, "x")]})
    (tmp_path / state.release.path).write_bytes(b"?")
    with pytest.raises(WarehouseDamaged, match="newest release"):
        house.current()
