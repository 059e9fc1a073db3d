"""Hubs of one database in this process: schemas of projects, the table of hubs, and who is sent where."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Iterator
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
from tocsin.hub.ownership import Standby
from tocsin.journal.postgres.ownership import lock_key
from tocsin.policies import default_policy

ONE, TWO = "http://one:7077", "http://two:7077"


class Shared:
    """One hub, called over its application."""

    def __init__(self, hub: SharingHub, client: httpx2.AsyncClient, data: Path) -> None:
        self.hub = hub
        self.client = client
        self.data = data

    async def call(
        self, method: str, path: str, token: str, body: object = None, project: str | None = None
    ) -> httpx2.Response:
        """Send one request, to another project than the token's if it is named."""
        headers = {"authorization": f"Bearer {token}"} | ({} if project is None else {"tocsin-project": project})
        return await self.client.request(method, path, json=body, headers=headers)

    async def stands_by(self) -> bool:
        """Tell whether its health says that it waits for the home project; it must answer."""
        health = await self.client.get("/health")
        assert health.status_code == 200, health.text
        return bool(health.json()["condition"] == "standing_by")

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


class Intruder:
    """The holder of an admin token, who issues tokens in a project until it is stopped."""

    def __init__(self, hub: Shared, project: str, token: str, name: str) -> None:
        self._hub, self._project, self._token, self._name = hub, project, token, name
        #: Whether its token has been revoked, and that has been answered.
        self.is_revoked = False
        #: Tokens that it was given.
        self.made: list[str] = []
        #: Codes of the answers to calls that were made after the revocation, empty for one that was accepted.
        self.after: list[str] = []
        self.has_made = asyncio.Event()

    async def run(self) -> None:
        """Issue tokens, and go on for some calls after the revocation."""
        while len(self.after) < 20:
            is_after = self.is_revoked
            body = {"agent": f"{self._name}-{len(self.made)}", "role": "primary"}
            answer = await self._hub.call("POST", "/v1/admin/tokens", self._token, body, self._project)
            if answer.status_code == 200:
                self.made.append(answer.json()["token"])
                self.has_made.set()
            else:
                assert answer.json()["code"] == "E_AUTH_005", answer.text
            await asyncio.sleep(0)  # A refusal waits for nothing.
            if is_after:
                self.after.append(answer.json().get("code", ""))


async def test_a_revoked_administrator_does_nothing_more_at_another_hub(tmp_path: Path, store: str) -> None:
    async with sharing(tmp_path / "one", store, ONE) as one, sharing(tmp_path / "two", store, TWO) as two:
        await eventually(lambda: one.hub.members.addresses == two.hub.members.addresses == [ONE, TWO])
        hubs = {ONE: one, TWO: two}
        home = hubs[place("home", [ONE, TWO]) or ""]
        project = next(name for name in map(str, range(12)) if place(name, [ONE, TWO]) != place("home", [ONE, TWO]))
        other = hubs[place(project, [ONE, TWO]) or ""]
        await eventually(lambda: home.hub.projects.open_hub_of("home") is not None)
        operator = (one if (one.data / "admin.token").exists() else two).admin
        assert (await home.call("POST", "/v1/projects", operator, {"project": project})).status_code == 200
        for number in range(9):
            name = f"admin{number}"
            body = {"agent": name, "role": "human", "admin": True}
            token = (await home.call("POST", "/v1/admin/tokens", operator, body)).json()["token"]
            intruder = Intruder(other, project, token, name)
            async with asyncio.timeout(60), asyncio.TaskGroup() as running:
                running.create_task(intruder.run())
                await intruder.has_made.wait()
                revoked = await home.call("POST", f"/v1/admin/tokens/{name}/revoke", operator, {})
                assert revoked.status_code == 200, revoked.text
                intruder.is_revoked = True
            assert set(intruder.after) == {"E_AUTH_005"}, "no call was accepted"
            too_late = _made_after_revocation(store)
            for made in intruder.made:
                answer = await other.call("GET", "/v1/me", made)
                late = made[4:20] in too_late
                assert answer.json().get("code") == ("E_AUTH_005" if late else None), "no token was left"


def _made_after_revocation(store: str) -> set[str]:
    """Return the tokens that were stored while the revocation of their author was."""
    with psycopg.connect(store) as connection:
        rows = connection.execute(
            "SELECT made.token_id FROM tocsin.grants AS made JOIN tocsin.grants AS author"
            " ON author.token_id = made.issued_by WHERE made.created_at > author.revoked_at"
        ).fetchall()
    return {row[0] for row in rows}


async def test_each_hub_answers_for_its_own_health(tmp_path: Path, store: str) -> None:
    async with sharing(tmp_path / "one", store, ONE) as one, sharing(tmp_path / "two", store, TWO) as two:
        await eventually(lambda: one.hub.members.addresses == two.hub.members.addresses == [ONE, TWO])
        other = one if place("home", [ONE, TWO]) == TWO else two
        assert (await other.client.get("/health")).json() == {"condition": "serving", "reason": ""}
        assert (await other.client.get("/ready")).status_code == 200
        assert (await other.client.get("/v1/projects")).status_code == 307


def waits_for(store: str, project: str) -> bool:
    """Tell whether a hub waits for a project's lock."""
    with psycopg.connect(store) as connection:
        query = "SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND objid::bigint = %s"
        return connection.execute(query, (lock_key(project) & ((1 << 32) - 1),)).fetchone() is not None


def cut_off(store: str, project: str) -> None:
    """End the session that holds a project's lock, as a restart of the server does."""
    with psycopg.connect(store) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_locks"
            " WHERE locktype = 'advisory' AND granted AND objid::bigint = %s",
            (lock_key(project) & ((1 << 32) - 1),),
        )


async def test_a_hub_whose_project_a_standby_has_taken_over_says_so_and_stands_by(
    tmp_path: Path, store: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with sharing(tmp_path, store, ONE) as one:
        standby = Standby(store, "home", default_policy(), hub="two 2", address=TWO)
        serving = asyncio.create_task(standby.serve())
        await eventually(lambda: asyncio.to_thread(waits_for, store, "home"))
        await asyncio.to_thread(cut_off, store, "home")
        host = await serving
        try:
            await eventually(one.stands_by)
            ready = await one.client.get("/ready")
            reason = f"project home is served by another hub, at {TWO}"
            assert (ready.status_code, ready.json()) == (503, {"condition": "standing_by", "reason": reason})
            told = await one.call("GET", "/v1/agents?limit=3", one.admin)
            assert (told.status_code, told.headers["location"]) == (307, f"{TWO}/v1/agents?limit=3")
            assert (told.json()["code"], told.json()["facts"]) == ("E_HUB_002", {"address": TWO})
            assert await one.hub.home() is None  # A start does not wait for it either.
        finally:
            await host.close()
        await eventually(lambda: one.hub.projects.not_open("home") is None)
        assert (await one.client.get("/ready")).status_code == 200
        assert (await one.call("GET", "/v1/status", one.admin)).json()["project"] == "home"
    logged = [record.getMessage() for record in caplog.records if record.name == "tocsin.fleet"]
    assert (
        f"project home is served by two 2, at {TWO}: this hub stands by, and takes over when that hub stops" in logged
    )
    assert "this hub takes over project home" in logged


async def test_callers_wait_for_a_project_that_a_hub_hands_over_while_it_leaves(tmp_path: Path, store: str) -> None:
    moving = next(name for name in (f"p{number}" for number in range(12)) if place(name, [ONE, TWO]) == TWO)
    async with sharing(tmp_path / "one", store, ONE) as one, sharing(tmp_path / "two", store, TWO) as two:
        token = (await one.call("POST", "/v1/projects", one.admin, {"project": moving})).json()["token"]
        await eventually(lambda: one.hub.members.addresses == [ONE, TWO])
        async with two.hub.projects.using(moving):
            leaving = asyncio.create_task(two.hub.drain())
            await eventually(lambda: one.hub.members.addresses == [ONE])
            asked = asyncio.create_task(one.call("GET", "/v1/status", token))
            await eventually(lambda: asyncio.to_thread(waits_for, store, moving))
        assert (await asked).json()["project"] == moving
        await leaving


@pytest.fixture
def own_server() -> Iterator[Server]:
    """A server for one test to stop."""
    server = Server()
    try:
        yield server.create()
    finally:
        server.remove()


async def test_a_hub_that_waits_for_its_database_answers_at_once(tmp_path: Path, own_server: Server) -> None:
    (tmp_path / "tocsin.yaml").write_text("storage: {recovery_attempts_max: 1, recovery_backoff_s: 0.05}")
    async with sharing(tmp_path, f"postgresql://tocsin@/postgres?host={own_server.folder}", ONE) as one:
        await asyncio.to_thread(own_server.stop)
        await eventually(one.stands_by)
        assert "the database cannot be reached" in (await one.client.get("/ready")).json()["reason"]
        refused = await one.call("GET", "/v1/status", one.admin)
        assert (refused.status_code, refused.json()["code"]) == (503, "E_HUB_007")
        await asyncio.to_thread(own_server.start)
        await eventually(lambda: one.hub.projects.not_open("home") is None)
        assert (await one.call("GET", "/v1/status", one.admin)).status_code == 200


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
