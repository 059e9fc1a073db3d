"""Kill tests: batch and stream killed with SIGKILL and restarted lose nothing and count nothing twice."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.pipeline.jobs.tables import found_lives
from tests.pipeline.jobs.test_run import wrong
from tests.pipeline.oracle import lives
from tests.pipeline.test_message_life import same
from tests.pipeline.traffic import simulated, write_segments
from tests.soak import scaled, tally
from tocsin.pipeline.catalogue import open_warehouse
from tocsin.pipeline.jobs.run import run
from tocsin.pipeline.jobs.stream import start_stream
from tocsin.pipeline.jobs.verify import verify
from tocsin.pipeline.lake.warehouse import Warehouse
from tocsin.pipeline.settings import Settings

SOAK = bool(os.environ.get("TOCSIN_SOAK"))
KILLS = scaled(1, 12)
LIMIT_S = 300


def traces(house: Warehouse) -> int:
    """Count all files and folders below the warehouse."""
    return sum(len(names) + len(folders) for _, folders, names in os.walk(house.root))


def kill_after(way: str, landing: Path, house: Warehouse, steps: int) -> bool:
    """Start a process and kill it after it has created some files; return whether it was killed before its end."""
    before = traces(house)
    command = [
        sys.executable,
        "-m",
        "tests.pipeline.victim",
        way,
        str(landing),
        str(house.root),
        str(house.root.parent),
    ]
    victim = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)  # noqa: S603
    try:
        deadline = time.monotonic() + LIMIT_S
        while victim.poll() is None and traces(house) - before < steps:
            assert time.monotonic() < deadline, "the victim hangs"
            time.sleep(0.002)
        killed = victim.poll() is None
        victim.send_signal(signal.SIGKILL)
    finally:
        victim.kill()
        _, trouble = victim.communicate()
    assert killed or victim.returncode == 0, trouble.decode()
    return killed


@pytest.mark.skipif(not SOAK, reason="all tables several times over take minutes: make soak")
@pytest.mark.parametrize("way", ["run", "stream"])
def test_killed_anywhere(spark: SparkSession, settings: Settings, tmp_path: Path, way: str) -> None:
    seed = random.SystemRandom().randrange(2**31)
    print(f"seed {seed}")  # noqa: T201
    rng = random.Random(seed)
    events, _ = simulated(21, 400)
    landing, house = tmp_path / "segments", open_warehouse(tmp_path / "warehouse", settings)
    write_segments(landing, "p", events, 60)
    for _ in range(KILLS):
        tally("kills")
        if not kill_after(way, landing, house, rng.randrange(1, 120)):
            break
    if way == "run":
        run(spark, house, landing)
    else:
        start_stream(spark, house, landing, every_s=None).awaitTermination()
    assert wrong(verify(house, landing)) == []
    same(found_lives(house), lives("p", events))
