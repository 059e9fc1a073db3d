"""The bench of the hub's doors runs, and its last line has what it is asked for."""

import json
import os
import subprocess
import sys
from pathlib import Path

from bench.hub import AIMS, LABELS, POLICY, ROWS, Hub, Load

ROOT = Path(__file__).parent.parent.parent
SOAK = bool(os.environ.get("TOCSIN_SOAK"))
#: Every kind of load once; all rows in `make soak`.
SOME = [
    *("floor_64", "floor_1", "ws_single", "ws_batched_delivered", "http_send", "mcp_send", "critical_saturated"),
    *("wake_start", "channel_notify"),
]
WANTED = [
    *("ws_batched_delivered_per_s", "ws_single_p50_ms", "http_send_p50_ms", "mcp_send_p50_ms", "floor_64_per_s"),
    *("floor_commit_p99_ms", "form", "commit", "load_before", "load_during", *(aim.name for aim in AIMS)),
]


def test_what_is_asked_for_is_measured() -> None:
    rows = [*ROWS] if SOAK else SOME
    command = [sys.executable, "-m", "bench.hub", "--quick", "--seconds", "0.3", "--connections", "4"]
    command += ["--only", *rows]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)  # noqa: S603
    assert done.returncode == 0, done.stderr
    *table, last = done.stdout.splitlines()
    assert [name for name in WANTED if name not in json.loads(last)] == []
    assert len([line for line in table if line.startswith(tuple(LABELS.values()))]) == len(rows)


def test_every_door_is_measured_to_its_recipient_too() -> None:
    ends = {name for name, row in ROWS.items() if row.get("deliver") or row["kind"] == "critical"}
    assert {ROWS[name]["kind"] for name in ends} == {row["kind"] for row in ROWS.values()} - {"floor"}


def test_a_recipient_over_http_gets_more_messages_than_may_wait_for_a_receipt(tmp_path: Path) -> None:
    hub = Hub(tmp_path / "data", POLICY.replace("limits: {", "limits: {drain_max: 3, "))
    try:
        tokens = [hub.token(f"agent{number}") for number in range(2)]
        row = {**ROWS["http_delivered"], "url": hub.url, "tokens": tokens, "seconds": 0.1}
        assert Load(row).figures()["messages"] > 3
    finally:
        hub.close()
