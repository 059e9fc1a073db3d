"""Hubs that share one PostgreSQL database, as real processes, and a load that must lose nothing."""

import asyncio
import re
import signal
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psycopg

from tests.fleet.hubs import eventually
from tests.forks import Forked
from tests.postgres import Server
from tests.soak import tally
from tocsin.cli.remote import NotConnected, Refused, Remote
from tocsin.client import Agent
from tocsin.client.config import client_config
from tocsin.fleet.placement import place

__all__ = ["SOON", "Fleet", "Sender", "fleet_of"]

#: Settings of hubs of which one hangs: it is noticed soon.
SOON = "hubs: {beat_s: 1, lease_s: 5}\nownership: {lease_s: 5, renew_s: 1, look_s: 0.2}\n"
#: Policy of the projects: the load is not rationed.
POLICY = {"limits": {"mailbox_depth_max": 10**7}, "bucket": {"capacity": 10**12, "refill_per_s": 10**9}}
#: What a hub tells once it serves.
_ADDRESS = re.compile(r" at http://127\.0\.0\.1:(\d+)")


class Fleet:
    """Several hub processes on one database."""

    def __init__(self, root: Path, store: str, hubs: int, arguments: Sequence[str] = (), settings: str = "") -> None:
        self._settings = settings
        self.root = root
        self.store = store
        #: The port of each hub: 0 until it has started once and has told which one it got.
        self._ports = [0] * hubs
        self._arguments = list(arguments)
        self._processes: dict[int, Forked] = {}

    @property
    def urls(self) -> list[str]:
        """Return the addresses of all hubs, once they have been started."""
        return [f"http://127.0.0.1:{port}" for port in self._ports]

    async def start(self, *numbers: int) -> None:
        """Start hubs at the same time, and return once all of them serve and one has the home project.

        While several hubs join, the home project may move, and its first owner makes the admin token.
        """
        await asyncio.gather(*(self._start(number) for number in numbers))
        await eventually(self._token_files)

    async def _start(self, number: int) -> None:
        data = self.root / f"hub-{number}"
        data.mkdir(exist_ok=True)
        (data / "server.yaml").write_text(self._settings, encoding="utf-8")
        command = [
            *("tocsin", "serve", "--data", str(data), "--store", self.store),
            *("--port", str(self._ports[number]), "--log-level", "warning", *(self._arguments or ("--workers", "1"))),
        ]
        process = self._processes[number] = await asyncio.to_thread(Forked, command)
        if process.stdout is None:
            raise RuntimeError("a hub has no output")
        async with asyncio.timeout(180):
            while not (told := _ADDRESS.search(line := await asyncio.to_thread(process.stdout.readline))):
                if not line:
                    raise RuntimeError(f"hub {number} did not start")
        self._ports[number] = int(told[1])

    async def stop(self, number: int) -> None:
        """Stop a hub in order."""
        process = self._processes.pop(number)
        process.terminate()
        await asyncio.to_thread(process.communicate)
        if code := process.returncode:
            raise RuntimeError(f"hub {number} ended with {code}")

    async def restart(self, number: int) -> None:
        """Stop a hub in order and start it again."""
        await self.stop(number)
        await self.start(number)

    def signal(self, number: int, what: signal.Signals) -> None:
        """Send a signal to a hub."""
        self._processes[number].send_signal(what)

    async def kill(self, number: int) -> None:
        """End a hub without warning."""
        process = self._processes.pop(number)
        process.kill()
        tally("kills")
        await asyncio.to_thread(process.communicate)

    async def close(self) -> None:
        """Stop all hubs."""
        for number, process in list(self._processes.items()):
            if process.poll() is None:
                self.signal(number, signal.SIGCONT)
                await self.stop(number)

    def admin(self) -> Remote:
        """Return the administrator of the home project."""
        return Remote(",".join(self.urls), self._token_files()[0].read_text().strip())

    def _token_files(self) -> list[Path]:
        return [file for file in self.root.glob("hub-*/admin.token") if file.stat().st_size]

    async def add(self, name: str) -> str:
        """Add a project with an agent, and return the agent's token."""

        def add() -> str:
            token = self.admin().ask("add_project", {"project": name}).token
            remote = Remote(",".join(self.urls), token)
            remote.ask("adopt_policy", {"policy": POLICY, "reason": "load"})
            return str(remote.ask("issue_token", {"agent": "ada", "role": "primary"}).token)

        return await asyncio.to_thread(add)

    def place(self, project: str) -> str:
        """Return the hub that should serve a project: one of those that run."""
        return place(project, [self.urls[number] for number in self._processes])

    def names(self, each: int) -> list[str]:
        """Return names of projects of which each hub serves the same number."""
        names: dict[str, list[str]] = {url: [] for url in self.urls}
        for number in range(1000):
            found = names[place(f"p{number}", self.urls)]
            if len(found) < each:
                found.append(f"p{number}")
        return sorted(name for found in names.values() for name in found)

    def owner(self, token: str) -> str | None:
        """Return the address of the hub that serves the project of a token; null while none does."""
        remote = Remote(",".join(self.urls), token)
        try:
            remote.ask("get_status")
        except (NotConnected, Refused):
            return None
        return remote.url

    def addresses(self) -> dict[str, str]:
        """Return the owners of all projects, as the database has them."""
        with psycopg.connect(self.store) as connection:
            return dict(connection.execute("SELECT project, address FROM tocsin.projects").fetchall())


@asynccontextmanager
async def fleet_of(
    root: Path, server: Server, database: str, hubs: int, arguments: Sequence[str] = (), settings: str = ""
) -> AsyncIterator[Fleet]:
    """Run hubs on a new database of a server."""
    server.database(database)
    fleet = Fleet(root, f"postgresql://tocsin@/{database}?host={server.folder}", hubs, arguments, settings)
    try:
        await fleet.start(*range(hubs))
        yield fleet
    finally:
        await fleet.close()


class Sender:
    """An agent that sends numbered messages to itself until it is told to stop, and notes what happens to them."""

    def __init__(
        self, urls: Sequence[str], token: str, senders: int = 2, pause_s: float = 0, silence_max_s: float = 15
    ) -> None:
        self._silence_max_s = silence_max_s
        self._url = ",".join(urls)
        self._token = token
        self._senders = senders
        self._pause_s = pause_s
        self._numbers = iter(range(10**9))
        self._stopping = False
        self.confirmed: set[int] = set()
        self.received: set[int] = set()
        #: Errors of sends, after the retries of the SDK.
        self.errors: list[BaseException] = []
        #: When each message was confirmed, by `time.perf_counter`.
        self.confirmed_at: list[float] = []
        #: The session at the beginning, and at the last message.
        self.first_session = self.session = ""
        self._arrived = asyncio.Event()

    @property
    def lost(self) -> set[int]:
        """Return the messages that were confirmed and never arrived."""
        return self.confirmed - self.received

    def stop(self) -> None:
        """Send no more; `run` returns once everything has arrived."""
        self._stopping = True

    async def until_confirmed(self, more: int) -> None:
        """Wait until some more messages are confirmed."""
        wanted = len(self.confirmed) + more
        while len(self.confirmed) < wanted and not self.errors:
            self._arrived.clear()
            await self._arrived.wait()

    async def run(self) -> None:
        """Send until `stop`, then wait until everything that was confirmed has arrived."""
        config = client_config(
            connect_timeout_s=120, call_timeout_s=120, backoff_max_s=1, silence_max_s=self._silence_max_s
        )
        async with Agent.connect(self._url, token=self._token, config=config) as agent:
            self.first_session = self.session = agent.session
            consuming = asyncio.create_task(self._consume(agent))
            try:
                await asyncio.gather(*(self._send(agent) for _ in range(self._senders)))
                async with asyncio.timeout(120):
                    while self.lost:
                        self._arrived.clear()
                        await self._arrived.wait()
            except TimeoutError:
                return  # `lost` has what is missing
            finally:
                consuming.cancel()
                await asyncio.gather(consuming, return_exceptions=True)

    async def _send(self, agent: Any) -> None:
        while not self._stopping:
            number = next(self._numbers)
            try:
                await agent.send(to="ada", type="StatusUpdate", payload={"number": number})
            except Exception as error:
                self.errors.append(error)
                self._arrived.set()
                return
            self.confirmed_at.append(time.perf_counter())
            self.session = agent.session
            self.confirmed.add(number)
            self._arrived.set()
            if self._pause_s:
                await asyncio.sleep(self._pause_s)

    async def _consume(self, agent: Any) -> None:
        async for message in agent.inbox():
            self.received.add(message.payload["number"])
            self._arrived.set()
