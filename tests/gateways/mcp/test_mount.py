"""What holds for `/mcp` before a tool is reached: identity, limits, origins; and what no message can break."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests.envelopes import envelope
from tests.gateways.hubs import QUICK, HubTeam
from tests.gateways.mcp.clients import Caller
from tocsin.gateways.http.app import build_app
from tocsin.gateways.mcp.mount import mcp_route
from tocsin.hub.config import load_config
from tocsin.hub.observability.logs import JsonFormatter
from tocsin.hub.service import Hub
from tocsin.policies import parse_policy

HEADERS = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}


@asynccontextmanager
async def mcp_team(path: Path, policy: str = QUICK, **config: Any) -> AsyncIterator[HubTeam]:
    """Serve a project with ada and bob on a hub with MCP, without a socket."""
    hub = await Hub.open(path / "data", parse_policy(policy), load_config(**config), project="team")
    try:
        async with mcp_route(hub) as route:
            transport = httpx2.ASGITransport(app=build_app(hub, beside=[route]))
            async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1:7077") as client:
                team = HubTeam(hub, client)
                await team.register("ada")
                await team.register("bob")
                yield team
    finally:
        await hub.close()


def asked(tool: str, /, **arguments: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}


async def post(team: HubTeam, agent: str | None, body: Any, **headers: str) -> httpx2.Response:
    return await team.post(agent, "/mcp", body, headers=HEADERS | headers)


async def called(team: HubTeam, agent: str, tool: str, /, **arguments: Any) -> dict[str, Any]:
    answer = await post(team, agent, asked(tool, **arguments))
    assert answer.status_code == 200, answer.text
    content: dict[str, Any] = answer.json()["result"]["structuredContent"]
    return content


async def test_another_content_type_is_refused_from_the_catalogue(tmp_path: Path) -> None:
    async with mcp_team(tmp_path) as team:
        for kind in ("text/plain", "application/jsonp", ""):
            answer = await post(team, "ada", asked("get_me"), **{"Content-Type": kind})
            assert (answer.status_code, answer.json()["error_code"]) == (415, "malformed_request")
        answer = await post(team, "ada", asked("get_me"), **{"Content-Type": "application/json; charset=utf-8"})
        assert answer.status_code == 200


async def test_without_a_good_token_nothing_is_answered(tmp_path: Path) -> None:
    async with mcp_team(tmp_path) as team:
        team.tokens["nobody"] = "tcs_0123456789abcdef_" + "x" * 43
        issued = team.hub.authority.issue("late", "primary", lifetime_s=1e-6)
        team.tokens["late"] = issued.secret.spell()
        team.join("gone")
        team.hub.authority.revoke("gone")
        for agent, code in (
            (None, "E_AUTH_001"),
            ("nobody", "E_AUTH_001"),
            ("late", "E_AUTH_004"),
            ("gone", "E_AUTH_005"),
        ):
            answer = await post(team, agent, asked("get_me"))
            assert (answer.status_code, answer.json()["code"]) == (401, code)
            assert answer.headers["content-type"] == "application/problem+json"
            assert answer.headers["www-authenticate"].startswith("Bearer")


async def test_a_token_that_is_revoked_ends_at_once(tmp_path: Path) -> None:
    async with mcp_team(tmp_path) as team:
        assert (await called(team, "ada", "get_me"))["agent"] == "ada"
        team.hub.authority.revoke("ada")
        assert (await post(team, "ada", asked("get_me"))).status_code == 401


async def test_who_calls_is_the_token_of_this_request_and_nothing_else(tmp_path: Path) -> None:
    async with mcp_team(tmp_path) as team:
        forged = {"Tocsin-Agent": "bob", "Mcp-Session-Id": "bob"}
        content = (await post(team, "ada", asked("get_me"), **forged)).json()["result"]["structuredContent"]
        assert content["agent"] == "ada"
        sent = await called(team, "ada", "post_message", to="bob", payload={"sender": {"agentId": "boss"}})
        (mail,) = (await called(team, "bob", "fetch_inbox"))["messages"]
        assert (mail["from"], mail["message_id"]) == ("ada", sent["receipt"]["signal_id"])


async def test_only_post_is_served(tmp_path: Path) -> None:
    async with mcp_team(tmp_path) as team:
        for method in ("GET", "DELETE"):
            answer = await team.call(method, "ada", "/mcp", headers=HEADERS)
            assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
            assert answer.json()["error_code"] == "method_not_allowed"


async def test_pages_of_a_browser_are_kept_out(tmp_path: Path) -> None:
    async with mcp_team(tmp_path, mcp_origins=["https://tools.example"]) as team:
        for headers, status in (
            ({"Origin": "http://evil.example"}, 403),
            ({"Origin": "null"}, 403),
            ({"Origin": "http://[broken"}, 403),
            ({"Host": "evil.example"}, 403),
            ({"Origin": "http://evil.example", "Host": "evil.example"}, 403),
            ({"Origin": "http://localhost:3000"}, 200),
            ({"Origin": "http://127.0.0.1"}, 200),
            ({"Origin": "https://tools.example"}, 200),
            ({}, 200),
        ):
            answer = await post(team, "ada", asked("get_me"), **headers)
            assert answer.status_code == status, headers


async def test_a_request_that_is_too_large_or_too_deep_is_refused(tmp_path: Path) -> None:
    async with mcp_team(tmp_path, mcp_bytes_max=2500) as team:
        large = await post(team, "ada", asked("post_message", to="bob", text="x" * 3000))
        assert (large.status_code, large.json()["code"]) == (413, "E_VALIDATION_005")
        deep = b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": ' + b"[" * 900 + b"]" * 900 + b"}"
        for body in (deep, b"[" * 2000, b"{", b"", b"\xff\xfe", b"[1, 2]", b'{"method": 5}'):
            answer = await post(team, "ada", body)
            assert 400 <= answer.status_code < 500, body[:80]
            answer.json()
        assert (await called(team, "ada", "get_me"))["agent"] == "ada"


def nested(depth: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(depth):
        value = {"x": value}
    return value


def raw(number: int, depth: int) -> bytes:
    """Write an envelope whose payload no encoder here would write."""
    text = json.dumps(envelope(number, priority="Critical", payload={"deep": "DEEP"}))
    return text.replace('"DEEP"', '{"x":' * depth + "1" + "}" * depth).encode()


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_no_message_can_keep_its_recipient_from_its_mail(tmp_path: Path, mode: str) -> None:
    """The deepest payload that the hub takes is urgent, and is carried by whatever the recipient calls next."""
    async with mcp_team(tmp_path) as team:
        taken = 0
        for number, depth in enumerate((30, 60, 90, *range(100, 140, 4))):
            sent = await team.post("ada", "/v1/messages", raw(number, depth))
            taken += sent.status_code == 200
            assert sent.status_code == 200 or sent.json()["code"] == "E_PROTOCOL_002"
        assert taken >= 5
        team.client.headers["Authorization"] = f"Bearer {team.tokens['bob']}"
        streams = streamable_http_client("http://127.0.0.1/mcp", http_client=team.client)
        async with Client(streams, mode=mode) as client:
            bob = Caller(client)
            shown = (await bob.do("get_me"))["inbox"]["urgent"]
            assert shown
            while mail := (await bob.do("fetch_inbox"))["messages"]:
                shown += mail
            while not (await bob.do("search_messages", q="x"))["items"]:
                pass  # the index follows
        assert len(shown) == taken
        assert all(message["payload"] for message in shown)


async def test_arguments_nested_deeply_are_taken_as_far_as_a_message_goes(tmp_path: Path) -> None:
    async with mcp_team(tmp_path) as team:
        for depth in (100, 300, 600, 900):
            answer = await post(team, "ada", asked("post_message", to="bob", payload=nested(depth)))
            assert answer.status_code in (200, 400)
            if answer.status_code == 200:
                content = answer.json()["result"]["structuredContent"]
                assert "receipt" in content or content["problem"]["code"] == "E_PROTOCOL_002"


async def test_one_agent_has_a_number_of_calls_under_way(tmp_path: Path) -> None:
    async with mcp_team(tmp_path, requests_per_agent_max=1) as team:
        begun, release = asyncio.Event(), asyncio.Event()

        async def held() -> Any:
            begun.set()
            await release.wait()
            yield json.dumps(asked("get_me")).encode()

        headers = HEADERS | {"Authorization": f"Bearer {team.tokens['ada']}"}
        first = asyncio.ensure_future(team.client.post("/mcp", content=held(), headers=headers))
        await begun.wait()
        second = await post(team, "ada", asked("get_me"))
        assert (second.status_code, second.json()["error_code"]) == (429, "limit_reached")
        assert (await team.get("ada", "/v1/me")).status_code == 429, "HTTP and MCP count together"
        assert (await called(team, "bob", "get_me"))["agent"] == "bob"
        release.set()
        assert (await first).status_code == 200


async def test_a_body_that_does_not_come_is_given_up(tmp_path: Path) -> None:
    async with mcp_team(tmp_path, body_timeout_s=0.05) as team:

        async def slow() -> Any:
            yield b"{"
            await asyncio.Event().wait()

        headers = HEADERS | {"Authorization": f"Bearer {team.tokens['ada']}"}
        answer = await team.client.post("/mcp", content=slow(), headers=headers)
        assert (answer.status_code, answer.json()["error_code"]) == (408, "body_timeout")


async def test_a_hub_that_is_closing_says_so(tmp_path: Path) -> None:
    async with mcp_team(tmp_path) as team:
        team.hub.closing.set()
        answer = await post(team, "ada", asked("get_me"))
        assert (answer.status_code, answer.json()["error_code"]) == (503, "shutting_down")


async def test_a_hub_that_wants_signatures_says_where_to_get_them(tmp_path: Path) -> None:
    async with mcp_team(tmp_path, policy="security: {require_signatures: true}") as team:
        content = await called(team, "ada", "post_message", to="bob", text="x")
        assert content["problem"]["code"] == "E_AUTH_006"
        assert "tocsin mcp" in content["problem"]["repair"]
        spoken = await called(team, "ada", "open_discussion", question="tabs?", participants=["ada", "bob"])
        assert spoken["problem"]["code"] == "E_AUTH_006"


async def test_no_token_and_no_payload_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with mcp_team(tmp_path) as team:
        await called(team, "ada", "post_message", to="bob", text="swordfish", priority="Critical")
        await called(team, "ada", "post_message", to="swordfish", text="x")
        await called(team, "ada", "post_message", swordfish=1)
        await called(team, "bob", "fetch_inbox")
        await post(team, "ada", asked("swordfish", text="swordfish"))
        await post(team, "ada", b'{"swordfish": ')
        logged = "\n".join(JsonFormatter().format(record) for record in caplog.records if "httpx" not in record.name)
        assert '"operation":"mcp_post_message"' in logged
        assert '"agent":"ada"' in logged
        assert "swordfish" not in logged
        assert not [token for token in team.tokens.values() if token.split("_", 2)[2] in logged]
        metrics = (await team.get("ada", "/metrics")).text
        assert 'operation="mcp_post_message"' in metrics
        assert "swordfish" not in metrics


async def test_a_bug_is_an_answer_and_a_line_in_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with mcp_team(tmp_path) as team:

        async def broken(*_: object, **__: object) -> None:
            raise RuntimeError("oh")

        team.hub.reader.ask = broken  # type: ignore[method-assign,assignment]
        answer = await post(team, "ada", asked("search_messages", q="x"))
        assert answer.json()["result"]["isError"]
        assert answer.json()["result"]["structuredContent"]["problem"]["error_code"] == "internal_error"
        assert "oh" not in answer.text
        assert "search_messages failed" in caplog.text


async def test_only_a_call_that_quotes_the_cursor_confirms(tmp_path: Path) -> None:
    async def state(team: HubTeam) -> str:
        return str((await team.get("ada", "/v1/messages/msg_1_x")).json()[0]["state"])

    async with mcp_team(tmp_path) as team:
        await team.post("ada", "/v1/messages", envelope(1, priority="Critical"))
        carried = (await called(team, "bob", "get_me"))["inbox"]
        assert len(carried["urgent"]) == 1
        await post(team, "bob", {"jsonrpc": "2.0", "id": 2, "method": "tools/list"})
        await called(team, "bob", "get_me")
        await called(team, "bob", "fetch_inbox")
        await called(team, "ada", "get_me", receipt=carried["cursor"])
        await called(team, "bob", "get_me", receipt="unknown")
        assert await state(team) == "offered"
        refused = await called(team, "bob", "post_message", to="nobody", text="x", receipt=carried["cursor"])
        assert refused["problem"]["code"] == "E_ROUTING_001"
        assert await state(team) == "delivered", "a refused call has quoted it as well"


async def test_a_receipt_that_is_no_text_is_refused(tmp_path: Path) -> None:
    async with mcp_team(tmp_path) as team:
        problem = (await called(team, "bob", "get_me", receipt=7))["problem"]
        assert problem["code"] == "E_VALIDATION_002"
        assert "receipt" in problem["detail"]


async def test_an_unquoted_message_is_repeated_and_an_answer_to_it_confirms_it(tmp_path: Path) -> None:
    hasty = "delivery: {receipt_timeout_s: {push: 30, piggyback: 0.1, daemon: 30}}"
    async with mcp_team(tmp_path, policy=hasty) as team:
        await team.post("ada", "/v1/messages", envelope(1, messageType="CUSTOM_QUESTION", correlationId="thread_1"))
        (first,) = (await called(team, "bob", "fetch_inbox"))["messages"]
        assert "repeated" not in first
        while not (again := (await called(team, "bob", "fetch_inbox"))["messages"]):
            await asyncio.sleep(0.02)
        assert (again[0]["message_id"], again[0]["repeated"]) == ("msg_1_x", True)
        await called(team, "bob", "acknowledge_message", message_id="msg_1_x")
        assert (await team.get("ada", "/v1/messages/msg_1_x")).json()[0]["state"] == "acknowledged"


async def test_of_two_calls_at_a_time_neither_confirms_the_other(tmp_path: Path) -> None:
    async with mcp_team(tmp_path) as team:
        for number in (1, 2):
            await team.post("ada", "/v1/messages", envelope(number))
        await asyncio.gather(*(called(team, "bob", "fetch_inbox", limit=1) for _ in range(2)))
        history = [(await team.get("ada", f"/v1/messages/msg_{number}_x")).json()[0] for number in (1, 2)]
        assert [message["state"] for message in history] == ["offered", "offered"]
        assert (await called(team, "ada", "get_agent", agent="bob"))["sessions"] == {"piggyback": 1}
