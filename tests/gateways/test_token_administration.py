"""Tokens that a director or a human administers without an admin token: roles below its own, and nothing else."""

from pathlib import Path
from typing import Any

import apsw
import pytest

from tests.gateways.hubs import HubTeam, registered_team, team_at

TOKENS = "/v1/admin/tokens"


async def _code(team: HubTeam, by: str, path: str, body: Any = None) -> str:
    """Make a call; return the code of its refusal, or nothing."""
    answer = await team.post(by, f"{TOKENS}{path}", body or {})
    return "" if answer.status_code == 200 else str(answer.json()["code"])


@pytest.mark.parametrize(
    ("role", "allowed"),
    [("human", ["director", "primary", "clone"]), ("director", ["primary", "clone"]), ("primary", []), ("clone", [])],
)
async def test_a_role_administers_those_below_it(tmp_path: Path, role: str, allowed: list[str]) -> None:
    async with registered_team(tmp_path) as team:
        await team.register("me", role)
        for other in ("director", "primary", "clone", "human"):
            expected = "" if other in allowed else "E_AUTH_003"
            assert await _code(team, "me", "", {"agent": f"new-{other}", "role": other}) == expected
            await team.register(f"old-{other}", other)
            assert await _code(team, "me", "", {"agent": f"old-{other}", "role": other}) == expected
            for verb in ("rotate", "revoke"):
                assert await _code(team, "me", f"/old-{other}/{verb}") == expected
            still = (await team.get(f"old-{other}", "/v1/me")).status_code
            assert still == (401 if other in allowed else 200)


async def test_a_director_cannot_reach_an_admin_token(tmp_path: Path) -> None:
    async with registered_team(tmp_path) as team:
        team.join("op", "primary", admin=True)
        assert await _code(team, "boss", "", {"agent": "eve", "role": "clone", "admin": True}) == "E_AUTH_003"
        assert await _code(team, "boss", "", {"agent": "op", "role": "primary"}) == "E_AUTH_003"
        assert await _code(team, "boss", "/op/rotate") == "E_AUTH_003"
        assert await _code(team, "boss", "/op/revoke") == "E_AUTH_003"
        assert (await team.get("op", "/v1/me")).json()["admin"]


async def test_a_director_takes_over_no_name_that_was_above_it(tmp_path: Path) -> None:
    async with registered_team(tmp_path) as team:
        await team.register("hanna", "human")
        assert await _code(team, "root", "/hanna/revoke") == ""
        for role in ("primary", "clone"):
            assert await _code(team, "boss", "", {"agent": "hanna", "role": role}) == "E_AUTH_003"
        assert (await team.call("DELETE", "root", "/v1/agents/hanna")).status_code == 200
        assert await _code(team, "boss", "", {"agent": "hanna", "role": "primary"}) == "E_AUTH_003"
        assert await _code(team, "boss", "", {"agent": "boss", "role": "director"}) == "E_AUTH_003"
        assert await _code(team, "boss", "/boss/rotate") == "E_AUTH_003"


async def test_the_role_that_an_agent_registered_with_counts(tmp_path: Path) -> None:
    async with registered_team(tmp_path) as team:
        await team.register("eve", "director")
    tokens = apsw.Connection(str(tmp_path / "data" / "tokens.db"))
    tokens.execute("DELETE FROM grants WHERE agent = 'eve'")
    tokens.close()
    async with team_at(tmp_path) as again:
        again.tokens = team.tokens
        assert await _code(again, "boss", "", {"agent": "eve", "role": "primary"}) == "E_AUTH_003"


async def test_a_list_shows_what_the_caller_administers(tmp_path: Path) -> None:
    async with registered_team(tmp_path) as team:
        await team.register("chief", "director")
        await team.register("hanna", "human")
        team.join("op", "primary", admin=True)

        async def listed(by: str, query: str = "") -> set[str]:
            return {row["agent"] for row in (await team.get(by, TOKENS + query)).json()["items"]}

        assert await listed("boss") == {"ada", "bob", "boss"}
        assert await listed("hanna") == {"ada", "bob", "boss", "chief", "hanna"}
        assert {"op", "root", "hanna"} <= await listed("root")
        assert await listed("root", "?agent=bob") == {"bob"}
        assert await listed("boss", "?agent=root") == set()
        assert (await team.get("ada", TOKENS)).status_code == 403


async def test_what_a_director_issues_ends_with_its_own_token(tmp_path: Path) -> None:
    async with registered_team(tmp_path) as team:
        issued = await team.post("root", TOKENS, {"agent": "temp", "role": "director", "lifetime_s": 3600})
        team.tokens["temp"], end = issued.json()["token"], issued.json()["grant"]["expires_at"]
        for body in ({}, {"lifetime_s": 7200}):
            made = await team.post("temp", TOKENS, {"agent": "eve", "role": "clone", **body})
            assert made.json()["grant"]["expires_at"] == end
        assert (await team.post("temp", f"{TOKENS}/ada/rotate", {})).json()["grant"]["expires_at"] == end
        shorter = (await team.post("temp", f"{TOKENS}/bob/rotate", {"lifetime_s": 60})).json()["grant"]
        assert shorter["expires_at"] < end


async def test_a_director_cannot_fill_the_store_of_tokens(tmp_path: Path) -> None:
    async with registered_team(tmp_path, tokens_max=7) as team:
        codes = [await _code(team, "boss", "", {"agent": f"eve-{number}", "type": None}) for number in range(4)]
        assert codes == ["", "", "E_ADMISSION_008", "E_ADMISSION_008"]
        assert await _code(team, "boss", "/eve-0/rotate") == "E_ADMISSION_008"
        assert await _code(team, "boss", "/eve-0/revoke") == "", "revoking makes no token"
        assert await _code(team, "root", "", {"agent": "eve"}) == ""


async def test_a_policy_that_lets_clones_direct_gives_them_no_tokens(tmp_path: Path) -> None:
    async with team_at(tmp_path, "roles: {clone: {directs: true}}") as team:
        await team.register("eve", "clone")
        assert (await team.get("eve", "/v1/roster")).status_code == 200
        for role in ("primary", "clone"):
            assert await _code(team, "eve", "", {"agent": "new", "role": role}) == "E_AUTH_003"
