"""`tocsin mcp` as a process: tokens, a hub that is not there or comes back, nothing but protocol on stdout."""

import json
import os
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from tests.cli.processes import COMMAND
from tests.envelopes import envelope
from tests.forks import MCP, stand_in
from tests.gateways.mcp.clients import SOURCES, Caller, Hub, new_hub, over_http, over_stdio, whole
from tests.loopback import async_client
from tocsin.cli.programs.bridge import Bridge, RemoteToolCall
from tocsin.cli.remote import Remote
from tocsin.core.errors import TocsinError
from tocsin.gateways.mcp.inbox import urgent_inbox
from tocsin.gateways.mcp.tool_call import AnswerLimits
from tocsin.gateways.mcp.toolsets import TOOLSETS


def server(program: list[str], *arguments: str, cwd: Path, **environment: str) -> StdioServerParameters:
    command, *words = program
    return StdioServerParameters(command=command, args=[*words, *arguments], cwd=str(cwd), env=SOURCES | environment)


async def test_the_token_comes_from_the_environment_or_a_file_and_is_never_the_admins(
    hub: Hub, pair: tuple[str, str]
) -> None:
    async def who(parameters: StdioServerParameters) -> Any:
        async with Client(stdio_client(parameters)) as client:
            return await Caller(client).call("get_me")

    home, file = hub.data.parent, str(hub.data / "tokens" / f"{pair[1]}.token")
    program = stand_in(["tocsin"], MCP)
    by_value = await who(server(program, "mcp", cwd=home, TOCSIN_TOKEN=hub.token(pair[0]), TOCSIN_URL=hub.url))
    assert by_value.structured_content["agent"] == pair[0]
    by_file = await who(server(program, "mcp", cwd=home, TOCSIN_TOKEN="", TOCSIN_TOKEN_FILE=file, TOCSIN_URL=hub.url))
    assert by_file.structured_content["agent"] == pair[1]
    nobody = await who(server(program, "--data", str(hub.data), "mcp", cwd=home, TOCSIN_URL=hub.url))
    problem = nobody.structured_content["problem"]
    assert (nobody.is_error, problem["code"], "TOCSIN_TOKEN" in problem["detail"]) == (True, "E_AUTH_001", True)


MODERN = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}


def answers_to(cwd: Path, options: list[str], *requests: tuple[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """Send requests in one piece, and return the answers; standard input ends directly after them."""
    asked = [{"jsonrpc": "2.0", "id": n, "method": method, "params": p} for n, (method, p) in enumerate(requests)]
    done = subprocess.run(  # noqa: S603
        [*stand_in(["tocsin"], MCP), "--url", "http://127.0.0.1:1", "mcp", *options],
        input="".join(json.dumps(message) + "\n" for message in asked),
        capture_output=True,
        text=True,
        check=True,
        cwd=cwd,
    )
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [answer["id"] for answer in found] == [*range(len(requests))]
    return found


def test_a_channel_is_declared_by_the_handshake_and_not_negotiated_without_one(tmp_path: Path) -> None:
    """Versions without a handshake have no notifications that nobody asked for, so the client must fall back."""
    discover = ("server/discover", {"_meta": MODERN})
    refused, accepted = answers_to(tmp_path, ["--channel"], discover, ("initialize", HELLO))
    assert refused["error"]["code"] == -32601
    experimental = accepted["result"]["capabilities"]["experimental"]
    assert set(experimental) == {"claude/channel", "claude/channel/permission"}
    discovered, refused = answers_to(tmp_path, [], discover, ("initialize", HELLO))
    assert discovered["result"]["supportedVersions"] == ["2026-07-28"]
    assert discovered["result"]["resultType"] == "complete"
    assert "experimental" not in discovered["result"]["capabilities"]
    assert "error" in refused, "a connection has one version"
    (accepted,) = answers_to(tmp_path, [], ("initialize", HELLO | {"protocolVersion": "2099-01-01"}))
    assert (accepted["result"]["protocolVersion"], "experimental" in accepted["result"]["capabilities"]) == (
        "2025-11-25",
        False,
    )


@pytest.mark.parametrize(
    ("meta", "code"),
    [
        (MODERN | {"io.modelcontextprotocol/protocolVersion": "2099-01-01"}, -32022),
        ({"io.modelcontextprotocol/protocolVersion": "2026-07-28"}, -32602),
        ({}, -32602),
    ],
    ids=["version", "capabilities", "neither"],
)
def test_a_request_of_a_modern_connection_names_a_version_that_is_served(
    tmp_path: Path, meta: dict[str, Any], code: int
) -> None:
    _, refused = answers_to(tmp_path, [], ("server/discover", {"_meta": MODERN}), ("tools/list", {"_meta": meta}))
    assert refused["error"]["code"] == code


def test_nothing_is_served_before_the_handshake(tmp_path: Path) -> None:
    early, pong, accepted, unknown = answers_to(
        tmp_path, [], ("tools/list", {}), ("ping", {}), ("initialize", HELLO), ("server/discover", {})
    )
    assert (early["error"]["code"], pong["result"], unknown["error"]["code"]) == (-32602, {}, -32601)
    assert accepted["result"]["serverInfo"]["name"] == "tocsin"


async def test_a_token_that_ends_is_said_so_and_a_new_one_is_found(hub: Hub, pair: tuple[str, str]) -> None:
    async with over_stdio(hub, pair[0]) as ada:
        await ada.do("get_me")
        hub.admin().post("v1", "admin", "tokens", pair[0], "revoke")
        problem = await ada.refused("get_me")
        assert (problem["code"], problem["retryable"]) == ("E_AUTH_005", False)
        hub.join(pair[0])
        assert (await ada.do("get_me"))["agent"] == pair[0]
        hub.join("short", lifetime_s=1e-6)
    async with over_stdio(hub, "short") as short:
        assert (await short.refused("fetch_inbox"))["code"] == "E_AUTH_004"


async def test_a_hub_that_goes_and_comes_back(tmp_path: Path) -> None:
    with new_hub(tmp_path) as hub:
        for agent in ("ada", "bob"):
            hub.join(agent)
        async with over_stdio(hub, "ada") as ada, over_http(hub, "bob") as bob:
            kept = (await ada.do("post_message", to="bob", text="before", priority="Critical"))["message_id"]
            assert [m["message_id"] for m in (await bob.do("get_me"))["inbox"]["urgent"]] == [kept]
            assert hub.stop() == 0
            problem = await ada.refused("post_message", to="bob", text="x")
            assert (problem["code"], problem["retryable"]) == ("E_ROUTING_003", True)
            assert "tocsin serve" in problem["detail"]
            with new_hub(tmp_path, "--port", hub.url.rsplit(":", 1)[1]) as again:
                assert again.url == hub.url
                after = await ada.do("post_message", to="bob", text="after")
                assert hub.state(kept) in ("offered", "queued"), "not known to be seen"
                await bob.do("get_me")
                assert hub.state(kept) == "delivered", "the cursor is valid after a restart"
                assert [m["message_id"] for m in (await bob.do("fetch_inbox"))["messages"]] == [after["message_id"]]


async def test_it_starts_where_no_hub_is_and_says_so(tmp_path: Path) -> None:
    arguments = ("--url", "http://127.0.0.1:1", "mcp")
    with (tmp_path / "stderr").open("w") as stderr:
        parameters = server(COMMAND, *arguments, cwd=tmp_path, TOCSIN_TOKEN="tcs_0123456789abcdef_" + "x" * 43)
        async with Client(stdio_client(parameters, errlog=stderr)) as client:
            assert [tool.name for tool in (await client.list_tools()).tools] == list(TOOLSETS["core"])
            problem = await Caller(client).refused("fetch_inbox")
            assert problem["code"] == "E_ROUTING_003"
    assert "no hub answers at http://127.0.0.1:1" in (tmp_path / "stderr").read_text()


async def test_signed_messages_are_sent_signed(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    (data / "tocsin.yaml").write_text("security: {require_signatures: true}")
    with new_hub(tmp_path) as hub:
        hub.join("ada")
        async with over_stdio(hub, "ada") as ada:
            assert (await ada.do("post_message", to="ada", text="signed"))["receipt"]["queued"]
            opened = await ada.do("open_discussion", question="tabs?", participants=["ada"], voters_min=1)
            await ada.do("speak_in_discussion", discussion=opened["discussion"], text="spaces")


async def test_a_hub_that_believes_anyone_is_told_a_name(tmp_path: Path) -> None:
    with new_hub(tmp_path, "--insecure-loopback") as hub:
        async with over_stdio(hub, "eve") as eve:
            assert (await eve.do("register_agent"))["agent"] == "eve"


@pytest.mark.parametrize(
    ("garbage", "forked"),
    [
        ("not json", False),
        ("[" * 5000, True),
        ("{}", True),
        ('{"jsonrpc": "2.0", "id": 1, "method": "tools/call"}', True),
    ],
    ids=["text", "deep", "empty", "incomplete"],
)
def test_garbage_on_stdin_breaks_nothing_and_stdout_is_protocol_alone(hub: Hub, garbage: str, forked: bool) -> None:
    """A process that Python starts also shows what is printed by what it imports."""
    hello = {"jsonrpc": "2.0", "id": 7, "method": "initialize"}
    hello["params"] = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    listing = {"jsonrpc": "2.0", "id": 8, "method": "tools/list"}
    lines = [json.dumps(hello), json.dumps(ready), garbage, json.dumps(listing)]
    with subprocess.Popen(  # noqa: S603
        [*(stand_in(["tocsin"], MCP) if forked else COMMAND), "mcp", "--log-level", "debug"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=os.environ | {"TOCSIN_TOKEN": "none", "TOCSIN_URL": hub.url},
        cwd=hub.data.parent,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("\n".join(lines) + "\n")
        process.stdin.flush()
        answers: list[dict[str, Any]] = []
        while not {7, 8} <= {answer.get("id") for answer in answers}:
            answers.append(json.loads(process.stdout.readline()))
            assert answers[-1]["jsonrpc"] == "2.0"
        process.stdin.close()
        assert process.stdout.read() == ""
        assert process.wait(30) == 0


def begun(bridge: Bridge, number: int, method: str = "tools/call") -> RemoteToolCall:
    return bridge.begin(method, str(number), None)


def bridge_of(hub: Hub, agent: str, away: Callable[[], bool] = lambda: False) -> Bridge:
    return Bridge(
        lambda trace: Remote("http://127.0.0.1:1" if away() else hub.url, hub.token(agent), headers=trace),
        AnswerLimits(5, 10_000, 100, 10_000, 2_000, 64),
    )


def urgent_for(hub: Hub, pair: tuple[str, str]) -> str:
    message_id = f"msg_{pair[0]}_fire"
    fire = envelope(message_id, *pair, sender_type="AdHoc", priority="Critical")
    Remote(hub.url, hub.token(pair[0])).post("v1", "messages", body=fire)
    return message_id


async def test_what_a_cancelled_call_was_handed_goes_with_the_next(hub: Hub, pair: tuple[str, str]) -> None:
    """The hub has handed a message out, the coding agent has given the call up: the next answer carries it."""
    bridge, sent = bridge_of(hub, pair[1]), urgent_for(hub, pair)
    given_up = begun(bridge, 1)
    assert len((await urgent_inbox(given_up)).urgent) == 1
    bridge.cancelled("1")
    following = begun(bridge, 3)
    assert [mail.message_id for mail in (await urgent_inbox(following)).urgent] == [sent]
    assert hub.state(sent) == "offered"


async def test_what_an_answer_had_that_crossed_its_cancellation_goes_with_the_next(
    hub: Hub, pair: tuple[str, str]
) -> None:
    """The coding agent discards an answer to a call that it has given up, so nobody has seen what was in it."""
    bridge, sent = bridge_of(hub, pair[1]), urgent_for(hub, pair)
    assert len((await urgent_inbox(begun(bridge, 1))).urgent) == 1
    bridge.answered("1")
    bridge.cancelled("1")
    following = begun(bridge, 2)
    assert [(mail.message_id, mail.repeated) for mail in (await urgent_inbox(following)).urgent] == [(sent, True)]
    assert hub.state(sent) == "offered"
    bridge.answered("2")
    later = begun(bridge, 3)
    bridge.cancelled("2")
    await later.ask("get_me")
    assert hub.state(sent) == "offered", "it had begun before, and confirmed nothing yet"
    assert [mail.message_id for mail in (await urgent_inbox(later)).urgent] == [sent]
    bridge.cancelled("3")
    last = begun(bridge, 4)
    assert [mail.message_id for mail in (await urgent_inbox(last)).urgent] == [sent]
    bridge.answered("4")
    await begun(bridge, 5).ask("get_me")
    assert hub.state(sent) == "delivered"


def test_a_cancelled_answer_on_its_way_is_not_confirmed_by_the_next_call(hub: Hub, pair: tuple[str, str]) -> None:
    """A real process: the cancellation and the next call follow the answer directly."""
    sent = urgent_for(hub, pair)
    words = ["tocsin", "--url", hub.url, "--data", str(hub.data), "--as", pair[1], "mcp"]
    with subprocess.Popen(  # noqa: S603
        stand_in(words, MCP), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:

        def say(*messages: dict[str, Any]) -> None:
            assert process.stdin is not None
            process.stdin.write("".join(json.dumps({"jsonrpc": "2.0", **message}) + "\n" for message in messages))
            process.stdin.flush()

        def urgent_in(number: int) -> list[str]:
            assert process.stdout is not None
            while (answer := json.loads(process.stdout.readline())).get("id") != number:
                pass
            return [mail["message_id"] for mail in whole(answer["result"]["structuredContent"])["inbox"]["urgent"]]

        def call(number: int) -> dict[str, Any]:
            return {"id": number, "method": "tools/call", "params": {"name": "get_me", "arguments": {}}}

        client = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
        say({"id": 0, "method": "initialize", "params": client}, {"method": "notifications/initialized"}, call(1))
        assert urgent_in(1) == [sent]
        say({"method": "notifications/cancelled", "params": {"requestId": 1}}, call(2))
        assert urgent_in(2) == [sent]
        assert hub.state(sent) == "offered"
        say(call(3))
        assert urgent_in(3) == []
        assert hub.state(sent) == "delivered"
        assert process.stdin is not None
        process.stdin.close()


async def test_a_call_confirms_what_had_left_before_it_came(hub: Hub, pair: tuple[str, str]) -> None:
    bridge, sent = bridge_of(hub, pair[1]), urgent_for(hub, pair)
    carrying, beside = (begun(bridge, number) for number in (1, 2))
    assert len((await urgent_inbox(carrying)).urgent) == 1
    bridge.answered("1")
    await beside.ask("get_me")
    assert hub.state(sent) == "offered", "this call came before the answer had left"
    listing = begun(bridge, 3, "tools/list")
    await listing.ask("get_me")
    assert hub.state(sent) == "offered", "this is not the agent's doing"
    await begun(bridge, 4).ask("get_me")
    assert hub.state(sent) == "delivered"


async def test_a_receipt_that_did_not_get_through_is_not_forgotten(hub: Hub, pair: tuple[str, str]) -> None:
    away = threading.Event()
    bridge, sent = bridge_of(hub, pair[1], away.is_set), urgent_for(hub, pair)
    await urgent_inbox(begun(bridge, 1))
    bridge.answered("1")
    away.set()
    with pytest.raises(TocsinError):
        await begun(bridge, 2).ask("get_me")
    away.clear()
    await begun(bridge, 3).ask("get_me")
    assert hub.state(sent) == "delivered"


async def test_messages_nested_as_deeply_as_the_hub_takes_are_shown(hub: Hub, pair: tuple[str, str]) -> None:
    taken = 0
    async with async_client(headers={"Authorization": f"Bearer {hub.token(pair[0])}"}) as http:
        for depth in (10, 60, *range(80, 160, 4)):
            deep = envelope(f"msg_{pair[0]}_{depth}", *pair, sender_type="AdHoc", payload={"x": "DEEP"})
            body = json.dumps(deep).replace('"DEEP"', '{"x":' * depth + "1" + "}" * depth)
            taken += (await http.post(hub.url + "/v1/messages", content=body)).status_code == 200
    assert taken > 10
    async with over_stdio(hub, pair[1]) as bob:
        shown = []
        while mail := (await bob.do("fetch_inbox"))["messages"]:
            shown += mail
        assert len(shown) == taken
        assert (await bob.do("search_messages", q="x", limit=5))["items"] is not None


async def test_a_client_that_presents_no_token_is_refused_over_http(hub: Hub) -> None:
    async with async_client() as http:
        answer = await http.post(hub.url + "/mcp", json={})
    assert (answer.status_code, answer.json()["code"]) == (401, "E_AUTH_001")


def test_a_missing_token_file_is_named_by_the_log_and_by_the_tools(hub: Hub, tmp_path: Path) -> None:
    call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "get_me", "arguments": {}}}
    hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize"}
    hello["params"] = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TOCSIN_")}
    with subprocess.Popen(  # noqa: S603
        [*stand_in(["tocsin"], MCP), "--url", hub.url, "--data", str(tmp_path), "--as", "ghost", "mcp"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        cwd=tmp_path,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("\n".join(map(json.dumps, (hello, ready, call))) + "\n")
        process.stdin.flush()
        answer: dict[str, Any] = {}
        while answer.get("id") != 2:
            answer = json.loads(process.stdout.readline())
        _, log = process.communicate(timeout=30)
    missing = f"no token is saved for ghost in {tmp_path / 'tokens'}"
    assert missing in json.dumps(answer)
    assert missing in log
