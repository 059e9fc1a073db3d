"""What a token grants, and what it does not: types, tools for a browser, unsigned words, files for other users."""

import json
import stat
from pathlib import Path
from typing import Any

import apsw
import httpx2
import pytest

from tests.envelopes import envelope
from tests.gateways.hubs import QUICK, HubTeam, registered_team, team_at
from tocsin.gateways.dashboard.gateway import DashboardGateway
from tocsin.gateways.http.app import build_app
from tocsin.gateways.mcp.mount import mcp_route
from tocsin.hub.auth.sqlite_grants import SqliteGrants
from tocsin.hub.auth.tokens import Grant
from tocsin.journal.sqlite.schema import migrate
from tocsin.wire.signatures import Signer


async def _issued(team: HubTeam, agent: str, **body: Any) -> httpx2.Response:
    answer = await team.post("root", "/v1/admin/tokens", {"agent": agent, **body})
    assert answer.status_code == 200, answer.text
    team.tokens[agent] = answer.json()["token"]
    return answer


async def test_an_agent_registers_only_as_the_types_of_its_token(tmp_path: Path) -> None:
    async with registered_team(tmp_path) as team:
        answer = await _issued(team, "eve", role="clone")
        assert answer.json()["grant"]["types"] == ["AdHoc"]
        refused = (await team.put("eve", "/v1/me", {"type": "Manager"})).json()
        assert (refused["code"], refused["field"], refused["expected"]) == ("E_AUTH_003", "$.type", "one of AdHoc")
        register = envelope(1, "eve", "tocsin", messageType="HANDOFF_REQUEST")
        register["sender"] = {"agentId": "eve", "type": "Manager"}
        await team.post("eve", "/v1/messages", register)
        assert (await team.get("eve", "/v1/me")).json()["registered"]["type"] == "AdHoc"
        assert (await team.put("eve", "/v1/me", {"type": "AdHoc"})).status_code == 200
        assert (await team.put("eve", "/v1/me", {})).status_code == 200
        await _issued(team, "ann", type="Implementation", types=["Reviewer"])
        for kind, status in (("Reviewer", 200), ("Implementation", 200), ("Manager", 403)):
            assert (await team.put("ann", "/v1/me", {"type": kind})).status_code == status
        rotated = (await team.post("root", "/v1/admin/tokens/ann/rotate", {})).json()
        assert rotated["grant"]["types"] == ["Implementation", "Reviewer"]
        await _issued(team, "new", type=None, types=["Reviewer", "Manager"])
        assert (await team.put("new", "/v1/me", {})).status_code == 200
        assert (await team.get("new", "/v1/me")).json()["registered"]["type"] == "Reviewer"


async def test_the_types_of_a_token_outlive_the_hub(tmp_path: Path) -> None:
    async with team_at(tmp_path) as team:
        team.join("root", "human", admin=True)
        await _issued(team, "eve", role="clone")
    async with team_at(tmp_path) as again:
        again.tokens = team.tokens
        assert (await again.put("eve", "/v1/me", {"type": "Manager"})).status_code == 403


def test_tokens_of_an_earlier_version_are_read(tmp_path: Path) -> None:
    earlier = apsw.Connection(str(tmp_path / "tokens.db"))
    migrate(earlier, "tokens", upto=1)
    earlier.execute("ALTER TABLE grants DROP COLUMN types")
    earlier.execute("PRAGMA user_version = 0")
    earlier.execute("INSERT INTO grants VALUES ('00', 'team', 'old', 'primary', 0, x'00', 1, NULL, NULL)")
    earlier.close()
    store = SqliteGrants(tmp_path, "team")
    new = Grant("11", "team", "new", "clone", False, b"1", 2, None, None, ("AdHoc", "Reviewer"))
    store.write([new])
    assert [grant.types for grant in store.load()] == [None, ("AdHoc", "Reviewer")]
    store.close()


async def test_a_browser_session_has_no_tools(tmp_path: Path) -> None:
    async with team_at(tmp_path) as team:
        await team.register("hanna", "human")
        async with mcp_route(team.hub) as route:
            app = build_app(team.hub, beside=[route, *DashboardGateway(team.hub).routes()])
            transport = httpx2.ASGITransport(app=app)
            own = {"Tocsin-Dashboard": "1", "Accept": "application/json", "Content-Type": "application/json"}
            call = {
                "jsonrpc": "2.0",
                "id": 1,
                "method": "tools/call",
                "params": {"name": "get_me", "arguments": {}},
            }
            async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
                signed_in = await client.post("/sign-in", json={"token": team.tokens["hanna"]}, headers=own)
                assert signed_in.status_code == 200
                assert (await client.get("/v1/me", headers=own)).json()["agent"] == "hanna"
                answer = await client.post("/mcp", json=call, headers=own)
                assert (answer.status_code, answer.json()["code"]) == (401, "E_AUTH_001")
                token = own | {"Authorization": f"Bearer {team.tokens['hanna']}"}
                assert (await client.post("/mcp", json=call, headers=token)).status_code == 200


async def test_the_words_of_a_discussion_are_signed_where_messages_are(tmp_path: Path) -> None:
    async with team_at(tmp_path, f"{QUICK}\nsecurity: {{require_signatures: true}}") as team:
        for agent in ("ada", "bob"):
            await team.register(agent)
        signer = Signer(team.tokens["ada"])

        async def said(path: str, body: Any, *, signed: bool) -> httpx2.Response:
            raw = json.dumps(body).encode()
            headers = {"Tocsin-Signature": signer.sign(raw)} if signed else {}
            return await team.post("ada", path, raw, headers=headers)

        question = {"question": "tabs?", "participants": ["ada", "bob"]}
        assert (await said("/v1/discussions", question, signed=False)).json()["code"] == "E_AUTH_006"
        opened = await said("/v1/discussions", question, signed=True)
        assert opened.status_code == 200, opened.text
        path = f"/v1/discussions/{opened.json()['discussion']}"
        for verb, body in (("speak", {"text": "spaces"}), ("vote", {"option": "agree"})):
            assert (await said(f"{path}/{verb}", body, signed=False)).json()["code"] == "E_AUTH_006"
            wrong = await team.post("ada", f"{path}/{verb}", body, headers={"Tocsin-Signature": signer.sign(b"x")})
            assert wrong.json()["code"] == "E_AUTH_006"
            assert (await said(f"{path}/{verb}", body, signed=True)).status_code == 200


@pytest.mark.parametrize("existed", [False, True], ids=["new files", "files of an earlier version"])
async def test_a_folder_that_others_may_list_leaves_no_database_readable(tmp_path: Path, existed: bool) -> None:
    folder = tmp_path / "data"
    folder.mkdir(mode=0o755)
    folder.chmod(0o755)
    async with team_at(tmp_path) as team:
        await team.register("ada")
    if existed:
        for path in folder.glob("*.db*"):
            path.chmod(0o644)
    async with team_at(tmp_path) as team:
        await team.hub.host.projected(team.hub.host.committed_seq)
        await team.hub.reader.ask(lambda tables: tables.standing())
        found = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.glob("*.db*")}
        assert {"journal.db", "tables.db", "tokens.db"} <= found.keys()
        assert not {name: oct(mode) for name, mode in found.items() if mode & 0o077}
