"""Benchmark of the demo, run as `make demo` runs it: times until the page, the end of the story, and the report.

All rounds use one folder, so that from the second round on the demo finds the data of an earlier run. The page counts
once its sign-in page has been loaded from the address that the demo prints.
"""

import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage

from bench.report import Aim, Run, options, table

ROUNDS = 2
ROOT = Path(__file__).parents[1]
#: What the demo prints at the end of each part; the first has the address of the page.
PARTS = {"page": r"sign in\s+(http://[^\s#]+)", "story": "The story is told", "report": "The report is ready"}
LABELS = {"page": "page and sign-in link", "story": "story told", "report": "Spark's tables and report"}
AIMS = (
    Aim("page_s", "<=", 5.0, "seconds until the page can be opened, slowest round"),
    Aim("story_s", "<=", 60.0, "seconds until the story is told, slowest round"),
    Aim("report_s", "<=", 120.0, "seconds until Spark's tables and the report are ready, slowest round"),
)


def measure(folder: Path, *words: str) -> dict[str, float]:
    """Run the demo once; return the seconds until each part was ready, and the processor time of it all."""
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "COLUMNS": "160"}
    found: dict[str, float] = {}
    before, started = getrusage(RUSAGE_CHILDREN), time.perf_counter()
    process = subprocess.Popen(  # noqa: S603
        [sys.executable, "-m", "demo", "--leave", "--port", "0", *words],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        for line in process.stdout or ():
            for name, pattern in PARTS.items():
                if name not in found and (match := re.search(pattern, line)):
                    if name == "page":
                        urllib.request.urlopen(match[1]).close()  # noqa: S310
                    found[name] = time.perf_counter() - started
    if process.returncode:
        sys.exit(f"the demo ended with code {process.returncode}")
    after = getrusage(RUSAGE_CHILDREN)
    found["cpu"] = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return found


def main() -> None:
    parser = options("bench-demo", __doc__, rounds=ROUNDS)
    chosen = parser.parse_args()
    words = ["--quick", "--without-pipeline"] if chosen.quick else []
    with (
        Run("bench-demo", chosen, rounds=ROUNDS, rounds_min=2) as run,
        tempfile.TemporaryDirectory(prefix="tocsin-bench-") as root,
    ):
        rounds = [measure(Path(root), *words) for _ in range(run.rounds)]
    names = [name for name in (*PARTS, "cpu") if name in rounds[0]]
    text = table(
        ["seconds until", *(f"run {number}" for number in range(1, len(rounds) + 1))],
        [
            [LABELS.get(name, "processor time of all processes"), *(f"{one[name]:.1f}" for one in rounds)]
            for name in names
        ],
    )
    run.finish(text, {f"{name}_s": round(max(one[name] for one in rounds), 2) for name in names}, AIMS)


if __name__ == "__main__":
    main()
