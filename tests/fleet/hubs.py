"""A hub with several projects, called over its application."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2

from tests.envelopes import envelope
from tocsin.fleet.assembly import project_app
from tocsin.fleet.home import open_projects
from tocsin.fleet.projects import Projects
from tocsin.fleet.router import Router
from tocsin.hub.config import load_config
from tocsin.hub.service import Hub
from tocsin.policies import default_policy

__all__ = ["Address", "eventually", "serving"]


class Address:
    """The one address of all projects."""

    def __init__(self, home: Hub, projects: Projects, client: httpx2.AsyncClient) -> None:
        self.home = home
        self.projects = projects
        self._client = client
        self.admin = (home.data / "admin.token").read_text().strip()

    async def call(
        self, method: str, path: str, token: str | None, body: Any = None, **headers: str
    ) -> httpx2.Response:
        """Send one request; underscores in the names of headers are dashes."""
        if token is not None:
            headers["authorization"] = f"Bearer {token}"
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return await self._client.request(method, path, json=body, headers=named)

    async def add(self, name: str) -> str:
        """Add a project, and return its admin token."""
        answer = await self.call("POST", "/v1/projects", self.admin, {"project": name})
        assert answer.status_code == 200, answer.text
        return str(answer.json()["token"])

    async def agent(self, admin: str, name: str, role: str = "primary") -> str:
        """Issue a token for an agent in the project of an admin token."""
        answer = await self.call("POST", "/v1/admin/tokens", admin, {"agent": name, "role": role})
        assert answer.status_code == 200, answer.text
        return str(answer.json()["token"])

    async def send(self, token: str, sender: str, to: str, text: str, **more: Any) -> httpx2.Response:
        """Send a message."""
        message_id = f"msg_1_{text.replace(' ', '_')}"
        fields = {"priority": None, "payload": {"text": text}} | more
        return await self.call(
            "POST", "/v1/messages", token, envelope(message_id, sender, to, sender_type="AdHoc", **fields)
        )

    async def inbox(self, token: str) -> list[str]:
        """Return the texts that wait for an agent."""
        answer = await self.call("GET", "/v1/inbox", token)
        assert answer.status_code == 200, answer.text
        return [item["payload"]["text"] for item in answer.json()["items"]]

    async def states(self) -> dict[str, str]:
        """Return the state of each project."""
        answer = await self.call("GET", "/v1/projects", self.admin)
        return {item["project"]: item["state"] for item in answer.json()["items"]}


@asynccontextmanager
async def serving(folder: Path, store: str = "", **projects: Any) -> AsyncIterator[Address]:
    """Serve the projects of a folder."""
    config = load_config(projects=projects)
    home = await Hub.open(folder, default_policy(), config, project="home", store=store)
    try:
        async with AsyncExitStack() as gateways:
            app = await project_app(home, gateways)
            opened = await open_projects(home, store)
            transport = httpx2.ASGITransport(app=Router("home", app, home.authority, opened))
            async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
                yield Address(home, opened, client)
    finally:
        await home.close()


async def eventually(condition: Callable[[], Any]) -> None:
    """Wait until a condition holds."""
    async with asyncio.timeout(60):
        while True:
            found = condition()
            if await found if asyncio.iscoroutine(found) else found:
                return
            await asyncio.sleep(0.01)
