"""Toolsets: what a model is shown, by role and as asked for, and how much of it there is."""

import json

import jsonschema  # type: ignore[import-untyped]
import pytest

from tests.gateways.mcp.clients import Caller, Hub, over_http, over_stdio
from tests.loopback import async_client
from tocsin.core.errors import TocsinError
from tocsin.gateways.mcp.methods import tool_of
from tocsin.gateways.mcp.protocol import INSTRUCTIONS
from tocsin.gateways.mcp.tools import TOOLS
from tocsin.gateways.mcp.toolsets import TOOLSETS, Selection, parse_toolsets
from tocsin.hub.config import load_config

#: Tokens that the core may cost a model, counted as four characters each: no tokenizer is installed.
TOKENS_MAX = 3000
BY_ROLE = load_config().mcp_toolsets


def tokens(role: str, *asked: str) -> float:
    """Return the size of what a caller is shown: the tools as they are sent, and the instructions."""
    rows = Selection(BY_ROLE, asked).tools(role)
    shown = [tool_of(row) for row in rows]
    return len(json.dumps(shown, separators=(",", ":")) + INSTRUCTIONS) / 4


async def listed(caller: Caller) -> list[str]:
    return [tool.name for tool in (await caller.client.list_tools()).tools]


def test_the_core_is_small_enough_to_carry() -> None:
    assert len(TOOLSETS["core"]) == 9
    assert tokens("primary") < TOKENS_MAX
    assert tokens("clone") < TOKENS_MAX
    assert tokens("director", "all") < 10_000


def test_every_tool_is_in_a_toolset() -> None:
    assert {name for names in TOOLSETS.values() for name in names} == set(TOOLS)


def test_no_listed_argument_may_be_null() -> None:
    for row in TOOLS.values():
        text = json.dumps(tool_of(row)["inputSchema"])
        assert "null" not in text, row.name


def test_a_role_sees_the_tools_that_it_may_use() -> None:
    shown = {role: {row.tool_name for row in Selection(BY_ROLE).tools(role)} for role in BY_ROLE}
    assert shown["primary"] == shown["clone"] == set(TOOLSETS["core"])
    assert shown["director"] == shown["human"] == {*TOOLSETS["core"], *TOOLSETS["directing"]}
    everything = {row.tool_name for row in Selection(BY_ROLE, ("all",)).tools("primary")}
    assert set(TOOLS) - everything == {
        *("force_release", "decide_approval", "list_escalations", "resolve_escalation", "escalate_to_human")
    }


def test_an_unknown_toolset_is_refused_with_the_known_ones() -> None:
    assert parse_toolsets(" core, history ,") == ("core", "history")
    assert parse_toolsets("") == ()
    assert parse_toolsets("schemas") == ("core", "schemas")
    with pytest.raises(TocsinError, match="'hstory' is not a toolset; there are core, history"):
        parse_toolsets("core,hstory")


async def test_toolsets_are_asked_for_in_the_address_or_a_header(hub: Hub, pair: tuple[str, str]) -> None:
    boss = f"{pair[0]}boss"
    hub.join(boss, role="director")
    async with over_http(hub, pair[0]) as ada:
        assert await listed(ada) == list(TOOLSETS["core"])
        assert "held" in await ada.do("list_leases"), "a tool that is not listed can be called"
    async with over_http(hub, pair[0], path="/mcp?toolsets=core,work") as ada:
        assert await listed(ada) == [*TOOLSETS["core"], *TOOLSETS["work"]]
    async with over_http(hub, pair[0], **{"Tocsin-Toolsets": "leases,schemas"}) as ada:
        tools = (await ada.client.list_tools()).tools
        assert [tool.name for tool in tools] == list(TOOLSETS["leases"])
        for tool in tools:
            assert tool.output_schema is not None
            jsonschema.Draft202012Validator.check_schema(tool.output_schema)
            assert "inbox" in tool.output_schema["properties"]
    async with over_http(hub, boss) as dora:
        assert await listed(dora) == [*TOOLSETS["core"], *TOOLSETS["directing"]]
    answer = await hub_answer(hub, pair[0], "/mcp?toolsets=hstory")
    assert (answer[0], "is not a toolset" in answer[1]) == (422, True)


async def hub_answer(hub: Hub, agent: str, path: str) -> tuple[int, str]:
    headers = {"Authorization": f"Bearer {hub.token(agent)}", "Accept": "application/json, text/event-stream"}
    async with async_client(headers=headers, timeout=30) as client:
        answer = await client.post(hub.url + path, json={"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
        return answer.status_code, answer.text


async def test_toolsets_are_asked_for_on_the_command_line(hub: Hub, pair: tuple[str, str]) -> None:
    boss = f"{pair[0]}boss"
    hub.join(boss, role="human")
    async with over_stdio(hub, pair[0]) as ada:
        assert await listed(ada) == list(TOOLSETS["core"])
        tools = (await ada.client.list_tools()).tools
        assert not any("receipt" in tool.input_schema["properties"] for tool in tools), "it quotes cursors itself"
    async with over_stdio(hub, pair[0], "auto", "--toolsets", "core,teamwork") as ada:
        assert await listed(ada) == [*TOOLSETS["core"], *TOOLSETS["teamwork"]]
    async with over_stdio(hub, boss) as dora:
        assert await listed(dora) == [*TOOLSETS["core"], *TOOLSETS["directing"]]
    wrong = hub.run("mcp", "--toolsets", "cor", agent=boss)
    assert wrong.returncode != 0
    assert "'cor' is not a toolset; there are core, history" in wrong.stderr


async def test_what_is_urgent_names_its_effective_level(hub: Hub, pair: tuple[str, str]) -> None:
    from tocsin.gateways.mcp.inbox import inbox_text, shown, waiting_inbox

    envelope = {"messageId": "m", "sender": {"agentId": "a"}, "messageType": "T", "timestamp": "t", "payload": {}}
    raised = shown(envelope | {"priority": "Info"}, 100, "Blocking")
    asked = shown(envelope | {"priority": "Critical"}, 100, "Critical")
    assert (raised.priority, raised.level, asked.level) == ("Info", "Blocking", "")
    assert shown(envelope | {"priority": "HIGH"}, 100, "Blocking").level == "", "one level by two names"
    assert "URGENT (Critical, Blocking), 2 delivered" in inbox_text(waiting_inbox({}, urgent=[asked, raised]))
    async with over_http(hub, pair[0]) as ada:
        for _ in range(6):
            sent = await ada.call("post_message", to=pair[1], text="now!", priority="Blocking", type="CUSTOM_NOTE")
        assert "Info instead of Blocking" in json.dumps([block.model_dump() for block in sent.content])
