"""A hub in process for tests: the real application over the real journal, without a socket."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest

from tocsin.gateways.http.app import build_app
from tocsin.hub.auth.tokens import Grant
from tocsin.hub.config import load_config
from tocsin.hub.service import Hub
from tocsin.policies import parse_policy

QUICK = "storage: {projection_interval_s: 0.02}"


class HubTeam:
    """A hub and the ways to call it."""

    def __init__(self, hub: Hub, client: httpx2.AsyncClient) -> None:
        self.hub = hub
        self.client = client
        self.tokens: dict[str, str] = {}

    def join(self, agent: str, role: str = "primary", *, admin: bool = False) -> str:
        issued = self.hub.authority.issue(agent, role, admin=admin)
        self.tokens[agent] = issued.secret.spell()
        return self.tokens[agent]

    async def register(self, agent: str, role: str = "primary", kind: str = "Manager") -> None:
        self.join(agent, role)
        assert (await self.put(agent, "/v1/me", {"type": kind})).status_code == 200

    async def call(self, method: str, agent: str | None, path: str, body: Any = None, **more: Any) -> httpx2.Response:
        headers = dict(more.pop("headers", {}))
        if agent is not None:
            headers["Authorization"] = f"Bearer {self.tokens[agent]}"
        content = body if isinstance(body, bytes) or body is None else msgspec.json.encode(body)
        return await self.client.request(method, path, content=content, headers=headers, **more)

    async def get(self, agent: str | None, path: str, **more: Any) -> httpx2.Response:
        return await self.call("GET", agent, path, **more)

    async def post(self, agent: str | None, path: str, body: Any = None, **more: Any) -> httpx2.Response:
        return await self.call("POST", agent, path, body, **more)

    async def put(self, agent: str | None, path: str, body: Any = None, **more: Any) -> httpx2.Response:
        return await self.call("PUT", agent, path, body, **more)


@asynccontextmanager
async def team_at(path: Path, policy: str = QUICK, **config: Any) -> AsyncIterator[HubTeam]:
    hub = await Hub.open(path / "data", parse_policy(policy), load_config(**config), project="team")
    transport = httpx2.ASGITransport(app=build_app(hub))
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
        try:
            yield HubTeam(hub, client)
        finally:
            await hub.close()


@asynccontextmanager
async def registered_team(path: Path, **config: Any) -> AsyncIterator[HubTeam]:
    """Serve a project with ada, bob and a director registered, and an administrator."""
    async with team_at(path, **config) as team:
        await register_usual(team)
        team.join("root", "human", admin=True)
        yield team


async def register_usual(team: HubTeam) -> None:
    """Register ada, bob and a director."""
    await team.register("ada")
    await team.register("bob", kind="Implementation")
    await team.register("boss", "director")


def age_tokens(monkeypatch: pytest.MonkeyPatch, seconds: int) -> None:
    """Let tokens expire as if some time had passed."""
    is_live = Grant.is_live
    monkeypatch.setattr(Grant, "is_live", lambda grant, now: is_live(grant, now + seconds * 1_000_000))
