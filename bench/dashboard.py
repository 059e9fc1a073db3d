"""Benchmark of the dashboard: its page in Chromium, and the throughput of a hub with ten dashboards open.

The page. A hub has ten thousand pending messages and a steady load of about five thousand events per second; Chromium
shows its overview. Script time is what Chromium reports for the page's main thread (`ScriptDuration` of its Performance
domain), in processor time of that thread and in elapsed time, which also includes what the hub and its load took of the
same processors; frames are counted in a trace of the same time. So script that runs twice for one frame counts twice,
and time in which nothing is drawn does not reduce the figure. Memory is the heap of the page after a forced collection,
at the start and at the end.

The hub. Rounds without and with ten dashboards alternate, each with a new hub that receives messages as fast as it
accepts them; the figure is the ratio of the medians with and without.
These dashboards are clients that send the page's requests (sign in, live updates, overview) but draw nothing: ten
browsers on the same processors would measure the browsers. The last line is one JSON object.
"""

import json
import secrets
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import CDPSession, Page, sync_playwright
from tests.dashboard.browser import FLAGS, find_browser

from bench.hub import ROWS, Hub
from bench.report import Aim, Run, options, ratio, table

PENDING = 10_000
EVENTS_PER_S = 5_000
#: Events per message: sent, pushed and confirmed.
EVENTS_PER_MESSAGE = 3
DASHBOARDS = 10
#: Load for measuring the hub's throughput.
LOAD = ROWS["ws_batched"] | {"connections": 32}
WARM_UP_S = 15.0
ROUNDS = 9
MINUTES, SECONDS, LOAD_SECONDS = 10.0, 30.0, 5.0
QUICK_MINUTES, QUICK_SECONDS, QUICK_LOAD_SECONDS = 0.1, 3.0, 1.0
AIMS = (
    Aim("throughput_ratio_10_dashboards", ">=", 0.95, "throughput with ten dashboards, over that without"),
    Aim("script_ms_per_frame", "<", 16, "script of the page per frame drawn, milliseconds"),
)
#: Results of each round, by the number of dashboards.
Rates = dict[int, list[dict[str, float]]]
SPENT = ("ScriptDuration", "ScriptWall", "LayoutDuration", "RecalcStyleDuration")
TRACED = ["disabled-by-default-devtools.timeline.frame"]


@contextmanager
def running(task: dict[str, Any], result: dict[str, float]) -> Iterator[None]:
    """Run a load of `bench.dashboard_load` during the block; its result is put into `result` at the end."""
    command = [sys.executable, "-m", "bench.dashboard_load"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)  # noqa: S603
    if process.stdin is None or process.stdout is None:
        raise RuntimeError("the load has no standard input or output")
    process.stdin.write(json.dumps(task) + "\n")
    process.stdin.flush()
    if process.stdout.readline() != "ready\n":
        sys.exit(f"the load did not start: {process.wait(60)}")
    try:
        yield
    finally:
        process.stdin.close()
        said = process.stdout.read()
        if process.wait(60):
            sys.exit("the load failed")
        result.update(json.loads(said.splitlines()[-1]))


def call(hub: Hub, path: str, token: str, body: Any = None) -> Any:
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    content = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(hub.url + path, content, headers)  # noqa: S310
    with urllib.request.urlopen(request) as answer:  # noqa: S310
        return json.loads(answer.read())


def let_wait(hub: Hub, sender: str) -> None:
    """Send messages to agents that are offline."""
    for number in range(20):
        hub.token(f"away{number}")
    for start in range(0, PENDING, 500):
        batch = [
            {
                "version": "1.1.0",
                "messageId": f"msg_{number}_wait",
                "timestamp": "2026-03-02T10:00:00.000Z",
                "sender": {"agentId": "agent0", "type": "Manager"},
                "receiver": {"agentId": f"away{number % 20}", "type": "*"},
                "messageType": "TaskAssigned",
                "priority": ("Info", "Coordinate", "Blocking", "Critical")[number % 4],
                "payload": {"text": f"number {number}"},
            }
            for number in range(start, start + 500)
        ]
        if any("receipt" not in answer for answer in call(hub, "/v1/messages/batch", sender, batch)):
            sys.exit("a message that should be queued was refused")


class Watched:
    """A page with Chromium's metrics of it."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self._cdp: CDPSession = page.context.new_cdp_session(page)
        self._cdp.send("Performance.enable", {"timeDomain": "threadTicks"})
        self._wall: CDPSession = page.context.new_cdp_session(page)
        self._wall.send("Performance.enable", {"timeDomain": "timeTicks"})

    def metrics(self) -> dict[str, float]:
        """Return the metrics in processor time of the page's thread; `ScriptWall` is elapsed time."""
        found = self._cdp.send("Performance.getMetrics")["metrics"]
        known = {metric["name"]: metric["value"] for metric in found}
        found = self._wall.send("Performance.getMetrics")["metrics"]
        known["ScriptWall"] = next(metric["value"] for metric in found if metric["name"] == "ScriptDuration")
        return known

    def heap_mib(self) -> float:
        """Return the size of the page's heap after a garbage collection, MiB."""
        self._cdp.send("HeapProfiler.enable")
        for _ in range(3):
            self._cdp.send("HeapProfiler.collectGarbage")
        self._cdp.send("HeapProfiler.disable")
        return self.metrics()["JSHeapUsedSize"] / 2**20


def measure_page(root: Path, seconds: float, minutes: float) -> dict[str, float]:
    """Measure the overview page of a busy hub."""
    hub, result = Hub(root / secrets.token_hex(4)), dict[str, float]()
    try:
        tokens = [hub.token(f"agent{number}") for number in range(8)]
        admin = (hub.data / "admin.token").read_text(encoding="utf-8").strip()
        print(f"{PENDING:,} messages are pending", file=sys.stderr)
        let_wait(hub, tokens[0])
        rate = EVENTS_PER_S / EVENTS_PER_MESSAGE
        task = {"kind": "steady", "url": hub.url, "tokens": tokens, "per_s": rate, "batch": 8}
        with sync_playwright() as playwright, running(task, result):
            browser = playwright.chromium.launch(executable_path=find_browser(), args=list(FLAGS))
            page = browser.new_page(base_url=hub.url, viewport={"width": 1440, "height": 900})
            complaints: list[str] = []
            page.on("pageerror", lambda error: complaints.append(str(error)))
            page.goto("/sign-in")
            page.get_by_label("Token").fill(admin)
            page.get_by_role("button", name="Sign in").click()
            page.locator(".connection[data-status=live]").wait_for()
            page.wait_for_timeout(WARM_UP_S * 1000)
            watched = Watched(page)
            found = script_of(watched, hub, admin, seconds)
            found |= memory_of(watched, minutes)
            if complaints:
                sys.exit(f"the page failed: {complaints[0]}")
            page.locator(".connection[data-status=live]").wait_for()
            browser.close()
        return found | {"load_late_max_s": result["late_max_s"]}
    finally:
        hub.close()


def script_of(watched: Watched, hub: Hub, admin: str, seconds: float) -> dict[str, float]:
    """Measure script time and frames over the same time."""
    print(f"script and frames for {seconds:g} s", file=sys.stderr)
    browser = watched.page.context.browser
    if browser is None:
        raise RuntimeError("the page has no browser")
    browser.start_tracing(page=watched.page, categories=TRACED)
    before, begin, seq = watched.metrics(), time.perf_counter(), call(hub, "/v1/history", admin)["seq"]
    watched.page.wait_for_timeout(seconds * 1000)
    after, passed, last = watched.metrics(), time.perf_counter() - begin, call(hub, "/v1/history", admin)["seq"]
    trace = json.loads(browser.stop_tracing())
    frames = sum(1 for event in trace["traceEvents"] if event["name"] == "DrawFrame")
    spent = {name: after[name] - before[name] for name in SPENT}
    return {
        "script_ms_per_frame": spent["ScriptDuration"] * 1000 / max(1, frames),
        "script_wall_ms_per_frame": spent["ScriptWall"] * 1000 / max(1, frames),
        "script_share": spent["ScriptDuration"] / passed,
        "layout_and_style_share": (spent["LayoutDuration"] + spent["RecalcStyleDuration"]) / passed,
        "frames_per_s": frames / passed,
        "events_per_s": (last - seq) / passed,
    }


def memory_of(watched: Watched, minutes: float) -> dict[str, float]:
    """Measure the growth of the page's heap."""
    first = watched.heap_mib()
    steps = max(1, round(minutes))
    for step in range(steps):
        watched.page.wait_for_timeout(minutes * 60_000 / steps)
        now = watched.heap_mib()
        print(f"minute {(step + 1) * minutes / steps:.1f}: heap {now:.2f} MiB", file=sys.stderr)
    nodes = watched.metrics()["Nodes"]
    return {"heap_begin_mib": first, "heap_end_mib": now, "memory_minutes": minutes, "nodes": nodes}


def throughput(root: Path, seconds: float, dashboards: int) -> dict[str, float]:
    """Return the throughput of a new hub with some dashboards open."""
    hub, result = Hub(root / secrets.token_hex(4)), dict[str, float]()
    try:
        tokens = [hub.token(f"agent{number}") for number in range(LOAD["connections"] + 1)]
        admin = (hub.data / "admin.token").read_text(encoding="utf-8").strip()
        task = {**LOAD, "url": hub.url, "tokens": tokens, "seconds": seconds}
        watching = {"kind": "viewers", "url": hub.url, "token": admin, "viewers": dashboards}

        def load() -> dict[str, float]:
            before = hub.cpu_s()
            done = subprocess.run(
                [sys.executable, "-m", "bench.load"],
                input=json.dumps(task),
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode:
                sys.exit(f"the load failed:\n{done.stderr}")
            found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
            return found | {"hub_cpu_us": (hub.cpu_s() - before) / max(1.0, found["messages"]) * 1e6}

        if not dashboards:
            return load()
        with running(watching, result):
            found = load()
        if result["frames"] < dashboards:
            sys.exit("the dashboards received no updates")
        return found
    finally:
        hub.close()


def main() -> None:
    parser = options("bench-dashboard", __doc__, rounds=ROUNDS)
    parser.add_argument("--minutes", type=float, default=None, help=f"minutes of looking at memory ({MINUTES:g})")
    parser.add_argument("--seconds", type=float, default=None, help=f"seconds of counting frames ({SECONDS:g})")
    parser.add_argument("--load-seconds", type=float, default=None, help=f"seconds of throughput ({LOAD_SECONDS:g})")
    parser.add_argument("--only", choices=["page", "hub"], help="measure only one part")
    chosen = parser.parse_args()
    rates: Rates = {0: [], DASHBOARDS: []}
    minutes = chosen.minutes or (QUICK_MINUTES if chosen.quick else MINUTES)
    seconds = chosen.seconds or (QUICK_SECONDS if chosen.quick else SECONDS)
    load_s = chosen.load_seconds or (QUICK_LOAD_SECONDS if chosen.quick else LOAD_SECONDS)
    with (
        Run("bench-dashboard", chosen, rounds=ROUNDS) as run,
        tempfile.TemporaryDirectory(prefix="tocsin-bench-") as root,
    ):
        page = {} if chosen.only == "hub" else measure_page(Path(root), seconds, minutes)
        for number in range(0 if chosen.only == "page" else run.rounds):
            for dashboards in (0, DASHBOARDS) if number % 2 == 0 else (DASHBOARDS, 0):
                print(f"round {number + 1} of {run.rounds}: {dashboards} dashboards", file=sys.stderr)
                rates[dashboards].append(throughput(Path(root), load_s, dashboards))
    found = {name: round(value, 3) for name, value in (_page_figures(page) | _hub_figures(rates)).items()}
    run.finish(table(["", "figure"], [*_page_rows(page), *_hub_rows(rates)]), found, AIMS)


def _growth(page: dict[str, float]) -> float:
    return page["heap_end_mib"] - page["heap_begin_mib"]


def _page_figures(page: dict[str, float]) -> dict[str, float]:
    if not page:
        return {}
    return {
        "script_ms_per_frame": page["script_ms_per_frame"],
        "script_wall_ms_per_frame": page["script_wall_ms_per_frame"],
        "script_share": page["script_share"],
        "frames_per_s": page["frames_per_s"],
        "events_per_s": page["events_per_s"],
        "memory_growth_mib_10min": _growth(page),
        "memory_minutes": page["memory_minutes"],
        "heap_mib": page["heap_end_mib"],
    }


def _page_rows(page: dict[str, float]) -> list[list[str]]:
    if not page:
        return []
    return [
        ["events while it was looked at, per s", f"{page['events_per_s']:,.0f}"],
        ["script per frame drawn, ms", f"{page['script_ms_per_frame']:.2f}"],
        ["… by the clock on the wall, ms", f"{page['script_wall_ms_per_frame']:.2f}"],
        ["frames drawn, per s", f"{page['frames_per_s']:.1f}"],
        ["script, share of the time", f"{page['script_share']:.1%}"],
        ["layout and style, share of the time", f"{page['layout_and_style_share']:.1%}"],
        ["heap at the end, MiB", f"{page['heap_end_mib']:.2f}"],
        [f"heap growth in {page['memory_minutes']:g} minutes, MiB", f"{_growth(page):+.2f}"],
    ]


def _median(rates: Rates, dashboards: int, name: str) -> float:
    return statistics.median(each[name] for each in rates[dashboards])


def _hub_figures(rates: Rates) -> dict[str, float]:
    if not rates[0]:
        return {}
    pairs = list(zip(rates[0], rates[DASHBOARDS], strict=True))

    def over(name: str) -> float:
        return ratio((each[name] for each in rates[DASHBOARDS]), (each[name] for each in rates[0]))

    return {
        "throughput_ratio_10_dashboards": over("per_s"),
        "throughput_ratio_10_dashboards_by_rounds": statistics.median(b["per_s"] / a["per_s"] for a, b in pairs),
        "hub_cpu_ratio_10_dashboards": 1 / over("hub_cpu_us"),
    }


def _hub_rows(rates: Rates) -> list[list[str]]:
    if not rates[0]:
        return []
    return [
        ["messages confirmed without a dashboard, per s", f"{_median(rates, 0, 'per_s'):,.0f}"],
        [f"… with {DASHBOARDS}", f"{_median(rates, DASHBOARDS, 'per_s'):,.0f}"],
        ["hub's processor per message without, µs", f"{_median(rates, 0, 'hub_cpu_us'):.1f}"],
        [f"… with {DASHBOARDS}", f"{_median(rates, DASHBOARDS, 'hub_cpu_us'):.1f}"],
    ]


if __name__ == "__main__":
    main()
