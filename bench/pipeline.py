"""Benchmark of the pipeline: segments to all tables, growth, memory, jobs, a small run, a stream, and bare DuckDB.

Traffic is generated with the real exchange in virtual time and cached (`bench.traffic`). Every measurement is a new
process with its own Spark, and the memory and CPU time of its process tree are measured from outside.
`python -m bench.pipeline --events N` prints tables and, as its last line, one JSON object.
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
#: Interval at which the process tree is measured, seconds.
_LOOK_S = 0.2
_PAGE = os.sysconf("SC_PAGE_SIZE")
_TICKS = os.sysconf("SC_CLK_TCK")
#: Events of the small run, of a streamed segment, and number of streamed segments, the first of which warm up.
_SMALL = 20_000
_STREAMED = 2_000
_STREAM_BATCHES = 6
_STREAM_WARM = 3
#: Memory of bare DuckDB, MiB: it folds a whole project at once, and what does not fit is written to disk.
_DUCKDB_MIB = 12_288
#: Most events that bare DuckDB is given; beyond that the comparison is made with a tenth of the events.
_DUCKDB_EVENTS_MAX = 5_000_000
#: Bytes of an event in a segment, uncompressed, on average.
_EVENT_BYTES = 260


def tree(root: int) -> tuple[int, float]:
    """Return resident memory and CPU seconds of a process and its descendants; shared memory counts for each."""
    children: dict[int, list[int]] = {}
    found: dict[int, tuple[int, float]] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            status = (entry / "stat").read_text(encoding="ascii", errors="replace")
            resident = int((entry / "statm").read_text(encoding="ascii").split()[1]) * _PAGE
        except (OSError, IndexError):
            continue
        fields = status.rpartition(")")[2].split()
        children.setdefault(int(fields[1]), []).append(int(entry.name))
        found[int(entry.name)] = (resident, sum(map(int, fields[11:15])) / _TICKS)
    memory, cpu_s, waiting = 0, 0.0, [root]
    while waiting:
        number = waiting.pop()
        resident, spent = found.get(number, (0, 0.0))
        memory, cpu_s = memory + resident, cpu_s + spent
        waiting += children.get(number, [])
    return memory, cpu_s


def measured(*command: str) -> tuple[str, float, float]:
    """Run a command; return its output, the peak memory (MiB) and the CPU seconds of its process tree."""
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # noqa: S603
    peak, cpu_s, done = 0, 0.0, threading.Event()

    def watch() -> None:
        nonlocal peak, cpu_s
        while not done.wait(_LOOK_S):
            memory, spent = tree(child.pid)
            peak, cpu_s = max(peak, memory), max(cpu_s, spent)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        out, _ = child.communicate()
    finally:
        done.set()
        watcher.join()
    if child.returncode:
        sys.exit(f"{' '.join(command)} failed")
    return out, peak / (1 << 20), cpu_s


def part(name: str, *arguments: str) -> tuple[dict[str, Any], float, float]:
    """Run a part of this benchmark in a new process."""
    out, peak, cpu_s = measured(sys.executable, "-m", "bench.pipeline", "--part", name, *arguments)
    return json.loads(out.splitlines()[-1]), peak, cpu_s


def report_progress(stage: str, done: int, total: int) -> None:
    """Print progress to standard error."""
    print(f"  {stage}: {done:,} of {total:,}", file=sys.stderr, flush=True)


def whole(landing: Path, folder: Path, cores: int) -> dict[str, Any]:
    """Run the pipeline over a landing zone; then read all of bronze once."""
    from tocsin.pipeline.bronze.ingest import ingest
    from tocsin.pipeline.bronze.landing_zone import landed_segments
    from tocsin.pipeline.catalogue import open_tables, open_warehouse
    from tocsin.pipeline.engine.spark import SparkOptions, spark_session
    from tocsin.pipeline.jobs.refresh import refresh
    from tocsin.pipeline.settings import load_settings

    settings = load_settings()
    house = open_warehouse(folder / "warehouse", settings)
    clock = time.perf_counter
    with spark_session(SparkOptions(f"local[{cores}]", scratch=folder), settings) as spark:
        spark.range(1).collect()
        tracker = spark.sparkContext.statusTracker()
        known, begin, cpu = len(tracker.getJobIdsForGroup(None)), clock(), tree(os.getpid())[1]
        ingest(spark, house, landing, landed_segments(landing), report_progress)
        bronze, bronze_cpu = clock(), tree(os.getpid())[1]
        state = refresh(spark, house, report_progress)
        end, end_cpu = clock(), tree(os.getpid())[1]
        jobs = len(tracker.getJobIdsForGroup(None)) - known
    with open_tables(house, state, ()) as tables:
        tables.execute("SET threads = 1")
        names = ", ".join(f'"{row[0]}"' for row in tables.execute("DESCRIBE event").fetchall())
        start = time.process_time()
        tables.execute(f"SELECT max(hash({names})) FROM event").fetchall()
        scan_cpu_s = time.process_time() - start
    tables_cpu = state.release.batch.cpu_s if state.release.batch else {}
    return {
        "events": state.rows("event"),
        "messages": state.rows("message_life"),
        "rows": {name: state.rows(name) for name in state.tables},
        "end_to_end_s": end - begin,
        "bronze_s": bronze - begin,
        "cpu_s": end_cpu - cpu,
        "bronze_cpu_s": bronze_cpu - cpu,
        "tables_cpu_s": tables_cpu,
        "scan_cpu_s": scan_cpu_s,
        "silver_cpu_s": tables_cpu.get("message_life", 0.0),
        "spark_jobs": jobs,
        "bronze_bytes": sum(file.bytes for file in state.files("event")),
    }


def bare_duckdb(landing: Path, folder: Path, cores: int) -> dict[str, Any]:
    """Make the same tables out of the same segments with DuckDB alone: no Spark, no quarantine, no commit."""
    from tocsin.pipeline.catalogue import MESSAGE, TABLES
    from tocsin.pipeline.engine.duck import open_duckdb
    from tocsin.pipeline.lake.relations import declared, sql_type
    from tocsin.pipeline.silver import VIEWS
    from tocsin.pipeline.silver.message_life import FOLD, PREPARE, SETTLE
    from tocsin.pipeline.tables.schemas import EVENT

    connection = open_duckdb(_DUCKDB_MIB, str(folder), cores)
    folder.mkdir(parents=True, exist_ok=True)
    begin = time.perf_counter()
    fields = {column.name: sql_type(column.type) for column in EVENT if column.name != "date"}
    fields |= {"policy": "JSON", "payload": "JSON", "metadata": "JSON"}
    listed = ", ".join(f"'{name}': '{kind}'" for name, kind in fields.items())
    (policies,) = (view for view in VIEWS if view.name == "policy_span")
    messages = 0
    projects = sorted(landing.glob("project=*"))
    for done, project in enumerate(projects):
        report_progress("projects", done, len(projects))
        source = (
            f"read_json('{project}/*/*.ndjson.zst', format='newline_delimited', columns={{{listed}}}, filename=true)"
        )
        events = declared(EVENT, f'SELECT *, to_day("at") AS date FROM {source}').replace(
            " FROM (", ", filename AS file FROM (", 1
        )
        bronze = folder / f"{project.name}.parquet"
        connection.execute(f"COPY ({events}) TO '{bronze}' (FORMAT parquet, COMPRESSION zstd)")
        connection.execute(f"CREATE OR REPLACE VIEW event AS SELECT * FROM read_parquet('{bronze}')")
        connection.execute(PREPARE)
        connection.execute(f"CREATE OR REPLACE TEMP TABLE merged AS {FOLD}")
        connection.execute(f"CREATE OR REPLACE TABLE message_life AS {SETTLE}", {"project": project.name[8:]})
        connection.execute(f"COPY message_life TO '{folder}/life.parquet' (FORMAT parquet, COMPRESSION zstd)")
        connection.execute(f"CREATE OR REPLACE VIEW message AS {MESSAGE}")
        by_name = {item.name: item for item in TABLES}
        for name in ("occurrence", "session_part"):
            connection.execute(
                f"CREATE OR REPLACE TABLE {name} AS {declared(by_name[name].columns, by_name[name].sql)}"
            )
        connection.execute(f"CREATE OR REPLACE VIEW policy_span AS {declared(policies.columns, policies.sql)}")
        for item in TABLES:
            query = declared(item.columns, item.sql)
            connection.execute(f"COPY ({query}) TO '{folder}/{item.name}.parquet' (FORMAT parquet, COMPRESSION zstd)")
        messages += connection.execute("SELECT count(*) FROM message").fetchall()[0][0]
    spent = os.times()
    return {"duckdb_s": time.perf_counter() - begin, "cpu_s": spent.user + spent.system, "messages": messages}


def streamed(landing: Path, folder: Path, cores: int) -> dict[str, Any]:
    """Stream segments of 2,000 events one after the other; return the time from arrival to commit of the warm ones."""
    from tocsin.pipeline.catalogue import open_warehouse
    from tocsin.pipeline.engine.spark import SparkOptions, spark_session
    from tocsin.pipeline.jobs.stream import start_stream
    from tocsin.pipeline.settings import load_settings

    settings = load_settings()
    house = open_warehouse(folder / "warehouse", settings)
    arriving = folder / "segments"
    arriving.mkdir(parents=True)
    committed = threading.Event()
    times = []
    with spark_session(SparkOptions(f"local[{cores}]", scratch=folder), settings) as spark:
        query = start_stream(spark, house, arriving, every_s=0.1, on_commit=lambda *_: committed.set())
        for path in sorted(landing.rglob("*.ndjson.zst"))[:_STREAM_BATCHES]:
            target = arriving / path.relative_to(landing)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target.with_suffix(".part"))
            committed.clear()
            start = time.perf_counter()
            target.with_suffix(".part").rename(target)
            while not committed.wait(1):
                if query.exception() is not None:
                    sys.exit(str(query.exception()))
            times.append(time.perf_counter() - start)
        query.stop()
    return {"stream_batch_s": statistics.median(times[_STREAM_WARM:]), "times": times}


def small_run(landing: Path, folder: Path, cores: int) -> float:
    """Return the CPU seconds of a run over few events, with all tables, the extract and the report."""
    common = (sys.executable, "-m", "tocsin", "pipeline", "--segments", str(landing), "--warehouse", str(folder / "w"))
    report = ("--report", str(folder / "report.html"))
    _, _, cpu_s = measured(*common, "--master", f"local[{cores}]", "run", *report, "--json")
    return cpu_s


def report(events: int, cores: int, run: Run) -> None:
    """Measure everything and print the results."""
    with run:
        text, found = _measured(events, cores, run.rounds)
    run.finish(text, found)


def _measured(events: int, cores: int, rounds: int) -> tuple[str, dict[str, Any]]:
    peaks: list[float] = []
    runs: dict[int, list[dict[str, Any]]] = {}
    ducks: list[dict[str, Any]] = []
    compared = events if events <= _DUCKDB_EVENTS_MAX else events // 10
    for size in (events // 10, events):
        landing, count = landing_of(CACHE, size)
        for number in range(rounds):
            print(f"{count:,} events, round {number + 1} of {rounds}", file=sys.stderr, flush=True)
            with tempfile.TemporaryDirectory(prefix="tocsin-bench-") as name:
                common = ("--landing", str(landing), "--folder", name, "--cores", str(cores))
                result, peak, _ = part("whole", *common)
                if result["events"] != count:
                    sys.exit(f"{result['events']} events of {count}")
                runs.setdefault(size, []).append(result)
                if size == events:
                    peaks.append(peak)
                if size == compared:
                    print(f"{count:,} events, bare DuckDB", file=sys.stderr, flush=True)
                    duck, _, _ = part("duckdb", *common[:2], "--folder", f"{name}/duck", "--cores", str(cores))
                    if duck["messages"] != result["messages"]:
                        sys.exit(f"DuckDB finds {duck['messages']} messages, the pipeline {result['messages']}")
                    ducks.append(duck)
    print("a small run", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory(prefix="tocsin-bench-") as name:
        small, _ = landing_of(CACHE, _SMALL)
        small_cpu_s = small_run(small, Path(name), cores)
    print("a stream", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory(prefix="tocsin-bench-") as name:
        pieces, _ = landing_of(CACHE, _STREAMED * _STREAM_BATCHES * 2, segment_bytes=_STREAMED * _EVENT_BYTES)
        stream, _, _ = part("stream", "--landing", str(pieces), "--folder", name, "--cores", str(cores))

    def middle(size: int, name: str) -> float:
        return float(statistics.median(result[name] for result in runs[size]))

    last = runs[events][0]
    count = last["events"]
    found = {
        "events": count,
        "messages": last["messages"],
        "cores": cores,
        "end_to_end_events_per_s": round(count / middle(events, "end_to_end_s")),
        "cpu_us_per_event": round(middle(events, "cpu_s") / count * 1e6, 2),
        "silver_x_scan": round(middle(events, "silver_cpu_s") / middle(events, "scan_cpu_s"), 2),
        "growth_10x": round(middle(events, "cpu_s") / (10 * middle(events // 10, "cpu_s")), 2),
        "peak_memory_mib": round(max(peaks)),
        "spark_jobs": last["spark_jobs"],
        "small_run_cpu_s": round(small_cpu_s, 1),
        "stream_batch_s": round(stream["stream_batch_s"], 1),
        "duckdb_events": compared,
        "duckdb_ratio": round(middle(compared, "cpu_s") / statistics.median(duck["cpu_s"] for duck in ducks), 2),
        "bronze_bytes_per_event": round(last["bronze_bytes"] / count, 1),
        "end_to_end_s": round(middle(events, "end_to_end_s"), 2),
    }
    rows = [["event", f"{last['bronze_cpu_s']:.1f}", f"{last['rows']['event']:,}"]]
    rows += [
        [name, f"{spent:.1f}", f"{last['rows'].get(name, 0):,}"]
        for name, spent in sorted(last["tables_cpu_s"].items(), key=lambda item: -item[1])
    ]
    rest = last["cpu_s"] - last["bronze_cpu_s"] - sum(last["tables_cpu_s"].values())
    rows.append(["Spark, Python and commit", f"{rest:.1f}", ""])
    figures = table(["figure", "value"], [[name, f"{value:,}"] for name, value in found.items()])
    return f"{count:,} events on {cores} cores\n\n{table(['table', 'CPU s', 'rows'], rows)}\n\n{figures}", found


def main() -> None:
    parser = options("bench-pipeline", __doc__, rounds=1)
    parser.add_argument("--events", type=int, default=None, help=f"events of the history (default: {EVENTS})")
    parser.add_argument("--cores", type=int, default=2)
    parts = {"whole": whole, "duckdb": bare_duckdb, "stream": streamed}
    parser.add_argument("--part", choices=tuple(parts), help=argparse.SUPPRESS)
    parser.add_argument("--landing", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.part is not None:
        result = parts[chosen.part](chosen.landing, chosen.folder, chosen.cores)
        print(msgspec.json.encode(result).decode())
    else:
        events = chosen.events or (QUICK_EVENTS if chosen.quick else EVENTS)
        report(events, chosen.cores, Run("bench-pipeline", chosen, rounds=1, rounds_min=1))


if __name__ == "__main__":
    main()
