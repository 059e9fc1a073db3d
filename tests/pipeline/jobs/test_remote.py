"""Jobs that are killed between writing and committing, and jobs with segments and tables on S3."""

import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pyspark.sql import SparkSession

from tests.pipeline.jobs.tables import contents
from tests.pipeline.jobs.test_run import wrong
from tests.pipeline.traffic import simulated, write_segments
from tocsin.pipeline.bronze import ingest as ingestion
from tocsin.pipeline.catalogue import VIEWS, open_warehouse
from tocsin.pipeline.jobs import refresh as refreshing
from tocsin.pipeline.jobs.run import run
from tocsin.pipeline.jobs.status import status
from tocsin.pipeline.jobs.stream import start_stream
from tocsin.pipeline.jobs.verify import verify
from tocsin.pipeline.lake.compaction import Housekeeping, compact, vacuum
from tocsin.pipeline.lake.delta_table import StoredTable
from tocsin.pipeline.lake.storage import open_storage
from tocsin.pipeline.lake.warehouse import Warehouse
from tocsin.pipeline.settings import Settings

#: Each test starts several processes: on a busy machine they take longer than the others may.
pytestmark = pytest.mark.timeout(900)
#: Stored tables whose rows do not depend on how events came, and a view of each subject.
NAMES = ("event", "message_life", "occurrence", "traffic", "delivery_sla", "agent_session", "thread", "policy_span")
assert set(NAMES[3:]) <= {view.name for view in VIEWS}


class Killed(BaseException):
    """Stands for the end of the process."""


@pytest.fixture
def segments(landing: Path) -> list[Path]:
    """A history of two days' segments, in the folder `landing`."""
    return write_segments(landing, "p", simulated(31, 250)[0], 400)


@pytest.fixture
def uploaded(landing: Path, segments: list[Path], s3: str) -> str:
    """A landing zone on S3 with the same segments."""
    zone = open_storage(f"{s3}/segments")
    for path in segments:
        zone.put(path, path.relative_to(landing).as_posix())
    return zone.url


@pytest.fixture
def expected(spark: SparkSession, warehouse: Warehouse, landing: Path, segments: list[Path]) -> dict[str, list[str]]:
    """The tables that a run in a folder makes, without a kill."""
    run(spark, warehouse, landing)
    return contents(warehouse, *NAMES)


def run_here(_: SparkSession, work: Callable[[Any], Any], assignments: Sequence[Any], __: type) -> list[Any]:
    """Stand for `run_tasks`."""
    return [work(assignment) for assignment in assignments]


def check(house: Warehouse, zone: str, expected: dict[str, list[str]]) -> None:
    """Check the tables after compaction, and that nothing is left over."""
    assert wrong(verify(house, zone, ())) == []
    done = Housekeeping()
    compact(house, done)
    vacuum(house, done)
    state = house.current()
    assert sorted(house.data_files()) == sorted(file.path for name in state.tables for file in state.files(name))
    assert house.storage.listed("_partial") == {}
    assert contents(house, *NAMES) == expected


def test_killed_at_every_commit(
    spark: SparkSession,
    settings: Settings,
    tmp_path: Path,
    landing: Path,
    expected: dict[str, list[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each attempt gets further than the one before, and ends with files that are written and not committed.

    Tasks run in this process: there are a dozen attempts and more, and what is tested is the driver's.
    """
    monkeypatch.setattr(ingestion, "run_tasks", run_here)
    monkeypatch.setattr(refreshing, "run_tasks", run_here)
    house = open_warehouse(tmp_path / "lake", settings)
    commit, allowed, attempts = StoredTable.commit, [0], 0

    def counted(table: StoredTable, *arguments: Any, **options: Any) -> int:
        if allowed[0] == 0:
            raise Killed
        allowed[0] -= 1
        return commit(table, *arguments, **options)

    monkeypatch.setattr(StoredTable, "commit", counted)
    while True:
        allowed[0] = attempts
        try:
            run(spark, house, landing)
            break
        except Killed:
            attempts += 1
            assert wrong(verify(open_warehouse(tmp_path / "lake", settings), None, ())) == []
    assert attempts > 5
    monkeypatch.setattr(StoredTable, "commit", commit)
    check(house, str(landing), expected)


def test_a_process_killed_between_write_and_commit(
    spark: SparkSession, settings: Settings, s3: str, uploaded: str, expected: dict[str, list[str]], tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "tests.pipeline.victim", "run", uploaded, f"{s3}/lake", str(tmp_path), "3"]
    victim = subprocess.run(command, capture_output=True, check=False)  # noqa: S603
    assert victim.returncode == -signal.SIGKILL, victim.stderr.decode()
    house = open_warehouse(f"{s3}/lake", settings)
    left = set(house.data_files())
    state = house.current()
    assert left - {file.path for name in state.tables for file in state.files(name)}, "it had written nothing"
    run(spark, house, uploaded)
    check(house, uploaded, expected)


def test_a_stream_takes_what_is_new(
    spark: SparkSession, settings: Settings, s3: str, uploaded: str, expected: dict[str, list[str]], tmp_path: Path
) -> None:
    small = msgspec.structs.replace(settings, stream_segments_max=2)
    house = open_warehouse(f"{s3}/lake", small, tmp_path / "beside")
    zone, away = open_storage(uploaded), open_storage(f"{s3}/away")
    held = sorted(zone.listed())[-1]
    with away.create(held) as out:
        out.write(zone.read(held))
    zone.delete([held])
    commits: list[int] = []
    for _ in range(2):
        query = start_stream(
            spark, house, uploaded, every_s=None, on_commit=lambda _, after: commits.append(after.version)
        )
        query.awaitTermination()
        assert query.exception() is None
        if away.listed():
            with zone.create(held) as out:
                out.write(away.read(held))
            away.delete([held])
    assert len(commits) == len(zone.listed()) // 2 + 1
    assert status(house, uploaded)["lag"]["segments"] == 0
    check(house, uploaded, expected)
