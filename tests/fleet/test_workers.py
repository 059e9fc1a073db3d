"""Several processes behind one port: each project in one of them, and a process that dies takes only its own along."""

import asyncio
import os
import re
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest

from tests.fleet.hubs import eventually
from tests.forks import Forked
from tests.loopback import async_client
from tocsin.fleet.acceptor import read_head
from tocsin.fleet.worker import Share

WORKERS = 2


class Served:
    """A hub with two workers, and a project in each beside the home project."""

    def __init__(self, process: Forked, url: str, data: Path) -> None:
        self.process = process
        self.url = url
        self.data = data
        self.admin = (data / "admin.token").read_text().strip()
        #: A project of each worker.
        self.projects = {Share(0, WORKERS, "default").worker_of(name): name for name in ("a", "b", "c", "d", "e", "f")}
        self.tokens: dict[str, str] = {}

    async def call(self, method: str, path: str, token: str, body: object = None) -> httpx2.Response:
        """Send one request, on a connection of its own."""
        async with async_client(base_url=self.url, timeout=60) as client:
            return await client.request(method, path, json=body, headers={"authorization": f"Bearer {token}"})

    async def add_projects(self) -> None:
        """Add a project for each worker."""
        for name in self.projects.values():
            answer = await self.call("POST", "/v1/projects", self.admin, {"project": name})
            assert answer.status_code == 200, answer.text
            self.tokens[name] = answer.json()["token"]

    def workers(self) -> list[int]:
        """Return the processes of the workers."""
        pid = self.process.pid
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]

    async def answers(self, name: str) -> bool:
        """Tell whether a project answers."""
        try:
            answer = await self.call("GET", "/v1/status", self.tokens[name])
        except httpx2.TransportError:
            return False
        return answer.status_code == 200 and answer.json()["project"] == name

    async def worker_of(self, name: str) -> int:
        """Return the process that has a project open."""
        journal = str(self.data / "projects" / name / "journal.db")
        found = [pid for pid in self.workers() if journal in _open_files(pid)]
        assert len(found) == 1, f"{name} is open in {len(found)} workers"
        return found[0]


def _open_files(pid: int) -> set[str]:
    found = set()
    for link in Path(f"/proc/{pid}/fd").iterdir():
        try:
            found.add(str(link.readlink()))
        except FileNotFoundError:
            continue
    return found


@asynccontextmanager
async def served(data: Path) -> AsyncIterator[Served]:
    """Run a hub with workers as a user would."""
    words = ["tocsin", "serve", "--data", str(data), "--port", "0", "--workers", str(WORKERS)]
    process = await asyncio.to_thread(Forked, words)
    assert process.stdout is not None
    try:
        async with asyncio.timeout(120):
            while (
                found := re.search(r"serving at (http://\S+)", line := await asyncio.to_thread(process.stdout.readline))
            ) is None:
                assert line, "the hub did not start"
        yield Served(process, found[1].rstrip("/."), data)
    finally:
        children = Served(process, "", data).workers() if process.poll() is None else []
        process.terminate()
        await asyncio.to_thread(process.communicate)
        for child in children:
            assert not Path(f"/proc/{child}").exists(), "a worker outlived its supervisor"


async def test_each_project_is_in_one_worker_and_one_that_dies_takes_only_its_own_along(tmp_path: Path) -> None:
    async with served(tmp_path) as hub:
        await hub.add_projects()
        assert len(hub.tokens) == WORKERS
        names = list(hub.tokens)
        assert [await hub.answers(name) for name in names] == [True, True]
        first, second = [await hub.worker_of(name) for name in names]
        assert first != second

        os.kill(first, signal.SIGKILL)
        assert await hub.answers(names[1]), "the other worker serves on"
        assert await hub.worker_of(names[1]) == second
        await eventually(lambda: hub.answers(names[0]))
        assert await hub.worker_of(names[0]) not in (first, second)


async def test_a_connection_may_carry_requests_of_projects_of_several_workers(tmp_path: Path) -> None:
    async with served(tmp_path) as hub:
        await hub.add_projects()
        async with async_client(base_url=hub.url, timeout=60) as client:
            for name, token in [*hub.tokens.items()] * 2:
                headers = {"authorization": f"Bearer {token}"}
                agent = {"agent": "bob", "role": "primary"}
                made = await client.post("/v1/admin/tokens", json=agent, headers=headers)
                assert made.status_code == 200, made.text
                status = await client.get("/v1/status", headers=headers)
                assert (status.status_code, status.json()["project"]) == (200, name)
            relayed = await client.get("/v1/status", headers=headers | {"tocsin-relayed": "1"})
            other = next(token for token in hub.tokens.values() if token not in headers["authorization"])
            refused = await client.get(
                "/v1/status", headers={"authorization": f"Bearer {other}", "tocsin-relayed": "1"}
            )
            assert {relayed.status_code, refused.status_code} == {200, 421}, "a request is passed on once"


async def test_a_body_that_is_passed_on_is_limited_like_any_other(tmp_path: Path) -> None:
    async with served(tmp_path) as hub:
        await hub.add_projects()
        async with async_client(base_url=hub.url, timeout=60) as client:
            for token in hub.tokens.values():
                headers = {"authorization": f"Bearer {token}"}
                large = await client.post("/v1/messages", content=b"x" * 3_000_000, headers=headers)
                assert large.status_code == 413
                assert (await client.get("/v1/status", headers=headers)).status_code == 200


async def test_one_scrape_one_list_and_one_check_cover_all_workers(tmp_path: Path) -> None:
    async with served(tmp_path) as hub:
        await hub.add_projects()
        assert [await hub.answers(name) for name in hub.tokens] == [True, True]
        exposed = (await hub.call("GET", "/metrics", hub.admin)).text
        for name in ("default", *hub.tokens):
            assert f'queue_depth{{priority="Info",project="{name}"}} 0.0' in exposed
        assert exposed.count("# TYPE queue_depth gauge") == 1
        assert "workers_silent 0.0" in exposed
        opened = (await hub.call("GET", "/v1/projects/open", hub.admin)).json()
        workers = {one["project"]: one["worker"] for one in opened["items"]}
        assert {workers[name] for name in hub.tokens} == {0, 1}
        assert opened["workers_silent"] == 0
        for token in hub.tokens.values():
            assert (await hub.call("GET", "/v1/projects/open", token)).status_code == 404
        ready = await hub.call("GET", "/ready?projects=all", hub.admin)
        assert (ready.status_code, ready.json()["projects"]) == (200, {"open": 3, "not_ready": 0, "workers_silent": 0})


async def test_a_worker_that_hangs_is_told_and_does_not_hold_up_the_others(tmp_path: Path) -> None:
    (tmp_path / "server.yaml").write_text("projects: {worker_timeout_s: 0.2}\nreadiness: {fresh_s: 0.1}\n")
    async with served(tmp_path) as hub:
        await hub.add_projects()
        names = list(hub.tokens)
        assert [await hub.answers(name) for name in names] == [True, True]
        home = Share(0, WORKERS, "default").worker_of("default")
        (other,) = [name for number, name in hub.projects.items() if number != home]
        stopped = await hub.worker_of(other)
        os.kill(stopped, signal.SIGSTOP)
        try:
            ready = await hub.call("GET", "/ready?projects=all", hub.admin)
            assert (ready.status_code, ready.json()["projects"]["workers_silent"]) == (503, 1)
            assert (await hub.call("GET", "/ready", hub.admin)).status_code == 200
            exposed = (await hub.call("GET", "/metrics", hub.admin)).text
            assert "workers_silent 1.0" in exposed
            assert 'project="default"' in exposed
        finally:
            os.kill(stopped, signal.SIGCONT)


async def test_workers_end_with_their_supervisor(tmp_path: Path) -> None:
    async with served(tmp_path) as hub:
        workers = hub.workers()
        hub.process.kill()
        await asyncio.to_thread(hub.process.wait)
        await eventually(lambda: not any(_runs(pid) for pid in workers))


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def test_a_port_that_is_taken_is_told_by_the_supervisor(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        command = ["serve", "--data", str(tmp_path), "--port", str(taken.getsockname()[1]), "--workers", "2"]
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tocsin", *command, stderr=asyncio.subprocess.PIPE
        )
        _, told = await process.communicate()
        assert process.returncode == 8
        assert b"cannot listen" in told


def test_workers_agree_on_the_worker_of_a_project() -> None:
    names = [f"project-{number}" for number in range(300)]
    shares = [Share(number, 3, "home") for number in range(3)]
    for name in names:
        assert len({share.worker_of(name) for share in shares}) == 1
        assert sum(share.is_own(name) for share in shares) == 1
    assert sum(share.has_home for share in shares) == 1


@pytest.mark.parametrize(
    ("head", "token_id", "named"),
    [
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", None, None),
        (b"GET / HTTP/1.1\r\nAuthorization: Bearer tcs_0123456789abcdef_secret\r\n\r\n", "0123456789abcdef", None),
        (b"GET / HTTP/1.1\r\nauthorization:bearer tcs_0123456789abcdef_s\r\n\r\nbody", "0123456789abcdef", None),
        (b"GET / HTTP/1.1\r\nCookie: a=b; tocsin_7077=v1.0123456789abcdef.9.x\r\n\r\n", "0123456789abcdef", None),
        (b"GET / HTTP/1.1\r\nTocsin-Project: acme\r\nHost: x\r\n\r\n", None, "acme"),
        (b"GET / HTTP/1.1\r\nAuthorization: Basic x\r\n\r\n", None, None),
        (b"GET /v1/live?project=acme HTTP/1.1\r\nHost: x\r\n\r\n", None, "acme"),
        (b"project=\r\nHost: x\r\n\r\n", None, None),
    ],
)
def test_a_head_says_whose_request_it_is(head: bytes, token_id: str | None, named: str | None) -> None:
    found = read_head(head)
    assert found is not None
    assert (found.token_id, found.named) == (token_id, named)
    assert read_head(head[: head.index(b"\r\n\r\n") + 3]) is None
