"""Jobs with segments and tables on S3: one that is killed between writing and committing, and a stream."""

import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from pyspark.sql import SparkSession

from tests.pipeline.jobs.kills import check, expected, segments
from tocsin.pipeline.catalogue import open_warehouse
from tocsin.pipeline.jobs.run import run
from tocsin.pipeline.jobs.status import status
from tocsin.pipeline.jobs.stream import start_stream
from tocsin.pipeline.lake.storage import open_storage
from tocsin.pipeline.settings import Settings

__all__ = ["expected", "segments"]

#: Each test starts several processes: on a busy machine they take longer than the others may.
pytestmark = pytest.mark.timeout(900)


@pytest.fixture
def uploaded(segments: Path, s3: str) -> str:
    """A landing zone on S3 with the same segments."""
    zone = open_storage(f"{s3}/segments")
    for path in sorted(segments.rglob("*.zst")):
        zone.put(path, path.relative_to(segments).as_posix())
    return zone.url


def test_a_process_killed_between_write_and_commit(
    no_spark: SparkSession, settings: Settings, s3: str, uploaded: str, expected: dict[str, list[str]], tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "tests.pipeline.victim", "here", uploaded, f"{s3}/lake", str(tmp_path), "3"]
    victim = subprocess.run(command, capture_output=True, check=False)  # noqa: S603
    assert victim.returncode == -signal.SIGKILL, victim.stderr.decode()
    house = open_warehouse(f"{s3}/lake", settings)
    left = set(house.data_files())
    state = house.current()
    assert left - {file.path for name in state.tables for file in state.files(name)}, "it had written nothing"
    run(no_spark, house, uploaded)
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
