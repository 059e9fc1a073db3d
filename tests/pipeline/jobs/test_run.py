"""The jobs: at once, in parts, out of order, streamed and compacted, with the same tables each time."""

import random
import shutil
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from tests.pipeline.jobs.tables import EVERYTHING, contents, found_lives
from tests.pipeline.oracle import lives
from tests.pipeline.test_message_life import same
from tests.pipeline.traffic import DAY_US, START, simulated, write_segment, write_segments
from tests.soak import SOAK, scaled
from tocsin.cli.commands import app
from tocsin.cli.pipeline import building
from tocsin.core import events as ev
from tocsin.core.events import Event
from tocsin.pipeline.catalogue import VIEWS, open_tables, open_warehouse
from tocsin.pipeline.errors import WarehouseBusy
from tocsin.pipeline.jobs.run import run
from tocsin.pipeline.jobs.status import status
from tocsin.pipeline.jobs.stream import start_stream
from tocsin.pipeline.jobs.verify import Check, verify
from tocsin.pipeline.lake.compaction import Housekeeping, compact, retire, vacuum
from tocsin.pipeline.lake.data_file import DataFile
from tocsin.pipeline.lake.release import Batch
from tocsin.pipeline.lake.warehouse import Warehouse
from tocsin.pipeline.settings import Settings
from tocsin.pipeline.tables.table import View
from tocsin.pipeline.views.messages.traffic import TRAFFIC


def asked(warehouse: Warehouse, query: str) -> list[tuple[Any, ...]]:
    with open_tables(warehouse, names=()) as tables:
        return tables.execute(query).fetchall()


def wrong(checks: list[Check]) -> list[Check]:
    return [check for check in checks if not check.balances]


def arrive(paths: list[Path], away: Path, landing: Path) -> None:
    """Move segments into the landing zone."""
    for path in paths:
        target = landing / path.relative_to(away)
        target.parent.mkdir(parents=True, exist_ok=True)
        path.rename(target)


@pytest.mark.skipif(not SOAK, reason="all tables several times over take minutes: make soak")
def test_the_same_tables_whichever_way(spark: SparkSession, tmp_path: Path, settings: Settings) -> None:
    """One history of two projects: at once; in parts that arrive out of order; streamed."""
    histories = {name: simulated(seed, scaled(250, 1500))[0] for name, seed in (("apollo", 11), ("borealis", 12))}
    rng = random.Random(3)
    houses: dict[str, Warehouse] = {}
    for way in ("at-once", "in-parts", "streamed"):
        landing, away = tmp_path / way / "segments", tmp_path / way / "away"
        landing.mkdir(parents=True)
        small = msgspec.structs.replace(settings, stream_segments_max=5, ingest_bytes_max=20_000, hot_s=600)
        houses[way] = house = open_warehouse(tmp_path / way / "warehouse", small)
        size = 150 if SOAK else 1000
        paths = [path for name, events in histories.items() for path in write_segments(away, name, events, size)]
        if way == "in-parts":
            rng.shuffle(paths)
            third = len(paths) // 3
            for part in (paths[:third], paths[third : 2 * third], paths[2 * third :]):
                arrive(part, away, landing)
                run(spark, house, landing)
        elif way == "at-once":
            arrive(paths, away, landing)
            outcome = run(spark, house, landing)
            assert outcome.events == sum(map(len, histories.values()))
            assert run(spark, house, landing).version == outcome.version, "a second run changed something"
        else:
            arrive(paths, away, landing)
            query = start_stream(spark, house, landing, every_s=None)
            query.awaitTermination()
        assert wrong(verify(house, landing)) == []
    expected = contents(houses["at-once"])
    for way, house in houses.items():
        found = contents(house)
        for name in EVERYTHING:
            assert found[name] == expected[name], f"{name} differs when it is made {way}"
    wanted = {key: life for name, events in histories.items() for key, life in lives(name, events).items()}
    same(found_lives(houses["in-parts"]), wanted)
    check_housekeeping(houses["in-parts"], tmp_path / "in-parts" / "segments", expected)


def check_housekeeping(house: Warehouse, landing: Path, expected: dict[str, list[str]]) -> None:
    """Compact the tables: fewer files, the same rows."""
    files = files_of(house)
    orphan = house.root / "event" / "project=apollo" / "left-by-a-kill.parquet"
    orphan.touch()
    done = Housekeeping()
    compact(house, done)
    vacuum(house, done)
    assert not orphan.exists()
    assert len(list(house.data_files())) == files_of(house) == files - done.files_before + done.files_after < files
    assert contents(house) == expected
    assert wrong(verify(house, landing)) == []


def files_of(house: Warehouse) -> int:
    state = house.current()
    return sum(len(state.files(name)) for name in state.tables)


def beats(count: int, at: int = START) -> list[Event]:
    return [ev.SessionHeartbeat(at, "s") for _ in range(count)]


def test_gaps_duplicates_and_quarantine(spark: SparkSession, warehouse: Warehouse, landing: Path) -> None:
    first, second = beats(5), beats(5, START + DAY_US)
    write_segment(landing, "p", 1, first)
    write_segment(landing, "p", 4, first)
    write_segment(landing, "p", 21, second, [b"?", b'{"kind":"CatFed"}'])
    run(spark, warehouse, landing)
    seqs = [seq for (seq,) in asked(warehouse, "SELECT seq FROM event ORDER BY seq")]
    assert seqs == [1, 2, 3, 4, 5, 6, 7, 8, 21, 22, 23, 24, 25]
    bad = {(check.name, check.what): (check.expected, check.found) for check in wrong(verify(warehouse, landing, ()))}
    assert bad == {
        ("sequence", "events of p from 1 to its last number"): (25, 13),
        ("gap", "events 9 to 20 of p"): (12, 0),
    }
    told = status(warehouse, landing)
    assert told["projects"]["p"]["gaps"] == [[9, 20]]
    assert (told["duplicates"], told["quarantined"]) == (2, 2)
    reasons = asked(warehouse, "SELECT line, reason FROM quarantine ORDER BY line")
    assert reasons == [(6, "malformed"), (7, "unknown_kind")]
    write_segment(landing, "p", 8, beats(14))
    assert status(warehouse, landing)["lag"]["segments"] == 1
    run(spark, warehouse, landing)
    assert wrong(verify(warehouse, landing)) == []
    assert status(warehouse, landing)["lag"] == {"segments": 0, "bytes": 0, "seconds": 0.0, "events_not_in_tables": 0}


def test_verify_detects_inconsistent_tables(spark: SparkSession, warehouse: Warehouse, landing: Path) -> None:
    """Verify detects lost files, lost rows and doubled rows."""
    events, _ = simulated(5, 200)
    write_segments(landing, "p", events, 1000)
    run(spark, warehouse, landing)
    good = warehouse.current()
    bronze, life = good.files("event"), good.files("message_life")

    def with_tables(*derived: View, **tables: Any) -> list[Check]:
        changed = {name: good.files(name) for name in good.tables} | tables
        warehouse.commit(warehouse.current(), Batch(0, "refresh", 0, 0.1), changed)
        return wrong(verify(warehouse, landing, derived))

    def twice(file: DataFile) -> DataFile:
        path = file.path.replace(".parquet", "-again.parquet")
        shutil.copy(warehouse.root / file.path, warehouse.root / path)
        return msgspec.structs.replace(file, path=path)

    assert {check.name for check in with_tables(event=bronze[1:])} >= {"bronze", "message_life"}
    assert {check.name for check in with_tables(event=[*bronze, twice(bronze[0])])} >= {"bronze"}
    assert {check.name for check in with_tables(message_life=life[1:])} >= {"message_life"}
    assert {check.name for check in with_tables(message_life=[*life, twice(life[0])])} >= {"message_life"}
    cooked = with_tables(TRAFFIC, message_hour=good.files("message_hour")[1:])
    assert {check.name for check in cooked} == {"traffic"}
    assert with_tables(*VIEWS) == []
    (warehouse.root / life[0].path).unlink()
    assert {check.name for check in wrong(verify(warehouse, landing))} == {"files"}


def test_one_writer_at_a_time(spark: SparkSession, warehouse: Warehouse, landing: Path) -> None:
    with warehouse.writing(), pytest.raises(WarehouseBusy, match="another run or stream"):
        run(spark, warehouse, landing)


@pytest.mark.skipif(not SOAK, reason="all tables several times over take minutes: make soak")
def test_retention_drops_days_and_the_books_still_balance(
    spark: SparkSession, warehouse: Warehouse, landing: Path
) -> None:
    write_segment(landing, "p", 1, beats(3))
    write_segment(landing, "p", 4, beats(4, START + 9 * DAY_US))
    run(spark, warehouse, landing)
    short = msgspec.structs.replace(warehouse.settings, retention_days={"default": None, "event": 30})
    house, done = open_warehouse(warehouse.root, short), Housekeeping()
    retire(house, done, datetime.fromtimestamp((START + 35 * DAY_US) / 1_000_000, UTC))
    assert done.files_retired == 1
    assert asked(house, "SELECT seq FROM event ORDER BY seq") == [(4,), (5,), (6,), (7,)]
    assert wrong(verify(house, landing)) == []
    assert run(spark, house, landing).events == 0, "what was dropped came back"


def test_a_run_without_segments_says_when_a_hub_writes_one(
    tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is read, so Spark is not used."""
    house = open_warehouse(tmp_path / "warehouse", settings)
    monkeypatch.setattr(building, "open_session", lambda: nullcontext((None, house)))
    told = CliRunner().invoke(app, ["pipeline", "--data", str(tmp_path), "run"])
    assert told.exit_code == 0
    assert f"there are no segments in {tmp_path / 'segments'} yet" in " ".join(told.stdout.split())
    assert "storage.segment_age_s" in told.stdout
