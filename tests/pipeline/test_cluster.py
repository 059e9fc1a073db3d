"""The jobs on a standalone cluster that loses a worker, and through Spark Connect."""

import json
from pathlib import Path

import pytest

from tests.pipeline.cluster_run import LIMIT_S, lose_a_worker, prepared
from tests.pipeline.clusters import connect_server, tocsin_pipeline
from tests.pipeline.jobs.tables import EVERYTHING, contents
from tests.pipeline.without_spark import without_spark
from tests.soak import SOAK, scaled
from tocsin.pipeline.catalogue import open_warehouse
from tocsin.pipeline.jobs.run import run
from tocsin.pipeline.settings import Settings

#: A master, two workers and a driver are started: on a busy machine they take longer than other tests may.
pytestmark = pytest.mark.timeout(900)


def same_as_local(settings: Settings, tmp_path: Path) -> None:
    local = open_warehouse(tmp_path / "local", settings)
    with without_spark() as nothing:
        run(nothing, local, tmp_path / "segments")
    there = open_warehouse(tmp_path / "warehouse", settings)
    expected, found = contents(local), contents(there)
    for name in EVERYTHING:
        assert found[name] == expected[name], f"{name} differs"


@pytest.mark.skipif(not SOAK, reason="a whole cluster takes a minute of both cores: make soak")
def test_a_cluster_that_loses_a_worker(settings: Settings, tmp_path: Path) -> None:
    done = lose_a_worker(tmp_path, scaled(120, 500))
    assert done.version_then < done.version, "the worker was killed at the end only"
    assert done.outcome["events"] == done.events
    assert done.verified["balances"] is True
    same_as_local(settings, tmp_path)


# It gives the Python worker of a stream ten seconds to start, which a busy machine may exceed.
@pytest.mark.skipif(not SOAK, reason="a Connect server of its own takes minutes: make soak")
def test_through_connect(settings: Settings, tmp_path: Path) -> None:
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
    same_as_local(settings, tmp_path)
