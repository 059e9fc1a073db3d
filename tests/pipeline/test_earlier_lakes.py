"""Lakes and segments of earlier versions, from the folders of `tests/upgrade`."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.upgrade.earlier import FOLDERS, Earlier
from tests.upgrade.lake import rows_of_lake
from tocsin.pipeline.catalogue import open_warehouse
from tocsin.pipeline.jobs.run import run
from tocsin.pipeline.settings import Settings


@pytest.fixture(params=FOLDERS, ids=lambda folder: folder.name)
def earlier(request: pytest.FixtureRequest, tmp_path: Path) -> Earlier:
    return Earlier(request.param, tmp_path)


def test_a_lake_of_an_earlier_version_has_its_rows(earlier: Earlier) -> None:
    data = earlier.data("sqlite")
    assert rows_of_lake(data) == earlier.expected["sqlite"]["lake"]
    command = [sys.executable, "-m", "tocsin", "pipeline", "--data", str(data), "verify"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    assert done.returncode == 0, done.stdout + done.stderr


def test_segments_of_an_earlier_version_make_the_same_lake(
    earlier: Earlier, spark: SparkSession, settings: Settings
) -> None:
    data = earlier.data("sqlite")
    shutil.rmtree(data / "warehouse")
    run(spark, open_warehouse(data / "warehouse", settings), data / "segments")
    assert rows_of_lake(data) == earlier.expected["sqlite"]["lake"]
