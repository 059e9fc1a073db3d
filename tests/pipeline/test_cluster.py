"""The jobs on a standalone cluster that loses a worker, and through Spark Connect."""

import json
import os
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.pipeline.clusters import Cluster, connect_server, tocsin_pipeline
from tests.pipeline.jobs.tables import EVERYTHING, contents
from tests.pipeline.traffic import simulated, write_segments
from tocsin.pipeline.catalogue import open_warehouse
from tocsin.pipeline.jobs.run import run
from tocsin.pipeline.settings import Settings

#: A Connect server gives the Python worker of a stream ten seconds to start, which a busy machine may exceed.
SOAK = bool(os.environ.get("TOCSIN_SOAK"))
_LIMIT_S = 400.0

pytestmark = pytest.mark.skipif(not SOAK, reason="a whole cluster takes minutes: make soak")


def prepared(tmp_path: Path, steps: int) -> tuple[Path, Path, tuple[str, ...]]:
    """Make a landing zone and settings for small machines; return them with the options that name them."""
    landing, house = tmp_path / "segments", tmp_path / "warehouse"
    write_segments(landing, "p", simulated(31, steps)[0], 100)
    (tmp_path / "pipeline.yaml").write_text(
        "shuffle_partitions: 2\nclass_archive: false\ndriver_memory_mib: 512\ningest_bytes_max: 4000\n"
    )
    options = ("--segments", str(landing), "--warehouse", str(house), "--settings", str(tmp_path / "pipeline.yaml"))
    return landing, house, options


def same_as_local(spark: SparkSession, settings: Settings, tmp_path: Path) -> None:
    local = open_warehouse(tmp_path / "local", settings)
    run(spark, local, tmp_path / "segments")
    there = open_warehouse(tmp_path / "warehouse", settings)
    expected, found = contents(local), contents(there)
    for name in EVERYTHING:
        assert found[name] == expected[name], f"{name} differs"


def test_a_cluster_that_loses_a_worker(spark: SparkSession, settings: Settings, tmp_path: Path) -> None:
    _, house, options = prepared(tmp_path, 500)
    cluster = Cluster(tmp_path)
    try:
        conf = ("--conf", "spark.executor.memory=512m", "--conf", "spark.executor.cores=1")
        job = tocsin_pipeline(*options, "--master", cluster.url, *conf, "run", "--json")
        try:
            deadline = time.monotonic() + _LIMIT_S
            manifests = open_warehouse(house, settings).manifests
            while not manifests.versions():
                assert job.poll() is None, job.communicate()
                assert time.monotonic() < deadline, "nothing was committed"
                time.sleep(0.01)
            cluster.workers[0].kill()
            out, err = job.communicate(timeout=_LIMIT_S)
        finally:
            job.kill()
        assert job.returncode == 0, err
        assert json.loads(out)["events"] == open_warehouse(house, settings).current().rows("event")
    finally:
        cluster.stop()
    same_as_local(spark, settings, tmp_path)


def test_through_connect(spark: SparkSession, settings: Settings, tmp_path: Path) -> None:
    landing, _, options = prepared(tmp_path, 300)
    later = sorted(landing.rglob("*.zst"))[-1]
    away = tmp_path / "later.zst"
    later.rename(away)
    server, url = connect_server(tmp_path)
    try:
        for command in (("run", "--json"), ("stream", "--once") if SOAK else ("run",), ("verify", "--json")):
            job = tocsin_pipeline(*options, "--remote", url, *command)
            try:
                out, err = job.communicate(timeout=_LIMIT_S)
            finally:
                job.kill()
            assert job.returncode == 0, out + err
            if away.exists():
                away.rename(later)
        assert json.loads(out)["balances"] is True
    finally:
        server.kill()
    same_as_local(spark, settings, tmp_path)
