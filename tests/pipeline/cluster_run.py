"""A run of the pipeline on a standalone cluster that loses a worker: `make cluster`, and the test of it.

Everything is real and on this machine: Spark's master and two workers from the pip package, the command line as their
driver, and segments of a simulated team.
"""

import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from tests.pipeline.clusters import QUICK_JVM, QUICK_WORDS, Cluster, tocsin_pipeline
from tests.pipeline.traffic import simulated, write_segments
from tests.soak import tally
from tocsin.pipeline.catalogue import open_warehouse
from tocsin.pipeline.settings import load_settings

__all__ = ["LIMIT_S", "LostWorker", "lose_a_worker", "prepared"]

#: Longest time for one command.
LIMIT_S = 400.0
_SETTINGS = "class_archive: false\ndriver_memory_mib: 512\ningest_bytes_max: 4000\n"
_CONF = (
    *QUICK_WORDS,
    *("--conf", "spark.executor.memory=512m", "--conf", "spark.executor.cores=1"),
    *("--conf", f"spark.executor.extraJavaOptions={QUICK_JVM}"),
)


class LostWorker(msgspec.Struct, frozen=True):
    """Result of a run that lost a worker."""

    #: Events of the landing zone.
    events: int
    #: Release that was the newest when the worker was killed, and at the end.
    version_then: int
    version: int
    #: Answer of `tocsin pipeline run --json`.
    outcome: dict[str, Any]
    #: Answer of `tocsin pipeline verify --json`.
    verified: dict[str, Any]


def prepared(folder: Path, steps: int) -> tuple[tuple[str, ...], int]:
    """Make a landing zone and settings for small machines; return the options that name them, and the events."""
    events = simulated(31, steps)[0]
    write_segments(folder / "segments", "p", events, 100)
    (folder / "pipeline.yaml").write_text(_SETTINGS)
    named = {"--segments": "segments", "--warehouse": "warehouse", "--settings": "pipeline.yaml"}
    return tuple(part for name, file in named.items() for part in (name, str(folder / file))), len(events)


def lose_a_worker(folder: Path, steps: int, say: Callable[[str], None] = lambda line: None) -> LostWorker:
    """Run the pipeline on a master and two workers, kill a worker after the first commit, and verify the tables."""
    options, events = prepared(folder, steps)
    say(f"{events:,} events in {folder / 'segments'}")
    cluster = Cluster(folder)
    try:
        say(f"master {cluster.url}, workers with pids {', '.join(str(worker.pid) for worker in cluster.workers)}")
        page = ("--report", str(folder / "report.html"), "--json")
        job = tocsin_pipeline(*options, "--master", cluster.url, *_CONF, "run", *page)
        try:
            house = open_warehouse(folder / "warehouse", load_settings())
            deadline = time.monotonic() + LIMIT_S
            while not (version_then := house.current().version):
                if job.poll() is not None or time.monotonic() > deadline:
                    job.kill()
                    raise RuntimeError(f"nothing was committed: {job.communicate()[1]}")
                time.sleep(0.01)
            tally("kills")
            cluster.workers[0].kill()
            say(f"killed worker {cluster.workers[0].pid} with its executor after release {version_then}")
            out, errors = job.communicate(timeout=LIMIT_S)
        finally:
            job.kill()
        if job.returncode:
            raise RuntimeError(f"the run has failed: {errors}")
        outcome = json.loads(out)
        say(f"the run ended: {outcome['events']:,} events, release {outcome['version']}, {outcome['seconds']:g} s")
    finally:
        cluster.stop()
        say("ended the master and the workers")
    check = tocsin_pipeline(*options, "verify", "--json")
    try:
        verified = json.loads(check.communicate(timeout=LIMIT_S)[0])
    finally:
        check.kill()
    say(f"verify: {len(verified['checks'])} checks, {'all' if verified['balances'] else 'not all'} of them balance")
    return LostWorker(events, version_then, outcome["version"], outcome, verified)


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> int:
    """Do it once in a folder that is removed at the end, and print what was done."""
    with tempfile.TemporaryDirectory(prefix="tocsin-cluster-") as folder:
        done = lose_a_worker(Path(folder), 500, _say)
    whole = done.outcome["events"] == done.events and done.version_then < done.version
    return 0 if whole and done.verified["balances"] else 1


if __name__ == "__main__":
    sys.exit(main())
