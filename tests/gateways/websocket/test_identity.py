"""Authentication of a socket, at the handshake and while it is open."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest
import websockets
from websockets.asyncio.client import connect

from tests.envelopes import envelope
from tests.gateways.hubs import age_tokens
from tests.gateways.websocket.sockets import Client, SocketTeam, socket_team
from tocsin.core.errors import refusal
from tocsin.hub.auth.tokens import Grant
from tocsin.hub.observability.logs import JsonFormatter


async def handshake(team: SocketTeam, headers: dict[str, str], subprotocols: list[Any] | None) -> tuple[int, Any]:
    """Try to open a socket; return the status and, if it was refused, the problem."""
    try:
        socket = await connect(
            f"ws://127.0.0.1:{team.port}/v1/socket",
            additional_headers=headers,
            subprotocols=subprotocols,
            compression=None,
        )
    except websockets.InvalidStatus as error:
        if error.response.headers["content-type"] != "application/problem+json":
            raise AssertionError("not a problem document") from None
        return error.response.status_code, json.loads(error.response.body or b"{}")
    await socket.close()
    return 101, None


async def test_a_handshake_without_a_good_token_is_refused(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with socket_team(tmp_path) as team:
        ours: list[Any] = ["tocsin.v1"]
        good = {"Authorization": f"Bearer {team.tokens['ada']}"}
        assert (await handshake(team, good, ours))[0] == 101
        assert (await handshake(team, good, ["soap", *ours]))[0] == 101
        for headers in (
            {},
            {"Authorization": "Bearer"},
            {"Authorization": "Bearer tcs_0000000000000000_" + "x" * 43},
            {"Authorization": good["Authorization"] + "x"},
            {"Authorization": good["Authorization"].replace("Bearer", "Basic")},
            {"Tocsin-Agent": "ada"},
        ):
            status, problem = await handshake(team, headers, ours)
            assert (status, problem["code"]) == (401, "E_AUTH_001"), headers
        for subprotocols in (None, ["tocsin.v2"]):
            status, problem = await handshake(team, good, subprotocols)
            assert (status, problem["code"]) == (400, "E_PROTOCOL_001")
            assert problem["expected"] == "Sec-WebSocket-Protocol: tocsin.v1"
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == []


async def test_a_hub_that_trusts_loopback_takes_a_socket_at_its_word(team: SocketTeam) -> None:
    team.hub.trusting = True
    ours: list[Any] = ["tocsin.v1"]
    assert (await handshake(team, {"Tocsin-Agent": "eve"}, ours))[0] == 101
    assert (await handshake(team, {}, ours))[0] == 401
    assert (await handshake(team, {"Tocsin-Agent": "eve", "Tocsin-Role": "king"}, ours))[0] == 403
    socket = await connect(
        f"ws://127.0.0.1:{team.port}/v1/socket",
        additional_headers={"Tocsin-Agent": "eve"},
        subprotocols=ours,
        compression=None,
    )
    eve = Client(socket)
    await eve.hello(type="AdHoc")
    assert (await eve.ok("send_message", envelope=envelope(1, sender="eve")))["receipt"]["recipient"] == "bob"
    eve.cut()
    await eve.closed()


async def test_nobody_speaks_for_somebody_else(team: SocketTeam) -> None:
    ada, bob, boss = await team.attach("ada"), await team.attach("bob"), await team.attach("boss")
    problem = await ada.refused("send_message", envelope=envelope(1, sender="bob"))
    assert (problem["code"], problem["found"], problem["expected"]) == ("E_AUTH_002", "bob", "ada")
    assert (await boss.refused("send_message", envelope=envelope(1, sender="ada")))["code"] == "E_AUTH_002"
    await ada.send(2)
    await bob.take()
    assert (await boss.ok("confirm_messages", message_ids=["msg_2_x"])) == {"confirmed": 0, "unknown": ["msg_2_x"]}
    assert (await boss.refused("acknowledge_message", message_id="msg_2_x"))["code"] == "E_STATE_001"
    assert (await bob.ok("recall_message", message_id="msg_2_x"))["outcome"] == "not_found"
    assert (await ada.refused("call", operation="adopt_policy", arguments={"policy": {}}))["code"] == "E_AUTH_003"
    state = team.hub.host.exchange.state
    assert [message.sender for message in state.messages.values()] == ["ada"]


async def test_a_revoked_token_ends_its_sockets(team: SocketTeam) -> None:
    ada, bob = await team.attach("ada"), await team.attach("bob")
    await ada.send(1)
    await bob.take()
    team.hub.authority.revoke("bob")
    assert await bob.closed() == 4401
    assert bob.bye["resume"] is False
    assert "revoked" in bob.bye["reason"]
    state = team.hub.host.exchange.state
    assert bob.welcome["session"] not in state.sessions
    assert state.messages[state.ids["msg_1_x"]].state == "queued", "what it had not confirmed waits again"
    status, problem = await team.refused("bob")
    assert (status, problem["code"]) == (401, "E_AUTH_005"), "a replayed token opens nothing"
    await ada.ok("ping")


async def test_the_operation_after_a_revocation_is_not_done(tmp_path: Path) -> None:
    """Check the token with the operation itself, without a sweep."""
    async with socket_team(tmp_path, socket={"sweep_interval_s": 3600}) as team:
        ada = await team.attach("ada")
        team.hub.authority.revoke("ada")
        await ada.raw(json.dumps([{"op": "send_message", "id": 9, "envelope": envelope(1)}]))
        assert await ada.closed() == 4401
        assert not team.hub.host.exchange.state.messages


async def test_a_token_that_cannot_be_checked_for_now_does_not_end_the_session(
    team: SocketTeam, monkeypatch: pytest.MonkeyPatch
) -> None:
    ada = await team.attach("ada")

    def unchecked(grant: Grant) -> None:
        raise refusal("E_HUB_007", "the database does not answer")

    monkeypatch.setattr(team.hub.authority, "check", unchecked)
    assert await ada.closed() == 1013
    assert ada.bye["resume"] is True
    assert ada.welcome["session"] in team.hub.host.exchange.state.sessions


async def test_a_rotated_token_ends_the_old_sockets_and_opens_new_ones(team: SocketTeam) -> None:
    ada, old = await team.attach("ada"), team.tokens["ada"]
    team.tokens["ada"] = team.hub.authority.rotate("ada").secret.spell()
    assert await ada.closed() == 4401
    status, problem = await team.refused("ada", token=old)
    assert (status, problem["code"]) == (401, "E_AUTH_005")
    await (await team.attach("ada")).ok("ping")


async def test_an_expired_token_ends_its_sockets(team: SocketTeam, monkeypatch: pytest.MonkeyPatch) -> None:
    token = team.hub.authority.issue("ada", "primary", lifetime_s=60).secret.spell()
    ada = await team.open("ada", token=token)
    await ada.hello()
    age_tokens(monkeypatch, 60)
    assert await ada.closed() == 4401
    assert "expired" in ada.bye["reason"]
    status, problem = await team.refused("ada", token=token)
    assert (status, problem["code"]) == (401, "E_AUTH_004")


async def test_the_log_names_agents_and_never_tokens_or_payloads(
    team: SocketTeam, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, logger="tocsin")
    ada = await team.attach("ada")
    await ada.ok("send_message", envelope=envelope(1, payload={"text": "swordfish"}))
    await ada.raw('[{"op": "swordfish"}]')
    await ada.ok("bye")
    await ada.closed()
    lines = [JsonFormatter().format(record) for record in caplog.records if record.name == "tocsin.websocket"]
    told = [json.loads(line) for line in lines]
    assert [line["message"] for line in told] == ["hello", "closed"]
    assert told[0]["agent"] == told[1]["agent"] == "ada"
    assert told[1]["code"] == 1000
    text = "\n".join(JsonFormatter().format(record) for record in caplog.records)
    assert "swordfish" not in text
    assert team.tokens["ada"] not in text
