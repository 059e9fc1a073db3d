"""`tocsin work` as a process against a real hub: exit codes, payloads, timeouts, answers, concurrency, pause points."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.cli.processes import COMMAND, RunningHub, run
from tests.patience import PATIENCE_S

AGENTS = ("ada", "bob", "cleo", "dora", "emil", "fred", "gus", "ida")


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningHub]:
    data = tmp_path_factory.mktemp("work") / "data"
    data.mkdir(mode=0o700)
    # A type whose rejections are retried at once.
    (data / "tocsin.yaml").write_text("contracts: {CUSTOM_JOB: {retries_max: 2, backoff_s: [0.01]}}")
    with RunningHub(data) as hub:
        for agent in AGENTS:
            hub.json("agents", "add", agent, "--save")
        yield hub


def send(hub: RunningHub, agent: str, number: int, *options: str) -> str:
    payload = json.dumps({"number": number})
    sent = hub.ask("send", agent, "--type", "CUSTOM_JOB", "--payload", payload, *options, agent="ada")
    found: str = sent["receipt"]["signal_id"]
    return found


def work(hub: RunningHub, agent: str, program: str, tmp_path: Path, sent: Sequence[str], *options: str) -> None:
    """Let a worker run a Python program for the messages that were sent, until each of them has ended."""
    path = tmp_path / "program.py"
    path.write_text(textwrap.dedent(program))
    work_until_ended(hub, agent, [sys.executable, str(path), str(tmp_path)], tmp_path, sent, *options)


def work_until_ended(
    hub: RunningHub, agent: str, command: Sequence[str], tmp_path: Path, sent: Sequence[str], *options: str
) -> None:
    words = ["--url", hub.url, "--data", str(hub.data), "work", "--as", agent, *options, "--", *command]
    with subprocess.Popen([*COMMAND, *words], stderr=subprocess.PIPE, text=True, cwd=tmp_path) as worker:  # noqa: S603
        while not all(state(hub, message)["state"] in ("processed", "dead") for message in sent):
            assert worker.poll() is None, worker.communicate()[1]
            time.sleep(0.05)
        worker.send_signal(signal.SIGINT)
        _, told = worker.communicate(timeout=PATIENCE_S)
    assert worker.returncode == 0, told


def state(hub: RunningHub, message: str) -> dict[str, Any]:
    found: dict[str, Any] = hub.ask("messages", "show", message)[0]
    return found


def test_the_exit_code_settles_the_message(hub: RunningHub, tmp_path: Path) -> None:
    done, never, later = (send(hub, "bob", number) for number in (0, 100, 7))
    work(
        hub,
        "bob",
        """
        import json, os, pathlib, sys
        payload = json.load(sys.stdin)
        seen = {name: os.environ[name] for name in os.environ if name.startswith("TOCSIN_")} | payload
        with (pathlib.Path(sys.argv[1]) / "seen").open("a") as file:
            file.write(json.dumps(seen) + "\\n")
        sys.exit(payload["number"])
        """,
        tmp_path,
        (done, never, later),
    )
    seen = [json.loads(line) for line in (tmp_path / "seen").read_text().splitlines()]
    assert sorted(entry["number"] for entry in seen) == [0, 7, 7, 7, 100], "two retries, as the type allows"
    first = next(entry for entry in seen if entry["number"] == 0)
    assert (first["TOCSIN_MESSAGE_ID"], first["TOCSIN_SENDER"], first["TOCSIN_TYPE"]) == (done, "ada", "CUSTOM_JOB")
    assert (first["TOCSIN_URL"], first["TOCSIN_AGENT"]) == (hub.url, "bob")
    assert state(hub, done)["state"] == "processed"
    for message, code in ((never, 100), (later, 7)):
        assert state(hub, message)["state"] == "dead"
        assert f"the command ended with exit code {code}" in hub.run("trace", message).stdout


def test_a_command_that_runs_too_long_is_ended_with_its_children(hub: RunningHub, tmp_path: Path) -> None:
    sent = send(hub, "cleo", 1)
    program = """
        import pathlib, subprocess, sys, time
        child = subprocess.Popen(["sleep", "1000"])
        with (pathlib.Path(sys.argv[1]) / "children").open("a") as file:
            file.write(f"{child.pid}\\n")
        time.sleep(1000)
    """
    work(hub, "cleo", program, tmp_path, [sent], "--timeout-s", "1")
    assert state(hub, sent)["state"] == "dead"
    assert "the command ran longer than 1 s" in hub.run("trace", sent).stdout
    for pid in (tmp_path / "children").read_text().split():
        status = Path(f"/proc/{pid}/stat")
        assert not status.exists() or status.read_text().rpartition(")")[2].split()[0] == "Z"


def test_the_output_is_the_answer(hub: RunningHub, tmp_path: Path) -> None:
    sent = send(hub, "dora", 20)
    program = "import json, sys; print(json.dumps({'double': 2 * json.load(sys.stdin)['number']}))"
    work(hub, "dora", program, tmp_path, [sent], "--reply", "CUSTOM_RESULT")
    (answer,) = [m for m in hub.ask("inbox", agent="ada")["items"] if m["sender"] == "dora"]
    assert (answer["type"], answer["payload"]) == ("CUSTOM_RESULT", {"double": 40})


def test_several_commands_run_at_the_same_time(hub: RunningHub, tmp_path: Path) -> None:
    sent = [send(hub, "emil", number) for number in (1, 2)]
    # Each waits for the other: one at a time they would never end.
    program = """
        import json, pathlib, sys, time
        number, folder = json.load(sys.stdin)["number"], pathlib.Path(sys.argv[1])
        (folder / f"here {number}").touch()
        while not (folder / f"here {3 - number}").exists():
            time.sleep(0.01)
    """
    work(hub, "emil", program, tmp_path, sent, "--concurrency", "2", "--timeout-s", "30")
    assert [state(hub, message)["state"] for message in sent] == ["processed"] * 2


def test_an_urgent_message_is_handled_while_the_command_is_stopped(hub: RunningHub, tmp_path: Path) -> None:
    slow = send(hub, "fred", 1, "--priority", "Info")
    program = """
        import json, pathlib, subprocess, sys, time
        number, folder = json.load(sys.stdin)["number"], pathlib.Path(sys.argv[1])
        with (folder / "order").open("a") as file:
            file.write(f"begin {number}\\n")
        if number == 1:
            url, data = json.loads((folder / "hub.json").read_text())
            payload = ["--type", "CUSTOM_JOB", "--payload", json.dumps({"number": 2}), "--priority", "Critical"]
            words = ["-m", "tocsin", "--url", url, "--data", data, "--as", "ada", "send", "fred", *payload]
            subprocess.run([sys.executable, *words], check=True, stdout=subprocess.DEVNULL)
            while not (folder / "urgent").exists():
                time.sleep(0.01)
        else:
            (folder / "urgent").touch()
        with (folder / "order").open("a") as file:
            file.write(f"end {number}\\n")
    """
    (tmp_path / "hub.json").write_text(json.dumps([hub.url, str(hub.data)]))
    work(hub, "fred", program, tmp_path, [slow], "--pause-every-s", "0.1", "--timeout-s", "60")
    order = (tmp_path / "order").read_text().splitlines()
    assert order == ["begin 1", "begin 2", "end 2", "end 1"]
    assert state(hub, slow)["state"] == "processed"


def test_a_program_that_does_not_exist_rejects_the_message(hub: RunningHub, tmp_path: Path) -> None:
    sent = send(hub, "gus", 1)
    work_until_ended(hub, "gus", ["/no/such/program"], tmp_path, [sent])
    assert state(hub, sent)["state"] == "dead"


def test_a_worker_without_messages_ends_after_its_idle_time(hub: RunningHub, tmp_path: Path) -> None:
    words = ["work", "--as", "ida", "--idle-s", "0.1", "--", "/no/such/program"]
    assert run("--url", hub.url, "--data", str(hub.data), *words, cwd=tmp_path).returncode == 0


def test_a_worker_needs_a_token_a_command_and_options_that_fit(hub: RunningHub, tmp_path: Path) -> None:
    before = ("--url", hub.url, "--data", str(tmp_path / "nowhere"))
    assert "needs TOCSIN_TOKEN" in run(*before, "work", "--", "true", cwd=tmp_path).stderr
    assert run(*before, "work", cwd=tmp_path).returncode == 2
    wrong = run(*before, "work", "--concurrency", "2", "--pause-every-s", "1", "--", "true", cwd=tmp_path)
    assert (wrong.returncode, "one message at a time" in wrong.stderr) == (2, True)


@pytest.mark.parametrize("client", ["claude", "codex", "tmux", "systemd"])
def test_a_template_is_a_waker_that_the_hub_accepts(client: str, tmp_path: Path) -> None:
    from tocsin.hub.config import load_config

    (tmp_path / "server.yaml").write_text(run("wake", "template", client, "--agent", "cleo", cwd=tmp_path).stdout)
    waker = load_config(tmp_path / "server.yaml").wakers.agents["cleo"]
    assert waker.command


def test_the_log_of_the_latest_wake_is_shown(tmp_path: Path) -> None:
    folder = tmp_path / "data" / "wakes" / "bob"
    folder.mkdir(parents=True)
    for name in ("wak_1_a", "wak_2_b"):
        (folder / f"{name}.log").write_text(f"output of {name}\n")
    assert run("--data", str(tmp_path / "data"), "wake", "log", "bob", cwd=tmp_path).stdout == "output of wak_2_b\n"
    told = run("--data", str(tmp_path / "data"), "wake", "log", "bob", "--json", cwd=tmp_path).stdout
    assert json.loads(told)["output"] == "output of wak_2_b\n"
    assert run("--data", str(tmp_path / "data"), "wake", "log", "../x", cwd=tmp_path).returncode == 4


def test_a_worker_whose_token_is_another_agents_is_refused_with_both_names(hub: RunningHub, tmp_path: Path) -> None:
    environment = os.environ | {"TOCSIN_TOKEN_FILE": str(hub.data / "tokens" / "ida.token")}
    words = [*COMMAND, "--url", hub.url, "--data", str(hub.data), "work", "--as", "wes"]
    words += ["--idle-s", "0.1", "--", "true"]
    done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)  # noqa: S603
    assert done.returncode == 2
    assert "TOCSIN_TOKEN_FILE is a token of ida, and --as names wes" in done.stderr
