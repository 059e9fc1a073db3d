"""Hubs of one database in this process: schemas of projects, the table of hubs, and who is sent where."""

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import psycopg
import pytest

from tests.fleet.hubs import eventually
from tests.postgres import Server
from tocsin.core.errors import TocsinError
from tocsin.fleet.home import Place
from tocsin.fleet.placement import place
from tocsin.fleet.router import Router
from tocsin.fleet.sharing import SharingHub
from tocsin.hub.config import load_config

ONE, TWO = "http://one:7077", "http://two:7077"


class Shared:
    """One hub, called over its application."""

    def __init__(self, hub: SharingHub, client: httpx2.AsyncClient, data: Path) -> None:
        self.hub = hub
        self.client = client
        self.data = data

    async def call(self, method: str, path: str, token: str, body: object = None) -> httpx2.Response:
        """Send one request."""
        return await self.client.request(method, path, json=body, headers={"authorization": f"Bearer {token}"})

    @property
    def admin(self) -> str:
        """Return the token that the first start has made."""
        return (self.data / "admin.token").read_text().strip()


@pytest.fixture
def store(postgres: Server) -> str:
    name = f"sharing_{secrets.token_hex(6)}"
    postgres.database(name)
    return f"postgresql://tocsin@/{name}?host={postgres.folder}"


@asynccontextmanager
async def sharing(data: Path, store: str, address: str) -> AsyncIterator[Shared]:
    """Run a hub with an address of its own."""
    config = load_config(hubs={"address": address, "drain_s": 2})
    at = Place(data, "home", store, config)
    hub = await SharingHub.open(at, await asyncio.to_thread(at.catalogue), trusting=False)
    try:
        await hub.home()
        router = Router("home", None, hub.authority, hub.projects, sharing=hub)
        transport = httpx2.ASGITransport(app=router)
        async with httpx2.AsyncClient(transport=transport, base_url=address, timeout=60) as client:
            yield Shared(hub, client, data)
        await hub.drain()
    finally:
        await hub.close()


def schemas(store: str) -> set[str]:
    """Return the schemas of projects."""
    with psycopg.connect(store) as connection:
        rows = connection.execute("SELECT nspname FROM pg_namespace WHERE nspname LIKE 'tocsin\\_%'").fetchall()
    return {row[0] for row in rows}


async def test_a_project_is_a_schema_and_nothing_is_left_of_a_removed_one(tmp_path: Path, store: str) -> None:
    async with sharing(tmp_path, store, ONE) as one:
        tokens = {}
        for name in ("acme", "beta"):
            answer = await one.call("POST", "/v1/projects", one.admin, {"project": name})
            assert answer.status_code == 200, answer.text
            tokens[name] = answer.json()["token"]
        assert schemas(store) == {"tocsin_home", "tocsin_acme", "tocsin_beta"}
        for name, token in tokens.items():
            assert (await one.call("GET", "/v1/status", token)).json()["project"] == name
        refused = await one.call("DELETE", "/v1/projects/acme", one.admin)
        assert (refused.status_code, refused.json()["code"]) == (409, "E_STATE_002")
        assert (await one.call("POST", "/v1/projects/acme/archive", one.admin, {})).status_code == 200
        assert (await one.call("GET", "/v1/status", tokens["acme"])).json()["code"] == "E_STATE_006"
        removed = await one.call("DELETE", "/v1/projects/acme", one.admin)
        assert removed.status_code == 200, removed.text
        assert schemas(store) == {"tocsin_home", "tocsin_beta"}
        assert (await one.call("GET", "/v1/status", tokens["acme"])).status_code == 401
        assert (await one.call("GET", "/v1/status", tokens["beta"])).status_code == 200
        with psycopg.connect(store) as connection:
            rows = connection.execute("SELECT project FROM tocsin.projects ORDER BY project").fetchall()
        assert rows == [("beta",), ("home",)]


async def test_projects_move_when_a_hub_joins_and_back_when_it_leaves(tmp_path: Path, store: str) -> None:
    names = [f"p{number}" for number in range(12)]
    moving = next(name for name in names if place(name, [ONE, TWO]) == TWO)
    async with sharing(tmp_path / "one", store, ONE) as one:
        token = (await one.call("POST", "/v1/projects", one.admin, {"project": moving})).json()["token"]
        assert (await one.call("GET", "/v1/status", token)).status_code == 200
        async with sharing(tmp_path / "two", store, TWO) as two:
            await eventually(lambda: one.hub.members.addresses == [ONE, TWO])
            answer = await one.call("GET", "/v1/agents?limit=3", token)
            assert (answer.status_code, answer.headers["location"]) == (307, f"{TWO}/v1/agents?limit=3")
            assert answer.json()["facts"] == {"address": TWO}
            assert (await two.call("GET", "/v1/status", token)).json()["project"] == moving
            assert one.hub.projects.open_hub_of(moving) is None
            await two.hub.drain()
            gone = await two.call("GET", "/v1/status", token)
            assert gone.headers["location"] == f"{ONE}/v1/status"
            await eventually(lambda: one.hub.members.addresses == [ONE])
            assert (await one.call("GET", "/v1/status", token)).json()["project"] == moving


async def test_each_hub_answers_for_its_own_health(tmp_path: Path, store: str) -> None:
    async with sharing(tmp_path / "one", store, ONE) as one, sharing(tmp_path / "two", store, TWO) as two:
        await eventually(lambda: one.hub.members.addresses == two.hub.members.addresses == [ONE, TWO])
        other = one if place("home", [ONE, TWO]) == TWO else two
        assert (await other.client.get("/health")).json() == {"condition": "serving", "reason": ""}
        assert (await other.client.get("/ready")).status_code == 200
        assert (await other.client.get("/v1/projects")).status_code == 307


async def test_of_two_hubs_with_one_address_the_first_stops(tmp_path: Path, store: str) -> None:
    async with sharing(tmp_path / "one", store, ONE) as one:
        with psycopg.connect(store) as connection:
            connection.execute("UPDATE tocsin.hubs SET hub = 'elsewhere 1'")
            connection.execute("SELECT pg_notify('tocsin_hubs', '')")
        async with asyncio.timeout(60):
            assert "another hub has registered with the address of this one, http://one:7077" in await one.hub.stopped()


def test_a_hub_that_hangs_must_have_stopped_serving_before_it_is_replaced() -> None:
    with pytest.raises(TocsinError, match="lease_s must be at least 10"):
        load_config(hubs={"lease_s": 9})
