"""Tool calls that are answered without the library: the same answers, and only to requests that it would accept."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.envelopes import envelope
from tests.gateways.mcp.test_mount import HEADERS, asked, mcp_team, post
from tocsin.core.commands import Send
from tocsin.core.protocol.parsing import parse_envelope
from tocsin.core.protocol.priority import Priority
from tocsin.gateways.mcp.direct import DirectCalls
from tocsin.gateways.mcp.tool_call import as_json, limit_depth
from tocsin.hub.piggyback import Piggyback

MODERN = "2026-07-28"
HANDSHAKE = ("2025-06-18", "2025-11-25")
META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


@pytest.fixture
def direct(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Return for each request so far whether it was answered without the library."""
    seen: list[bool] = []
    read = DirectCalls.read

    def watched(self: DirectCalls, *arguments: Any) -> Any:
        found = read(self, *arguments)
        seen.append(found is not None)
        return found

    monkeypatch.setattr(DirectCalls, "read", watched)
    return seen


def request_of(version: str, tool: str, **arguments: Any) -> tuple[dict[str, Any], dict[str, str]]:
    """Return a tool call as a client of a version sends it, and its headers."""
    body, headers = asked(tool, **arguments), {"Mcp-Protocol-Version": version}
    if version == MODERN:
        body["params"]["_meta"] = META
        headers |= {"Mcp-Method": "tools/call", "Mcp-Name": tool}
    return body, headers


@pytest.mark.parametrize("version", [*HANDSHAKE, MODERN])
@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("get_me", {}),
        ("list_team", {"limit": 1}),
        ("post_message", {"to": "nobody", "text": "hello"}),
        ("post_message", {"to": "bob", "texts": "hello"}),
        ("no_such_tool", {"a": [1, {"b": None}]}),
    ],
)
async def test_an_answer_is_that_of_the_library(
    tmp_path: Path,
    direct: list[bool],
    monkeypatch: pytest.MonkeyPatch,
    version: str,
    tool: str,
    arguments: dict[str, Any],
) -> None:
    async with mcp_team(tmp_path) as team:
        body, headers = request_of(version, tool, **arguments)
        answered = await post(team, "ada", body, **headers)
        assert direct == [True]
        monkeypatch.setattr(DirectCalls, "read", lambda *_: None)
        by_library = await post(team, "ada", body, **headers)
        assert answered.status_code == by_library.status_code == 200
        assert answered.headers["content-type"] == by_library.headers["content-type"]
        assert _timeless(answered.json()) == _timeless(by_library.json())


async def test_the_inbox_is_drained_only_for_something_urgent(
    tmp_path: Path, direct: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    drained: list[int] = []
    drain = Piggyback.drain

    async def watched(self: Piggyback, *arguments: Any) -> Any:
        drained.append(1)
        return await drain(self, *arguments)

    monkeypatch.setattr(Piggyback, "drain", watched)

    async with mcp_team(tmp_path) as team:
        body, headers = request_of(MODERN, "get_me")
        assert (await post(team, "bob", body, **headers)).status_code == 200
        await team.post("ada", "/v1/messages", envelope(1))
        drained.clear()
        calm = (await post(team, "bob", body, **headers)).json()["result"]["structuredContent"]["inbox"]
        assert (calm, drained) == ({"waiting": {"Info": 1}}, [])
        await team.post("ada", "/v1/messages", envelope(2, priority="Blocking"))
        urgent = (await post(team, "bob", body, **headers)).json()["result"]["structuredContent"]["inbox"]
        assert [message["message_id"] for message in urgent["urgent"]] == ["msg_2_x"]
        assert (urgent["waiting"]["Info"], drained) == (1, [1])
        assert direct == [True] * 3


@given(st.recursive(st.none(), lambda parts: st.lists(parts, max_size=2) | st.dictionaries(st.just("a"), parts)))
def test_a_reply_with_few_brackets_is_limited_like_any_other(value: Any) -> None:
    for depth_max in range(8):
        assert as_json(value, depth_max) == limit_depth(value, depth_max)


async def test_the_number_of_waiting_messages_is_told_once_they_are_durable(tmp_path: Path) -> None:
    async with mcp_team(tmp_path) as team:
        host, bob = team.hub.host, team.hub.authority.authenticate(team.tokens["bob"]).caller
        piggyback = team.hub.project.piggyback
        await piggyback.attach(bob)
        ada = team.hub.authority.authenticate(team.tokens["ada"]).caller
        sent = host.submit(Send(parse_envelope(json.dumps(envelope(1)).encode(), 10_000)), ada)
        assert await piggyback.waiting_below(bob, Priority.BLOCKING) == (1, 0, 0, 0, 0)
        assert sent.done()


async def test_the_number_of_waiting_messages_is_told_at_once_if_all_is_durable(tmp_path: Path) -> None:
    async with mcp_team(tmp_path) as team:
        bob = team.hub.authority.authenticate(team.tokens["bob"]).caller
        piggyback = team.hub.project.piggyback
        await piggyback.attach(bob)
        await team.post("ada", "/v1/messages", envelope(1))
        with pytest.raises(StopIteration) as told:
            piggyback.waiting_below(bob, Priority.BLOCKING).send(None)
        assert told.value.value == (1, 0, 0, 0, 0)


def _timeless(answer: Any) -> Any:
    """Return an answer without the times that differ between two calls."""
    if isinstance(answer, dict):
        return {name: _timeless(part) for name, part in answer.items() if not name.endswith("_at")}
    return [_timeless(part) for part in answer] if isinstance(answer, list) else answer


@pytest.mark.parametrize(
    "change",
    [
        {"Mcp-Protocol-Version": "2024-11-05"},
        {"Mcp-Protocol-Version": "2031-01-01"},
        {"Accept": "text/html"},
        {"Mcp-Name": "get_message"},
        {"Mcp-Method": "tools/list"},
    ],
)
async def test_a_request_that_the_library_would_refuse_is_left_to_it(
    tmp_path: Path, direct: list[bool], change: dict[str, str]
) -> None:
    async with mcp_team(tmp_path) as team:
        body, headers = request_of(MODERN, "get_me")
        await post(team, "ada", body, **(headers | change))
        assert direct == [False]


@pytest.mark.parametrize(
    "change",
    [
        {"Accept": "text/html"},
        {"Accept": "application/json, text/" + "x" * 3000},
        {"Mcp-Name": "get_message"},
        {"Mcp-Method": "tools/list"},
    ],
)
async def test_what_was_accepted_before_is_accepted_with_the_same_headers_only(
    tmp_path: Path, direct: list[bool], change: dict[str, str]
) -> None:
    async with mcp_team(tmp_path) as team:
        body, headers = request_of(MODERN, "get_me")
        for changed in ({}, change, {}):
            await post(team, "ada", body, **(headers | changed))
        other, _ = request_of(MODERN, "list_team")
        await post(team, "ada", other, **headers)
        assert direct == [True, False, True, False]


async def test_a_repeated_header_is_left_to_the_library(tmp_path: Path, direct: list[bool]) -> None:
    async with mcp_team(tmp_path) as team:
        body, headers = request_of(MODERN, "get_me")
        sent = [*(HEADERS | headers).items(), ("Authorization", f"Bearer {team.tokens['ada']}")]
        for more in ([], [("Mcp-Name", "get_me")], []):
            await team.client.post("/mcp", json=body, headers=[*sent, *more])
        assert direct == [True, False, True]


@pytest.mark.parametrize(
    "body",
    [
        {"id": True},
        {"id": None},
        {"jsonrpc": "1.0"},
        {"method": "ping"},
        {"params": {"name": "get_me", "arguments": [], "_meta": META}},
        {"params": {"name": "get_me", "task": {}, "_meta": META}},
        {"params": {"name": "get_me", "_meta": META | {"progressToken": []}}},
        {"params": {"name": "get_me", "_meta": META | {"io.modelcontextprotocol/clientCapabilities": "all"}}},
        {"params": {"name": "get_me", "_meta": META | {"note": "x" * 3000}}},
        {"params": {"name": "get_me"}},
    ],
)
async def test_a_request_of_another_shape_is_left_to_the_library(
    tmp_path: Path, direct: list[bool], body: dict[str, Any]
) -> None:
    async with mcp_team(tmp_path) as team:
        usual, headers = request_of(MODERN, "get_me")
        for _ in range(2):
            await post(team, "ada", json.dumps(usual | body).encode(), **headers)
        assert direct == [False, False]
