"""`tocsin work` that is stopped or killed: its commands end with it, and their messages go back at once."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.processes import RunningHub
from tests.cli.test_work import send, state
from tests.forks import Forked
from tests.patience import PATIENCE_S
from tocsin.cli.programs.guard import Guard

#: Writes its process id and that of a child, and does not end by itself; `first` is done before.
STAYS = """
    import json, os, pathlib, signal, subprocess, sys, time
    folder, number = pathlib.Path(sys.argv[1]), json.load(sys.stdin)["number"]
    {first}
    child = subprocess.Popen(["sleep", "1000"])
    (folder / "new").write_text(f"{{os.getpid()}} {{child.pid}}")
    (folder / "new").rename(folder / f"pids {{number}}")
    time.sleep(1000)
"""


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningHub]:
    data = tmp_path_factory.mktemp("stopped") / "data"
    data.mkdir(mode=0o700)
    (data / "tocsin.yaml").write_text("contracts: {CUSTOM_JOB: {retries_max: 2, backoff_s: [0.01]}}")
    (data / "server.yaml").write_text("socket: {resume_grace_s: 0.1}")
    with RunningHub(data) as hub:
        for agent in ("ada", "bob"):
            hub.ask("agents", "add", agent, "--save")
        yield hub


class Work:
    """A running `tocsin work` of bob, with what it has said."""

    def __init__(self, hub: RunningHub, tmp_path: Path, program: str, options: tuple[str, ...]) -> None:
        path = tmp_path / "program.py"
        path.write_text(textwrap.dedent(program))
        words = ["--url", hub.url, "--data", str(hub.data), "work", "--as", "bob", *options]
        self.told = tmp_path / "told"
        with self.told.open("wb") as told:
            command = [*words, "--", sys.executable, str(path), str(tmp_path)]
            self.process = Forked(["tocsin", *command], stdout=told, stderr=told, cwd=tmp_path)

    def end(self, *signals: int) -> str:
        """Send signals, wait for the end, and return what it said at last."""
        for number in signals:
            self.process.send_signal(number)
        assert self.process.wait(PATIENCE_S) == 0, self.told.read_text()
        return self.told.read_text()


@contextmanager
def work(hub: RunningHub, tmp_path: Path, program: str, *options: str) -> Iterator[Work]:
    running = Work(hub, tmp_path, program, options)
    try:
        yield running
    finally:
        running.process.kill()
        running.process.wait(PATIENCE_S)


def until(happened: Callable[[], object]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not happened():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.01)


def pids(tmp_path: Path, number: int) -> list[int]:
    """Wait for the processes of a message, and return them."""
    file = tmp_path / f"pids {number}"
    until(file.exists)
    return [int(pid) for pid in file.read_text().split()]


def condition(pid: int) -> str:
    """Return the letter of a process's state; Z also for one that is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "Z"


def finish(hub: RunningHub, tmp_path: Path, *sent: str) -> None:
    """Let another worker handle messages that were given back."""
    with work(hub, tmp_path, "") as other:
        until(lambda: all(state(hub, one)["state"] == "processed" for one in sent))
        other.end(signal.SIGTERM)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT], ids=lambda number: number.name)
def test_its_command_ends_with_it_and_the_message_is_queued_at_once(
    hub: RunningHub, tmp_path: Path, number: signal.Signals
) -> None:
    sent = send(hub, "bob", 1)
    with work(hub, tmp_path, STAYS.format(first="")) as worker:
        started = pids(tmp_path, 1)
        said = worker.end(number)
    assert {condition(pid) for pid in started} == {"Z"}
    found = state(hub, sent)
    assert (found["state"], found["attempts"]) == ("queued", 0), "no retry was used"
    assert f"ended by {number.name}: 1 command ended ({sent}), 1 message given back" in said
    finish(hub, tmp_path, sent)


def test_a_message_whose_receipt_was_sent_is_given_back_as_a_retry(hub: RunningHub, tmp_path: Path) -> None:
    sent = send(hub, "bob", 1)
    with work(hub, tmp_path, STAYS.format(first=""), "--receipt-after-s", "0") as worker:
        pids(tmp_path, 1)
        until(lambda: state(hub, sent)["state"] == "delivered")
        said = worker.end(signal.SIGTERM)
    found = state(hub, sent)
    assert (found["state"], found["attempts"]) == ("queued", 1)
    assert f"1 command ended ({sent}), 1 message given back" in said
    finish(hub, tmp_path, sent)


@pytest.mark.parametrize("receipt_after_s", ["1000", "0"])
def test_it_takes_no_more_messages_than_it_can_begin(hub: RunningHub, tmp_path: Path, receipt_after_s: str) -> None:
    sent = [send(hub, "bob", number) for number in (1, 2, 3)]
    options = ("--concurrency", "2", "--receipt-after-s", receipt_after_s)
    with work(hub, tmp_path, STAYS.format(first=""), *options) as worker:
        for number in (1, 2):
            pids(tmp_path, number)
        taken = "offered" if receipt_after_s == "1000" else "delivered"
        until(lambda: [state(hub, one)["state"] for one in sent[:2]] == [taken] * 2)
        assert state(hub, sent[2])["state"] == "queued"
        said = worker.end(signal.SIGTERM)
    assert "2 commands ended" in said
    assert "2 messages given back" in said
    finish(hub, tmp_path, *sent)


def test_a_command_that_ends_with_0_in_time_has_done_its_work(hub: RunningHub, tmp_path: Path) -> None:
    sent = send(hub, "bob", 1)
    first = "signal.signal(signal.SIGTERM, lambda *_: (child.terminate(), sys.exit(0)))"
    with work(hub, tmp_path, STAYS.format(first=first)) as worker:
        pids(tmp_path, 1)
        said = worker.end(signal.SIGTERM)
    assert state(hub, sent)["state"] == "processed"
    assert "0 commands ended, 0 messages given back" in said
    assert "1 message handled" in said


IGNORES = "signal.signal(signal.SIGTERM, signal.SIG_IGN)"


def test_a_command_that_ignores_sigterm_is_killed_after_a_while(hub: RunningHub, tmp_path: Path) -> None:
    sent = send(hub, "bob", 1)
    with work(hub, tmp_path, STAYS.format(first=IGNORES), "--kill-after-s", "0.1") as worker:
        started = pids(tmp_path, 1)
        worker.end(signal.SIGTERM)
    assert {condition(pid) for pid in started} == {"Z"}
    finish(hub, tmp_path, sent)


def test_the_second_signal_kills_at_once(hub: RunningHub, tmp_path: Path) -> None:
    sent = send(hub, "bob", 1)
    # A child that says when it was asked to end, so that the second signal is not the first.
    first = f"""
    if not os.fork():
        signal.signal(signal.SIGTERM, lambda *_: (folder / "asked").touch())
        while True:
            time.sleep(1000)
    {IGNORES}
    """
    with work(hub, tmp_path, STAYS.format(first=first), "--kill-after-s", "1000") as worker:
        started = pids(tmp_path, 1)
        worker.process.send_signal(signal.SIGTERM)
        until((tmp_path / "asked").exists)
        worker.end(signal.SIGTERM)
    assert {condition(pid) for pid in started} == {"Z"}
    finish(hub, tmp_path, sent)


def test_a_command_that_is_stopped_at_a_pause_point_ends_too(hub: RunningHub, tmp_path: Path) -> None:
    slow = send(hub, "bob", 1, "--priority", "Info")
    with work(hub, tmp_path, STAYS.format(first=""), "--pause-every-s", "0.02") as worker:
        outer = pids(tmp_path, 1)
        urgent = send(hub, "bob", 2, "--priority", "Critical")
        inner = pids(tmp_path, 2)
        assert condition(outer[0]) == "T", "it is stopped meanwhile"
        said = worker.end(signal.SIGTERM)
    assert {condition(pid) for pid in (*outer, *inner)} == {"Z"}
    assert "2 commands ended" in said
    assert "2 messages given back" in said
    finish(hub, tmp_path, slow, urgent)


def test_what_a_command_leaves_in_its_group_ends_with_it(hub: RunningHub, tmp_path: Path) -> None:
    sent = send(hub, "bob", 1)
    program = STAYS.format(first="").replace("time.sleep(1000)", "")
    with work(hub, tmp_path, program, "--reply", "CUSTOM_RESULT") as worker:
        _, child = pids(tmp_path, 1)
        until(lambda: state(hub, sent)["state"] == "processed")
        assert condition(child) == "Z"
        worker.end(signal.SIGTERM)


def test_the_commands_of_a_killed_worker_are_killed_with_all_that_they_have_started(
    hub: RunningHub, tmp_path: Path
) -> None:
    sent = send(hub, "bob", 1)
    with work(hub, tmp_path, STAYS.format(first=IGNORES)) as worker:
        started = pids(tmp_path, 1)
        worker.process.kill()
        until(lambda: {condition(pid) for pid in started} == {"Z"})
    finish(hub, tmp_path, sent)


def test_a_worker_whose_wake_has_run_too_long_ends_its_command_and_gives_the_message_back(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    (tmp_path / "program.py").write_text(textwrap.dedent(STAYS.format(first="")))
    command = [sys.executable, str(tmp_path / "program.py"), str(tmp_path)]
    waker = {"command": [sys.executable, "-m", "tocsin", "work", "--", *command], "directory": str(tmp_path)}
    (data / "server.yaml").write_text(json.dumps({"wakers": {"agents": {"bob": waker}, "check_s": 0.05}}))
    (data / "tocsin.yaml").write_text("wake: {after_s: 0, grace_s: 5, run_s: 5, cooldown_s: 1000}")
    with RunningHub(data) as hub:
        for agent in ("ada", "bob"):
            hub.ask("agents", "add", agent, "--save")
        sent = send(hub, "bob", 1, "--priority", "Blocking")
        started = pids(tmp_path, 1)
        until(lambda: {condition(pid) for pid in started} == {"Z"})
        until(lambda: state(hub, sent)["state"] == "queued")
        said = f"ended by SIGTERM: 1 command ended ({sent}), 1 message given back"
        until(lambda: any(said in log.read_text() for log in (data / "wakes" / "bob").glob("*.log")))


def test_a_guard_that_has_ended_is_replaced_by_one_that_knows_the_commands() -> None:
    guard = Guard()
    commands: list[subprocess.Popen[bytes]] = []
    for _ in range(3):
        if len(commands) == 1:
            os.kill(killed := guard_of_this_process(), signal.SIGKILL)
            until(lambda: condition(killed) == "Z")
        start = guard.registration()
        commands.append(subprocess.Popen(["/bin/sleep", "1000"], start_new_session=True, preexec_fn=start))
        guard.registered(commands[-1].pid)
    guard.withdraw(commands[2].pid)
    guard.close()
    assert [command.wait(PATIENCE_S) for command in commands[:2]] == [-signal.SIGKILL] * 2
    assert commands[2].poll() is None, "it was withdrawn"
    commands[2].kill()
    commands[2].wait()


def guard_of_this_process() -> int:
    """Return the process id of the guard that this process has started."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            parent = path.with_name("stat").read_text().rpartition(")")[2].split()[1]
            if int(parent) == os.getpid() and b"guard.py" in path.read_bytes():
                return int(path.parent.name)
    raise AssertionError("there is no guard")
