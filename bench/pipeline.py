"""Benchmark of the pipeline: bronze, `message_life`, all tables, memory and growth, with DuckDB for comparison.

Traffic is generated with the real exchange in virtual time and cached (`bench.traffic`). Every measurement is a new
process with its own Spark, and the memory of its process tree is measured from outside.
`python -m bench.pipeline --events N` prints a table and, as its last line, one JSON object.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import msgspec

from bench.report import Run, options, table
from bench.traffic import landing_of

EVENTS, QUICK_EVENTS = 1_000_000, 20_000
CACHE = Path(os.environ.get("TOCSIN_CACHE") or Path.home() / ".cache" / "tocsin") / "bench"
#: Interval at which the memory of the process tree is measured, seconds.
_LOOK_S = 0.2
_PAGE = os.sysconf("SC_PAGE_SIZE")


def tree_rss(root: int) -> int:
    """Return the resident memory of a process and its descendants; shared memory counts for each."""
    children: dict[int, list[int]] = {}
    sizes: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            status = (entry / "stat").read_text(encoding="ascii", errors="replace")
            resident = int((entry / "statm").read_text(encoding="ascii").split()[1]) * _PAGE
        except (OSError, IndexError):
            continue
        parent = int(status.rpartition(")")[2].split()[1])
        children.setdefault(parent, []).append(int(entry.name))
        sizes[int(entry.name)] = resident
    total, waiting = 0, [root]
    while waiting:
        number = waiting.pop()
        total += sizes.get(number, 0)
        waiting += children.get(number, [])
    return total


def measured(*arguments: str) -> tuple[dict[str, Any], float]:
    """Run a part in a new process; return its output and the peak memory of its process tree."""
    command = [sys.executable, "-m", "bench.pipeline", *arguments]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # noqa: S603
    peak, done = 0, threading.Event()

    def watch() -> None:
        nonlocal peak
        while not done.wait(_LOOK_S):
            peak = max(peak, tree_rss(child.pid))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        out, _ = child.communicate()
    finally:
        done.set()
        watcher.join()
    if child.returncode:
        sys.exit(f"{' '.join(arguments)} failed")
    return json.loads(out.splitlines()[-1]), peak / (1 << 20)


def report_progress(stage: str, done: int, total: int) -> None:
    """Print progress to standard error."""
    print(f"  {stage}: {done:,} of {total:,}", file=sys.stderr, flush=True)


def whole(landing: Path, folder: Path, cores: int) -> dict[str, Any]:
    """Run the pipeline over a landing zone and time its stages; then scan and fold, also with DuckDB."""
    from tocsin.pipeline.bronze.ingest import ingest
    from tocsin.pipeline.bronze.landing_zone import landed_segments
    from tocsin.pipeline.catalogue import open_warehouse
    from tocsin.pipeline.engine.spark import SparkOptions, spark_session
    from tocsin.pipeline.jobs.refresh import refresh
    from tocsin.pipeline.settings import load_settings
    from tocsin.pipeline.silver.message_life import fold

    settings = load_settings()
    house = open_warehouse(folder / "warehouse", settings)
    clock = time.perf_counter
    with spark_session(SparkOptions(f"local[{cores}]", scratch=folder), settings) as spark:
        spark.range(1).collect()
        begin = clock()
        manifest = ingest(spark, house, landing, landed_segments(landing), report_progress)
        bronze = clock()
        stages: list[tuple[str, float]] = []

        def staged(stage: str, done: int, total: int) -> None:
            stages.append((stage, clock()))
            report_progress(stage, done, total)

        manifest = refresh(spark, house, staged)
        end = clock()
        files = manifest.files("event")
        events = house.read(spark, "event", files)
        scans, folds = [], []
        for _ in range(3):
            start = clock()
            events.write.format("noop").mode("overwrite").save()
            scans.append(clock() - start)
            start = clock()
            lives = fold(events, manifest.words)
            lives.write.mode("overwrite").partitionBy("project", "date").parquet(str(folder / "silver"))
            folds.append(clock() - start)
    spent: dict[str, float] = {}
    before = bronze
    for stage, at in stages[1:]:
        spent[stage] = at - before
        before = at
    return {
        "events": manifest.rows("event"),
        "messages": manifest.rows("message_life"),
        "bronze_s": bronze - begin,
        "refresh_s": end - bronze,
        "end_to_end_s": end - begin,
        "scan_s": statistics.median(scans),
        "silver_s": statistics.median(folds),
        "stages": spent,
        "bronze_bytes": sum(file.bytes for file in files),
    }


def duckdb_silver(folder: Path, cores: int) -> dict[str, Any]:
    """Make `message_life` with DuckDB, from the same bronze files."""
    import duckdb

    from tocsin.pipeline.catalogue import open_warehouse
    from tocsin.pipeline.settings import load_settings

    house = open_warehouse(folder / "warehouse", load_settings())
    paths = [str(house.root / file.path) for file in house.current().files("event")]
    connection = duckdb.connect()
    connection.execute(f"SET threads={cores}")
    connection.execute("SET memory_limit='4GB'")
    connection.execute(f"SET temp_directory='{folder}'")
    source = f"read_parquet({paths!r}, hive_partitioning=true, union_by_name=true)"
    query = Path(__file__).with_name("silver.sql").read_text(encoding="utf-8").replace("$source", source)
    times = []
    for _ in range(3):
        shutil.rmtree(folder / "duck", ignore_errors=True)
        start = time.perf_counter()
        connection.execute(
            f"COPY ({query}) TO '{folder / 'duck'}' (FORMAT parquet, COMPRESSION zstd, PARTITION_BY (project, date))"
        )
        times.append(time.perf_counter() - start)
    found = connection.execute(f"SELECT count(*) FROM read_parquet('{folder}/duck/**/*.parquet')").fetchone()  # noqa: S608
    return {"duckdb_s": statistics.median(times), "messages": found[0] if found else 0}


def report(events: int, cores: int, run: Run) -> None:
    """Measure everything and print the results."""
    with run:
        text, found = _measured(events, cores, run.rounds)
    run.finish(text, found)


def _measured(events: int, cores: int, rounds: int) -> tuple[str, dict[str, Any]]:
    found: dict[str, Any] = {}
    peaks: list[float] = []
    runs: dict[int, list[dict[str, Any]]] = {}
    ducks: list[float] = []
    for size in (events // 10, events):
        landing, count = landing_of(CACHE, size)
        for number in range(rounds):
            print(f"{count:,} events, round {number + 1} of {rounds}", file=sys.stderr, flush=True)
            with tempfile.TemporaryDirectory(prefix="tocsin-bench-") as name:
                common = ("--landing", str(landing), "--folder", name, "--cores", str(cores))
                result, peak = measured("--part", "whole", *common)
                if result["events"] != count:
                    sys.exit(f"{result['events']} events of {count}")
                runs.setdefault(size, []).append(result)
                if size == events:
                    peaks.append(peak)
                    duck, _ = measured("--part", "duckdb", *common)
                    if duck["messages"] != result["messages"]:
                        sys.exit(f"DuckDB finds {duck['messages']} messages, Spark {result['messages']}")
                    ducks.append(duck["duckdb_s"])

    def middle(size: int, name: str) -> float:
        return float(statistics.median(result[name] for result in runs[size]))

    count = runs[events][0]["events"]
    found = {
        "events": count,
        "messages": runs[events][0]["messages"],
        "cores": cores,
        "bronze_events_per_s": round(count / middle(events, "bronze_s")),
        "silver_x_scan": round(middle(events, "silver_s") / middle(events, "scan_s"), 2),
        "end_to_end_events_per_s": round(count / middle(events, "end_to_end_s")),
        "growth_10x": round(middle(events, "end_to_end_s") / (10 * middle(events // 10, "end_to_end_s")), 2),
        "duckdb_ratio": round(middle(events, "silver_s") / statistics.median(ducks), 2),
        "peak_memory_mib": round(max(peaks)),
        "bronze_bytes_per_event": round(runs[events][0]["bronze_bytes"] / count, 1),
        "scan_s": round(middle(events, "scan_s"), 2),
        "silver_s": round(middle(events, "silver_s"), 2),
        "end_to_end_s": round(middle(events, "end_to_end_s"), 2),
    }
    stages = runs[events][0]["stages"]
    rows = [["bronze", f"{middle(events, 'bronze_s'):.1f}"], *([name, f"{s:.1f}"] for name, s in stages.items())]
    figures = table(["figure", "value"], [[name, f"{value:,}"] for name, value in found.items()])
    return f"{count:,} events on {cores} cores\n\n{table(['stage', 'seconds'], rows)}\n\n{figures}", found


def main() -> None:
    parser = options("bench-pipeline", __doc__, rounds=1)
    parser.add_argument("--events", type=int, default=None, help=f"events of the history (default: {EVENTS})")
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--part", choices=("whole", "duckdb"), help=argparse.SUPPRESS)
    parser.add_argument("--landing", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.part == "whole":
        print(msgspec.json.encode(whole(chosen.landing, chosen.folder, chosen.cores)).decode())
    elif chosen.part == "duckdb":
        print(msgspec.json.encode(duckdb_silver(chosen.folder, chosen.cores)).decode())
    else:
        events = chosen.events or (QUICK_EVENTS if chosen.quick else EVENTS)
        report(events, chosen.cores, Run("bench-pipeline", chosen, rounds=1, rounds_min=1))


if __name__ == "__main__":
    main()
