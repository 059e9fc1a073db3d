"""The whole way from a hub's segments through Spark and the extract to the dashboard's tables."""

import os
import time
from pathlib import Path

import pytest

from tests.cli.processes import run
from tests.dashboard.stage import SERVER, Stage
from tests.pipeline.clusters import QUICK
from tocsin import zstd

SOAK = bool(os.environ.get("TOCSIN_SOAK"))
#: Segments are written almost immediately.
POLICY = "storage: {projection_interval_s: 0.02, segment_age_s: 0.05}\n"
SMALL = "{driver_memory_mib: 1024, class_archive: false}"


def exported(data: Path) -> int:
    """Count the events in all segments."""
    paths = (data / "segments").rglob("*.ndjson.zst")
    return sum(zstd.decompress(path.read_bytes()).count(b"\n") for path in paths)


@pytest.mark.skipif(not SOAK, reason="all tables of the pipeline take minutes: make soak")
def test_sent_messages_are_counted_in_the_tables(tmp_path: Path) -> None:
    with Stage(tmp_path, POLICY, SERVER) as stage:
        sent = [stage.send("ada", "bob") for _ in range(5)] + [stage.send("bob", "ada", messageType="CUSTOM_NOTE")]
        stage.drain("bob")
        assert stage.get("/v1/history")["available"] is False
        seq = stage.get("/v1/status")["seq"]
        while exported(stage.data) < seq:
            time.sleep(0.05)
        (stage.data / "pipeline.yaml").write_text(SMALL)
        conf = [part for name, value in QUICK.items() for part in ("--conf", f"{name}={value}")]
        command = ["pipeline", "--data", str(stage.data), "--master", "local[2]", *conf, "run"]
        done = run(*command, cwd=tmp_path, timeout_s=900)
        assert done.returncode == 0, done.stderr
        view = stage.get("/v1/history")
        assert (view["available"], view["gaps"]) == (True, 0)
        assert view["reached_seq"] >= seq
        assert view["reached_seq"] + view["behind_events"] == view["seq"]
        rows = stage.get("/v1/history/tables/traffic?type=StatusUpdate&figure=messages")
        place = [column["name"] for column in rows["columns"]].index("messages")
        assert sum(row[place] for row in rows["rows"]) == sum(point["value"] for point in rows["series"]) == 5
        everything = stage.get("/v1/history/tables/traffic?figure=messages")
        assert sum(point["value"] for point in everything["series"]) == len(sent)
        assert stage.get("/v1/history/advice")["written_at"] is not None
