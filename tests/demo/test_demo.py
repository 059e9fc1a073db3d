"""`make demo`, run as a process: the story, the open matters, interruptions, a second run and a taken port."""

import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import httpx2
import pytest
from demo.history import make_history
from demo.hub import DemoHub
from demo.show import find_port

from tocsin.hub.wakers.process import is_running as woken_agent_runs
from tocsin.hub.wakers.process import read_note

ROOT = Path(__file__).parents[2]
QUICK = ("--quick", "--without-pipeline")


class Demo:
    """A demo that runs in a folder of its own; its output is read line by line."""

    def __init__(self, folder: Path, *options: str) -> None:
        environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "COLUMNS": "160", "TERM": "dumb"}
        self.folder = folder
        self.process = subprocess.Popen(  # noqa: S603
            # As a shell starts a program in the background: that must not keep a signal from ending it.
            ["env", "--ignore-signal=INT", sys.executable, "-m", "demo", *options],  # noqa: S607
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.lines: list[str] = []

    def until(self, pattern: str) -> re.Match[str]:
        """Read lines until one matches."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))
            if found := re.search(pattern, line):
                return found
        raise AssertionError(f"the demo ended without {pattern!r}:\n" + "\n".join(self.lines))

    def rest(self) -> str:
        """Return all output, without line breaks, once the demo has ended."""
        assert self.process.stdout is not None
        self.lines += self.process.stdout.read().splitlines()
        self.process.wait()
        return " ".join(" ".join(self.lines).split())

    def interrupt(self) -> str:
        """Press Ctrl-C and return what is said from then on; nothing may be left running."""
        said = len(self.lines)
        hub = self.hub
        self.process.send_signal(signal.SIGINT)
        self.rest()
        assert self.process.returncode == 0
        assert not is_running(hub)
        return "\n".join(self.lines[said:]).strip()

    @property
    def hub(self) -> int:
        """Return the process id of the hub."""
        return int((self.folder / ".demo" / "hub.pid").read_text())

    def tocsin(self, *words: str) -> str:
        """Run the command line that the demo offers."""
        done = subprocess.run(  # noqa: S603
            [".demo/tocsin", *words],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@contextmanager
def demo(folder: Path, *options: str) -> Iterator[Demo]:
    running = Demo(folder, *options)
    try:
        yield running
    finally:
        if running.process.poll() is None:
            running.process.send_signal(signal.SIGINT)
            running.process.wait(60)
        if running.process.stdout is not None:
            running.process.stdout.close()


def is_running(number: int) -> bool:
    """Tell whether a process runs; one that has ended and was not reaped yet does not."""
    try:
        status = Path(f"/proc/{number}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


#: What the page says in the end, one line for each of its stories.
TOLD = (
    "14 tasks were assigned",
    "bob received it as number 1 of 201",
    r"600 messages at once: (?P<accepted>\d+) were accepted and (?P<refused>\d+) refused \(E_ADMISSION",
    r"\(recalled\); one that ada had already read was not \(already_delivered\)",
    "it had expired, unread",
    "the clone inherited Blocking",
    r"bob was refused after \d+ ms \(.*bob → ada → bob.*\)",
    "erin was at step 2 of 4",
    r"\(4 steps in the end, none twice\)",
    r"in hugo's inbox at Critical, and hugo resolved it\.",
    "processed on attempt 2",
    r"nora was not running \(reached by its waker\)",
    r'dora had the answer: "I read your message of \d+ bytes, dora: I look at it now"',
    r"Outcome of the wake: woken\. With nothing left to do the worker ended\.",
    r"critical (?P<critical>\d+)%, normal (?P<normal>\d+)%, best effort (?P<best_effort>\d+)%",
)


def test_the_story(tmp_path: Path) -> None:
    """One run, because it takes long; each comparison is of all that is looked at."""
    with demo(tmp_path, "--leave", "--port", "0", *QUICK) as running:
        page = running.rest()
        assert running.process.returncode == 0, page
    found = {pattern: re.search(pattern, page) for pattern in TOLD}
    assert [pattern for pattern, said in found.items() if said is None] == [], page
    counts = {name: int(number) for said in found.values() if said for name, number in said.groupdict().items()}
    assert counts["accepted"] + counts["refused"] == 600
    assert 0 == counts["critical"] <= counts["normal"] <= counts["best_effort"]
    tokens = list((tmp_path / ".demo" / "hub" / "tokens").iterdir())
    assert len(tokens) == 10
    assert [token.name for token in tokens if token.stat().st_mode & 0o077] == [], "only their owner reads them"
    assert [token.name for token in tokens if token.read_text().strip() in page] == [], "none is shown"


def test_a_reader_signs_in_acts_on_what_is_open_and_stops(tmp_path: Path) -> None:
    with demo(tmp_path, "--port", "0", *QUICK) as running:
        url, code, token_id = running.until(r"sign in +(http://[\d.:]+)/sign-in\?link#code=([\w-]+)\.(\w+)").groups()
        assert " 1 of 12" not in "\n".join(running.lines), "the link is the first thing that is shown"
        headers = {"Tocsin-Dashboard": "1", "Tocsin-Token-Id": token_id}
        signed_in = httpx2.post(f"{url}/sign-in", json={"code": code}, headers=headers)
        assert signed_in.json()["agent"] == "hugo"

        with demo(tmp_path, *QUICK) as second:
            assert f"a demo already runs in .demo (process {running.process.pid})" in second.rest()
            assert second.process.returncode == 1

        running.until("Try this")
        commands = [running.until(r"^  \.demo/tocsin (.+)  # ")[1] for _ in range(3)]
        outputs = [running.tocsin(*shlex.split(command)) for command in commands]
        assert "Critical" in outputs[2]
        running.until("✓ You (approved the merge|redrove)")
        running.until("✓ You (approved the merge|redrove)")
        escalation = re.search(r"esc_\w+", running.tocsin("--as", "hugo", "escalations", "list"))
        assert escalation is not None
        running.tocsin("--as", "hugo", "escalations", "resolve", escalation[0], "ten years")
        running.until("✓ You answered the escalation")
        lease = re.search(r"lse_\w+(?=.*src/billing/\*\*)", running.tocsin("--as", "hugo", "leases", "list"))
        assert lease is not None
        running.tocsin("--as", "hugo", "leases", "force-release", lease[0], "--reason", "bob-2 needs it")
        running.until(r"✓ You released src/billing/\*\*")

        before = json.loads(running.tocsin("status", "--json"))["seq"]
        while json.loads(running.tocsin("status", "--json"))["seq"] == before:
            pass  # The team works on, in the background.
        assert running.interrupt() == "Stopped. The data is kept in .demo until the next run."


def test_an_interrupted_or_killed_demo_leaves_nothing_and_the_next_one_is_as_good(tmp_path: Path) -> None:
    with demo(tmp_path, "--port", "0", *QUICK) as first:
        first.until("dashboard ")
        assert first.interrupt().splitlines()[-1] == "Stopped. The data is kept in .demo until the next run."
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
        assert third.rest().endswith("Stopped. The data is kept in .demo until the next run.")


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
