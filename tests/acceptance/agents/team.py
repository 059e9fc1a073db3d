"""One hub in a process of its own, and the ways of agents into it."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2

from tests.acceptance.agents.base import PATIENCE_S, Driver
from tests.acceptance.agents.files import over_files
from tests.acceptance.agents.http import over_http
from tests.acceptance.agents.mcp import over_mcp_http, over_mcp_stdio
from tests.acceptance.agents.socket import over_socket
from tests.cli.processes import RunningHub
from tests.forks import MCP
from tests.loopback import async_client

__all__ = ["ABSENT", "GATEWAYS", "GatewayTeam", "serving"]

GATEWAYS = ("http", "socket", "mcphttp", "mcpstdio", "files")
#: How many agents per gateway come later; two are there from the beginning.
LATE = 2
#: An agent that is known and never there.
ABSENT = "http-absent"
#: Directors may send every type, and of type Implementation they may also receive every type.
ROLE, TYPE = "director", "Implementation"


class GatewayTeam:
    """A hub, its agents and their tokens."""

    def __init__(self, hub: RunningHub, path: Path, admin: httpx2.AsyncClient) -> None:
        self.hub = hub
        self.path = path
        self.root = path / "channels"
        self.tokens: dict[str, str] = {}
        #: The agents that are there, by name.
        self.agents: dict[str, Driver] = {}
        self._admin = admin

    async def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Ask the hub as its administrator."""
        response = await self._admin.request(method, path, json=body)
        response.raise_for_status()
        return response.json()

    async def state(self, message_id: str) -> str:
        """Return the state of a message."""
        return str((await self.ask("GET", f"/v1/messages/{message_id}"))[0]["state"])

    async def life(self, message_id: str) -> list[str]:
        """Return what has happened to a message."""
        [found] = await self.ask("GET", f"/v1/messages/{message_id}/history")
        return [step["kind"] for step in found["history"]]

    async def presence(self, agent: str) -> str:
        return str((await self.ask("GET", f"/v1/agents/{agent}"))["presence"])

    async def until(self, look: Callable[[str], Awaitable[str]], subject: str, *wanted: str) -> str:
        """Wait until a message or an agent is in one of some states."""
        async with asyncio.timeout(PATIENCE_S):
            while (found := await look(subject)) not in wanted:
                await asyncio.sleep(0.01)
        return found

    def attach(self, agent: str) -> AbstractAsyncContextManager[Driver]:
        """Open an agent's way into the hub: its name says which."""
        gateway, token = agent.split("-")[0], self.tokens.get(agent, "")
        match gateway:
            case "http":
                return over_http(self.hub.url, agent, token)
            case "socket":
                return over_socket(self.hub.url, agent, token)
            case "mcphttp":
                return over_mcp_http(self.hub.url, agent, token)
            case "mcpstdio":
                return over_mcp_stdio(self.hub.url, agent, token, self.path)
            case "files":
                return over_files(self.root, agent)
        raise ValueError(gateway)


def _names() -> list[str]:
    names = ("a", "b", *(f"late{number}" for number in range(LATE)))
    return [f"{gateway}-{name}" for gateway in GATEWAYS for name in names] + [ABSENT]


@asynccontextmanager
async def serving(path: Path, policy: str, *, attached: bool = True) -> AsyncIterator[GatewayTeam]:
    """Serve a project with two agents there over each gateway, and some who come later."""
    data = path / "data"
    data.mkdir()
    (data / "tocsin.yaml").write_text(policy)
    declared = {name: {"type": TYPE, "role": ROLE} for name in _names() if name.startswith("files-")}
    channels = {"directory": str(path / "channels"), "agents": declared, "poll_interval_s": 0.2}
    # Between its turns an agent of a test is silent, and does not even answer a ping.
    socket = {"resume_grace_s": 0.2, "silence_max_s": 600, "ping_interval_s": 600}
    (data / "server.yaml").write_text(json.dumps({"channels": channels, "socket": socket}))
    with RunningHub(data, imported=MCP) as hub:
        token = (data / "admin.token").read_text().strip()
        headers = {"Authorization": f"Bearer {token}"}
        async with async_client(base_url=hub.url, headers=headers, timeout=PATIENCE_S) as admin:
            team = GatewayTeam(hub, path, admin)
            for name in set(_names()) - set(declared):
                body = {"agent": name, "role": ROLE, "type": TYPE}
                team.tokens[name] = (await team.ask("POST", "/v1/admin/tokens", body))["token"]
            there = [name for name in _names() if attached and name.endswith(("-a", "-b"))]
            async with _attached(team, there):
                yield team


@asynccontextmanager
async def _attached(team: GatewayTeam, names: list[str]) -> AsyncIterator[None]:
    """Keep agents attached, each in a task of its own: a way into a hub ends in the task that it began in."""
    over = asyncio.Event()

    async def attend(name: str, begun: asyncio.Future[None]) -> None:
        try:
            async with team.attach(name) as driver:
                team.agents[name] = driver
                await team.until(team.presence, name, "available")
                begun.set_result(None)
                await over.wait()
        except BaseException as error:
            if begun.done():
                raise
            begun.set_exception(error)

    loop = asyncio.get_running_loop()
    begins = [loop.create_future() for _ in names]
    tasks = [loop.create_task(attend(name, begun)) for name, begun in zip(names, begins, strict=True)]
    try:
        await asyncio.gather(*begins)
        yield
    finally:
        over.set()
        await asyncio.gather(*tasks)
