"""The jobs on a standalone cluster that loses a worker, and through Spark Connect."""

import json
import os
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.pipeline.cluster_run import LIMIT_S, lose_a_worker, prepared
from tests.pipeline.clusters import connect_server, tocsin_pipeline
from tests.pipeline.jobs.tables import EVERYTHING, contents
from tocsin.pipeline.catalogue import open_warehouse
from tocsin.pipeline.jobs.run import run
from tocsin.pipeline.settings import Settings

#: A Connect server gives the Python worker of a stream ten seconds to start, which a busy machine may exceed.
SOAK = bool(os.environ.get("TOCSIN_SOAK"))

#: A master, two workers and a driver are started: on a busy machine they take longer than other tests may.
pytestmark = pytest.mark.timeout(900)


def same_as_local(spark: SparkSession, settings: Settings, tmp_path: Path) -> None:
    local = open_warehouse(tmp_path / "local", settings)
    run(spark, local, tmp_path / "segments")
    there = open_warehouse(tmp_path / "warehouse", settings)
    expected, found = contents(local), contents(there)
    for name in EVERYTHING:
        assert found[name] == expected[name], f"{name} differs"


def test_a_cluster_that_loses_a_worker(spark: SparkSession, settings: Settings, tmp_path: Path) -> None:
    done = lose_a_worker(tmp_path, 500 if SOAK else 120)
    assert done.version_then < done.version, "the worker was killed at the end only"
    assert done.outcome["events"] == done.events
    assert done.verified["balances"] is True
    same_as_local(spark, settings, tmp_path)


@pytest.mark.skipif(not SOAK, reason="a Connect server of its own takes minutes: make soak")
def test_through_connect(spark: SparkSession, settings: Settings, tmp_path: Path) -> None:
    options, _ = prepared(tmp_path, 300)
    later = sorted((tmp_path / "segments").rglob("*.zst"))[-1]
    away = tmp_path / "later.zst"
    later.rename(away)
    server, url = connect_server(tmp_path)
    try:
        page = ("--report", str(tmp_path / "report.html"))
        for command in (("run", *page, "--json"), ("stream", "--once"), ("verify", "--json")):
            job = tocsin_pipeline(*options, "--remote", url, *command)
            try:
                out, err = job.communicate(timeout=LIMIT_S)
            finally:
                job.kill()
            assert job.returncode == 0, out + err
            if away.exists():
                away.rename(later)
        assert json.loads(out)["balances"] is True
    finally:
        server.kill()
    same_as_local(spark, settings, tmp_path)
