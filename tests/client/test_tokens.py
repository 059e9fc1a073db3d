"""Tokens that end under an agent: it is told how, and finds the next one where it found the last."""

import asyncio
from pathlib import Path

import pytest

from tests.gateways.hubs import age_tokens
from tests.gateways.websocket.sockets import socket_team
from tocsin.client import Agent, ConnectionState, client_config
from tocsin.core.errors import NotPermitted, TocsinError

NOTE = "CUSTOM_NOTE"
QUICK = client_config(backoff_first_s=0.01)


@pytest.fixture(autouse=True)
def _nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TOCSIN_TOKEN", "TOCSIN_TOKEN_FILE"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("how", ["expired", "revoked"])
async def test_how_a_token_ended_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    async with socket_team(tmp_path) as team:
        token = team.hub.authority.issue("ada", "primary", lifetime_s=60).secret.spell()
        async with Agent.connect(f"http://127.0.0.1:{team.port}", token=token, config=QUICK) as ada:
            if how == "expired":
                age_tokens(monkeypatch, 60)
            else:
                team.hub.authority.revoke("ada")
            await ada.until(ConnectionState.FAILED)
            code = "E_AUTH_004" if how == "expired" else "E_AUTH_005"
            with pytest.raises(NotPermitted, match=f"{code}: token [0-9a-f]+ has (been )?{how}"):
                await ada.send(to="ada", type=NOTE)


async def test_a_token_that_is_rotated_in_its_file_is_found_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "ada.token"
    monkeypatch.setenv("TOCSIN_TOKEN_FILE", str(file))
    async with socket_team(tmp_path) as team:
        file.write_text(team.tokens["ada"])
        async with Agent.connect(f"http://127.0.0.1:{team.port}", sign=True, config=QUICK) as ada:
            for overlap_s in (0.0, 60.0):
                back = asyncio.create_task(ada.until(ConnectionState.RECONNECTING))
                await asyncio.sleep(0)
                file.write_text(team.hub.authority.rotate("ada", overlap_s=overlap_s).secret.spell() + "\n")
                if overlap_s:
                    age_tokens(monkeypatch, 60)
                await back
                await ada.until(ConnectionState.CONNECTED)
                assert (await ada.send(to="ada", type=NOTE)).recipient == "ada", "and it is signed with the new one"


@pytest.mark.parametrize("left", ["the same", "nothing", "no file"])
async def test_a_file_without_another_token_is_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left: str
) -> None:
    file = tmp_path / "ada.token"
    monkeypatch.setenv("TOCSIN_TOKEN_FILE", str(file))
    async with socket_team(tmp_path) as team:
        file.write_text(team.tokens["ada"])
        async with Agent.connect(f"http://127.0.0.1:{team.port}", config=QUICK) as ada:
            if left == "nothing":
                file.write_text("")
            elif left == "no file":
                file.unlink()
            team.hub.authority.revoke("ada")
            await ada.until(ConnectionState.FAILED)
            with pytest.raises(TocsinError, match="E_AUTH_005"):
                await ada.send(to="ada", type=NOTE)
