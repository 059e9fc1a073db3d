"""`make demo`, run as a process: interruptions, a second run and a taken port."""

import os
import signal
import socket
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import httpx2
import pytest
from demo.history import make_history
from demo.hub import DemoHub
from demo.show import find_port

from tests.demo.running import QUICK, STOPPED, demo, is_running
from tocsin.hub.wakers.process import is_running as woken_agent_runs
from tocsin.hub.wakers.process import read_note


def test_an_interrupted_or_killed_demo_leaves_nothing_and_the_next_one_is_as_good(tmp_path: Path) -> None:
    with demo(tmp_path, "--port", "0", *QUICK) as first:
        first.until("dashboard ")
        assert first.interrupt().splitlines()[-1] == STOPPED
    with demo(tmp_path, "--port", "0", *QUICK) as killed:
        killed.until("dashboard ")
        left = killed.hub
        killed.process.kill()
        killed.process.wait()
        assert is_running(left)
    with demo(tmp_path, "--port", "0", *QUICK) as third:
        third.until("dashboard ")
        assert not is_running(left)
        third.until("1 of 12  Urgent messages first")
        third.process.send_signal(signal.SIGTERM)
        assert third.rest().endswith(STOPPED)


def test_a_demo_that_is_interrupted_during_a_wake_ends_the_woken_agent(tmp_path: Path) -> None:
    with demo(tmp_path, "--port", "0", *QUICK) as running:
        running.until("10 of 12")
        notes = tmp_path / ".demo" / "hub" / "wakes" / "nora"
        while (note := next((read_note(path) for path in notes.glob("*.json")), None)) is None:
            assert running.process.poll() is None
        running.interrupt()
        assert not woken_agent_runs(note)


def test_a_taken_port_is_said_at_once(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = other.getsockname()[1]
        with demo(tmp_path, "--port", str(taken), *QUICK) as refused:
            assert refused.rest() == f"port {taken} is taken: choose another with --port, or leave it out"
            assert refused.process.returncode == 1


def test_another_port_is_used_if_the_default_one_is_taken(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = other.getsockname()[1]
        found = find_port(None, taken)
        said = " ".join(capsys.readouterr().out.split())
        assert said == f"Port {taken} is taken, perhaps by another hub. This one uses {found}."
        assert found not in (0, taken)


async def test_the_steps_of_the_pipeline_are_told_and_its_events_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "tocsin.py"
    program.write_text("print('1 of 2 START spark\\n1 of 2 DONE spark [3.10 s]\\n1,234 events of 2 new segments')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (tmp_path / "hub" / "segments").mkdir(parents=True)
    (tmp_path / "hub" / "segments" / "1.zst").touch()
    os.utime(tmp_path / "hub" / "segments" / "1.zst", (2**31, 2**31))
    hub = SimpleNamespace(root=tmp_path, data=tmp_path / "hub", url="http://hub")
    told: list[str] = []
    found = await make_history(cast("DemoHub", hub), told.append)
    assert told[1:3] == ["starting Spark", "step 1 of 2, spark"]
    assert "tables of 1,234 events" in found


@pytest.mark.skipif(not os.environ.get("TOCSIN_SOAK"), reason="Spark takes a while: make soak")
def test_the_report_is_in_the_dashboard(tmp_path: Path) -> None:
    with demo(tmp_path, "--quick", "--port", "0") as running:
        running.until("history: starting Spark")
        running.until(r"history: step \d of \d, events")
        running.until(r"history: step \d of \d, tables")
        url = running.until(r"✓ The report is ready.* tables of [\d,]+ events.* (http://\S+)/#/history, Reports")[1]
        token = (tmp_path / ".demo" / "hub" / "tokens" / "hugo.token").read_text().strip()
        headers = {"Authorization": f"Bearer {token}"}
        (report,) = httpx2.get(f"{url}/v1/history/reports", headers=headers).json()["items"]
        page = httpx2.get(url + report["path"], headers=headers)
        assert page.status_code == 200
        assert len(page.content) > 10_000
        running.interrupt()
