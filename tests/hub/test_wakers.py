"""Wakers with real processes and a real webhook: started, watched, ended by their group, taken over by the next hub."""

import asyncio
import json
import os
import signal
import sys
import textwrap
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cli.processes import RunningHub
from tests.envelopes import envelope
from tests.gateways.hubs import HubTeam, team_at
from tests.hub.outside import SECRET, Outside
from tests.patience import PATIENCE_S
from tocsin.core import events as ev
from tocsin.core.events import Event

POLICY = """
storage: {projection_interval_s: 0.02}
wake: {after_s: 0, grace_s: 50, run_s: 100, cooldown_s: 0, retries_max: 0, rest_s: 1000}
"""


class Happenings:
    """The durable events of a hub, to wait for."""

    def __init__(self, team: HubTeam) -> None:
        self.events: list[Event] = []
        self._more = asyncio.Event()
        team.hub.host.follow(self._follow)

    def _follow(self, first_seq: int, events: list[Event]) -> None:
        self.events += events
        self._more.set()

    async def first(self, kind: type[Event], count: int = 1) -> Any:
        """Wait until an event of a kind has happened so many times, and return the last of them."""
        async with asyncio.timeout(PATIENCE_S):
            while len(found := [event for event in self.events if type(event) is kind]) < count:
                self._more.clear()
                await self._more.wait()
        return found[count - 1]


@asynccontextmanager
async def sleeping_bob(
    tmp_path: Path, waker: dict[str, Any], policy: str = POLICY, check_s: float = 0.05
) -> AsyncIterator[tuple[HubTeam, Any]]:
    """Serve a team whose bob has a waker, a token and no session."""
    config = {"agents": {"bob": waker}, "check_s": check_s, "kill_after_s": 1, "log_bytes_max": 4096, "logs_max": 2}
    async with team_at(tmp_path, policy, wakers=config, port=7999) as team:
        for agent in ("ada", "bob"):
            await team.register(agent)
        tokens = tmp_path / "data" / "tokens"
        tokens.mkdir(exist_ok=True)
        (tokens / "bob.token").write_text(team.tokens["bob"])
        yield team, Happenings(team)


def script(tmp_path: Path, text: str) -> dict[str, Any]:
    """Return a waker that runs a Python program."""
    path = tmp_path / "program.py"
    path.write_text(textwrap.dedent(text))
    return {"command": [sys.executable, str(path), str(tmp_path)], "directory": str(tmp_path)}


async def send(team: HubTeam, number: int, priority: str = "Blocking") -> None:
    body = envelope(number, priority=priority, payload={"secret": "do not show this"})
    assert (await team.post("ada", "/v1/messages", body)).status_code == 200


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def written(path: Path) -> str:
    """Wait until a program has written a whole file."""
    async with asyncio.timeout(PATIENCE_S):
        while not path.exists():
            await asyncio.sleep(0.01)
    return path.read_text()


async def test_a_process_is_started_with_the_address_and_the_token_and_nothing_of_the_message(tmp_path: Path) -> None:
    waker = script(
        tmp_path,
        """
        import json, os, sys, pathlib
        told = {"env": dict(os.environ), "argv": sys.argv, "cwd": os.getcwd(), "leads": os.getpgrp() == os.getpid()}
        print("hello from the agent")
        folder = pathlib.Path(sys.argv[1])
        (folder / "told.new").write_text(json.dumps(told))
        (folder / "told.new").rename(folder / "told.json")
        """,
    )
    async with sleeping_bob(tmp_path, waker) as (team, happened):
        os.environ["TOCSIN_TOKEN"] = "the hub's own"  # noqa: S105
        try:
            await send(team, 1, "Info")
            await send(team, 2)
            request = await happened.first(ev.AgentWakeRequested)
        finally:
            del os.environ["TOCSIN_TOKEN"]
        told = json.loads(await written(tmp_path / "told.json"))
        ours = {name: value for name, value in told["env"].items() if name.startswith("TOCSIN_")}
        token = tmp_path / "data" / "tokens" / "bob.token"
        assert ours == {
            "TOCSIN_URL": "http://127.0.0.1:7999",
            "TOCSIN_TOKEN_FILE": str(token),
            "TOCSIN_WAKE": request.wake,
            "TOCSIN_AGENT": "bob",
        }
        assert told["cwd"] == str(tmp_path)
        assert told["leads"], "a process group of its own"
        assert "do not show this" not in json.dumps(told)
        assert "msg_2_x" not in json.dumps(told)
        exited = await happened.first(ev.WakerExited)
        assert (exited.outcome, exited.exit_code) == ("exited", 0)
        log = tmp_path / "data" / "wakes" / "bob" / f"{request.wake}.log"
        assert log.read_text() == "hello from the agent\n"
        assert log.stat().st_mode & 0o777 == 0o600


async def test_a_woken_agent_takes_the_message(tmp_path: Path) -> None:
    async with sleeping_bob(tmp_path, {"command": ["sleep", "1000"]}) as (team, happened):
        await send(team, 1)
        request = await happened.first(ev.AgentWakeRequested)
        fetched = await team.post("bob", "/v1/inbox/drain", {})
        assert len(fetched.json()["deliveries"]) == 1
        woken = await happened.first(ev.AgentWoken)
        assert woken.wake == request.wake
        pid = json.loads(await written(tmp_path / "data" / "wakes" / "bob" / f"{request.wake}.json"))["pid"]
        assert alive(pid), "it goes on working"
        os.killpg(pid, signal.SIGTERM)
        assert (await happened.first(ev.WakerExited)).outcome == "exited"
        assert not alive(pid)


async def test_a_program_that_does_not_exist_fails_the_wake_and_is_escalated(tmp_path: Path) -> None:
    async with sleeping_bob(tmp_path, {"command": ["/no/such/program"]}) as (team, happened):
        await team.register("boss", "director")
        await send(team, 1)
        failed = await happened.first(ev.AgentWakeFailed)
        assert (failed.reason, failed.final) == ("waker_failed", True)
        assert "/no/such/program cannot be started" in failed.detail
        assert (await happened.first(ev.EscalationOpened)).trigger == "wake_failed"


@pytest.mark.parametrize(
    ("says", "told"),
    [("tocsin wake: a draft is in the prompt", "exit code 6: a draft is in the prompt"), ("secret", "exit code 6")],
)
async def test_a_waker_of_ours_says_in_words_why_it_has_failed(tmp_path: Path, says: str, told: str) -> None:
    """Other output stays in the log: it may be anything."""
    program = script(tmp_path, f"import sys; print('first'); sys.exit(print({says!r}, file=sys.stderr) or 6)")
    async with sleeping_bob(tmp_path, program) as (team, happenings):
        await send(team, 1)
        failed = await happenings.first(ev.AgentWakeFailed)
        assert (failed.reason, failed.detail) == ("waker_failed", told)


async def test_an_agent_without_a_token_file_is_not_started(tmp_path: Path) -> None:
    waker = {"command": ["true"], "token_file": "tokens/nobody.token"}
    async with sleeping_bob(tmp_path, waker) as (team, happened):
        await send(team, 1)
        failed = await happened.first(ev.AgentWakeFailed)
        assert "nobody.token does not exist" in failed.detail


async def test_a_process_that_does_not_attach_in_time_is_ended_with_its_children(tmp_path: Path) -> None:
    waker = script(
        tmp_path,
        """
        import os, pathlib, signal, subprocess, sys, time
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        child = subprocess.Popen(["sleep", "1000"])
        folder = pathlib.Path(sys.argv[1])
        (folder / "pids.new").write_text(f"{os.getpid()} {child.pid}")
        (folder / "pids.new").rename(folder / "pids")
        time.sleep(1000)
        """,
    )
    policy = POLICY.replace("grace_s: 50", "grace_s: 3")
    async with sleeping_bob(tmp_path, waker, policy) as (team, happened):
        await send(team, 1)
        pids = [int(pid) for pid in (await written(tmp_path / "pids")).split()]
        assert all(map(alive, pids))
        assert (await happened.first(ev.AgentWakeFailed)).reason == "not_attached"
        exited = await happened.first(ev.WakerExited)
        assert exited.detail == "ended by SIGKILL"
        async with asyncio.timeout(PATIENCE_S):
            while any(map(alive, pids)):
                await asyncio.sleep(0.01)


async def test_a_log_keeps_the_newest_output_up_to_its_limit(tmp_path: Path) -> None:
    waker = script(tmp_path, 'for number in range(20000): print(f"line {number}")')
    async with sleeping_bob(tmp_path, waker) as (team, happened):
        await send(team, 1)
        request = await happened.first(ev.AgentWakeRequested)
        await happened.first(ev.WakerExited)
        text = (tmp_path / "data" / "wakes" / "bob" / f"{request.wake}.log").read_text()
        assert len(text) <= 4096
        assert text.endswith("line 19999\n")


async def test_a_log_is_bounded_at_any_time(tmp_path: Path) -> None:
    waker = script(
        tmp_path,
        """
        import pathlib, sys, time
        for _ in range(64):
            sys.stdout.write("x" * 999_999 + "\\n")
            sys.stdout.flush()
        (pathlib.Path(sys.argv[1]) / "written").touch()
        time.sleep(1000)
        """,
    )
    async with sleeping_bob(tmp_path, waker, check_s=1000) as (team, happened):
        await send(team, 1)
        request = await happened.first(ev.AgentWakeRequested)
        await written(tmp_path / "written")
        folder = tmp_path / "data" / "wakes" / "bob"
        assert (folder / f"{request.wake}.log").stat().st_size <= 4096, "64 MB were written since the last check"
        os.killpg(json.loads((folder / f"{request.wake}.json").read_text())["pid"], signal.SIGKILL)


#: Leaves a child in its group, which ignores SIGTERM, and ends with the code that is filled in.
LEAVES = """
    import os, pathlib, signal, subprocess, sys
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    child = subprocess.Popen(["sleep", "1000"])
    folder = pathlib.Path(sys.argv[1])
    (folder / "pid.new").write_text(str(child.pid))
    (folder / "pid.new").rename(folder / f"pid of {os.environ['TOCSIN_WAKE']}")
    sys.exit(%d)
"""


async def left_by(tmp_path: Path, wake: str) -> int:
    """Return the child that the process of a wake has left."""
    return int(await written(tmp_path / f"pid of {wake}"))


@pytest.mark.parametrize("code", [0, 3])
async def test_what_a_process_leaves_in_its_group_ends_before_the_wake_is_over(tmp_path: Path, code: int) -> None:
    async with sleeping_bob(tmp_path, script(tmp_path, LEAVES % code)) as (team, happened):
        await send(team, 1)
        exited = await happened.first(ev.WakerExited)
        assert (exited.outcome, exited.exit_code) == ("exited", code)
        assert not alive(await left_by(tmp_path, exited.wake))


async def test_no_attempt_runs_beside_the_remains_of_another(tmp_path: Path) -> None:
    policy = POLICY.replace("retries_max: 0", "retries_max: 1, backoff_s: [0]")
    async with sleeping_bob(tmp_path, script(tmp_path, LEAVES % 3), policy) as (team, happened):
        await send(team, 1)
        for attempt in (1, 2):
            exited = await happened.first(ev.WakerExited, attempt)
            assert not alive(await left_by(tmp_path, exited.wake))


async def test_a_waker_that_says_so_leaves_a_program_behind_once_the_agent_has_come(tmp_path: Path) -> None:
    waker = script(tmp_path, LEAVES % 0) | {"leaves_programs": True}
    async with sleeping_bob(tmp_path, waker) as (team, happened):
        await send(team, 1)
        exited = await happened.first(ev.WakerExited)
        child = await left_by(tmp_path, exited.wake)
        assert alive(child)
        await team.post("bob", "/v1/inbox/drain", {})
        await happened.first(ev.AgentWoken)
        assert alive(child)
    os.kill(child, signal.SIGKILL)


async def test_a_wake_that_fails_leaves_no_program_behind(tmp_path: Path) -> None:
    waker = script(tmp_path, LEAVES % 0) | {"leaves_programs": True}
    async with sleeping_bob(tmp_path, waker, POLICY.replace("grace_s: 50", "grace_s: 1")) as (team, happened):
        await send(team, 1)
        assert (await happened.first(ev.AgentWakeFailed)).reason == "not_attached"
        child = await left_by(tmp_path, (await happened.first(ev.WakerExited)).wake)
        async with asyncio.timeout(PATIENCE_S):
            while alive(child):
                await asyncio.sleep(0.01)


async def test_only_the_newest_logs_are_kept(tmp_path: Path) -> None:
    policy = POLICY.replace("retries_max: 0", "retries_max: 3, backoff_s: [0]")
    async with sleeping_bob(tmp_path, {"command": ["false"]}, policy) as (team, happened):
        await send(team, 1)
        await happened.first(ev.WakerExited, 4)
        assert len(list((tmp_path / "data" / "wakes" / "bob").glob("*.log"))) == 2


async def test_the_next_hub_takes_over_a_process_that_still_runs(tmp_path: Path) -> None:
    waker = {"command": ["sleep", "1000"]}
    async with sleeping_bob(tmp_path, waker) as (team, happened):
        await send(team, 1)
        request = await happened.first(ev.AgentWakeRequested)
        note = json.loads(await written(tmp_path / "data" / "wakes" / "bob" / f"{request.wake}.json"))
    assert alive(note["pid"]), "it outlives the hub"
    async with sleeping_bob(tmp_path, waker) as (team, happened):
        assert team.hub.host.exchange.state.wakes["bob"].wake == request.wake
        assert not [event for event in happened.events if type(event) is ev.AgentWakeRequested]
        os.killpg(note["pid"], signal.SIGTERM)
        exited = await happened.first(ev.WakerExited)
        assert (exited.wake, exited.outcome) == (request.wake, "lost")
        assert not alive(note["pid"])


async def test_the_next_hub_reports_a_process_that_has_ended_meanwhile(tmp_path: Path) -> None:
    waker = {"command": ["sleep", "1000"]}
    async with sleeping_bob(tmp_path, waker) as (team, happened):
        await send(team, 1)
        request = await happened.first(ev.AgentWakeRequested)
        note = tmp_path / "data" / "wakes" / "bob" / f"{request.wake}.json"
        pid = json.loads(await written(note))["pid"]
        text = note.read_text()
    os.killpg(pid, 9)
    async with asyncio.timeout(PATIENCE_S):
        while alive(pid) or note.exists():
            await asyncio.sleep(0.01)
    note.write_text(text)  # a hub that crashed has left its note behind
    async with team_at(tmp_path, POLICY, wakers={"agents": {"bob": waker}}) as team:
        async with asyncio.timeout(PATIENCE_S):
            while (record := team.hub.host.exchange.state.wakes["bob"]).wake == request.wake:
                await asyncio.sleep(0.01)
        assert (record.wake, record.outcome) == ("", "waker_failed")


def test_a_process_outlives_a_killed_hub_with_its_log_and_the_next_hub_ends_what_it_has_left(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    waker = script(
        tmp_path,
        """
        import pathlib, subprocess, sys, time
        folder = pathlib.Path(sys.argv[1])
        child = subprocess.Popen(["sleep", "1000"])
        (folder / "new").write_text(str(child.pid))
        (folder / "new").rename(folder / "child")
        while not (folder / "go on").exists():
            time.sleep(0.01)
        print("the hub is gone", "x" * 100_000, "the end", flush=True)
        """,
    )
    (data / "server.yaml").write_text(json.dumps({"wakers": {"agents": {"bob": waker}, "check_s": 0.05}}))
    (data / "tocsin.yaml").write_text(POLICY)
    with RunningHub(data) as hub:
        for agent in ("ada", "bob"):
            hub.ask("agents", "add", agent, "--save")
        hub.ask("send", "bob", "--type", "StatusUpdate", "--priority", "Blocking", "--payload", "{}", agent="ada")
        child = int(until(lambda: (tmp_path / "child").exists() and (tmp_path / "child").read_text()))
        hub.process.kill()
        hub.process.wait()
    (note,) = (data / "wakes" / "bob").glob("*.json")
    (tmp_path / "go on").touch()
    until(lambda: not alive(json.loads(note.read_text())["pid"]))
    until(lambda: note.with_suffix(".log").read_text().endswith("the end\n"))
    assert alive(child)
    with RunningHub(data):
        until(lambda: not alive(child))
        until(lambda: not note.exists())


def until(happened: Callable[[], Any]) -> Any:
    """Wait until something is so, and return it."""
    end = time.monotonic() + PATIENCE_S
    while not (found := happened()):
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.01)
    return found


@pytest.fixture
def outside() -> Iterator[Outside]:
    somebody = Outside()
    yield somebody
    somebody.close()


def webhook(tmp_path: Path, outside: Outside) -> dict[str, Any]:
    (tmp_path / "data").mkdir(exist_ok=True)
    (tmp_path / "data" / "waker.secret").write_bytes(SECRET)
    return {"webhook": outside.url, "secret_file": "waker.secret"}


async def test_a_webhook_is_posted_signed_and_without_the_message(tmp_path: Path, outside: Outside) -> None:
    async with sleeping_bob(tmp_path, webhook(tmp_path, outside)) as (team, happened):
        await send(team, 1)
        request = await happened.first(ev.AgentWakeRequested)
        headers, body = await asyncio.to_thread(outside.take)
        assert headers["Tocsin-Delivery"] == request.wake
        assert body == {
            "project": "team",
            "event": "AgentWakeRequested",
            "agent": "bob",
            "wake": request.wake,
            "url": "http://127.0.0.1:7999",
        }
        assert (await happened.first(ev.WakerExited)).exit_code == 200
        assert not [event for event in happened.events if type(event) is ev.AgentWakeFailed]


async def test_a_webhook_that_refuses_fails_the_wake(tmp_path: Path, outside: Outside) -> None:
    outside.statuses.append(500)
    async with sleeping_bob(tmp_path, webhook(tmp_path, outside)) as (team, happened):
        await send(team, 1)
        failed = await happened.first(ev.AgentWakeFailed)
        assert (failed.reason, failed.detail) == ("waker_failed", "HTTP 500")


@pytest.mark.parametrize(
    ("waker", "wrong"),
    [
        ({}, "either a command or a webhook"),
        ({"command": ["true"], "webhook": "http://x"}, "either a command or a webhook"),
        ({"webhook": "http://x"}, "secret_file"),
        ({"webhook": "http://x", "secret_file": "waker.secret", "leaves_programs": True}, "leaves_programs is for a"),
        ({"command": ["true"], "colour": "red"}, "colour"),
    ],
)
async def test_a_waker_that_cannot_work_is_refused_at_the_start(
    tmp_path: Path, waker: dict[str, Any], wrong: str
) -> None:
    with pytest.raises(Exception, match=wrong):
        await sleeping_bob(tmp_path, waker).__aenter__()
