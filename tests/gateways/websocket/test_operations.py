"""Every operation over a real socket: requests, answers and refusals."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.envelopes import envelope
from tests.gateways.websocket.sockets import SocketTeam, socket_team
from tocsin.wire.signatures import Signer


async def test_a_message_goes_from_socket_to_socket(team: SocketTeam) -> None:
    ada, bob = await team.attach("ada"), await team.attach("bob", window=8)
    receipt = await ada.send(1)
    assert (receipt["delivered"], receipt["publish_path"], receipt["durability"]) == (
        True,
        "pushed_to_ws",
        "flushed",
    )
    push = await bob.pushes.get()
    assert push["signal_id"] == "msg_1_x"
    assert push["session"] == bob.welcome["session"]
    assert push["offer"] == 1
    assert push["envelope"]["payload"] == envelope(1)["payload"]
    assert await bob.confirm("msg_1_x") == {"confirmed": 1, "unknown": []}


async def test_hello_says_what_holds_on_this_socket(team: SocketTeam) -> None:
    bob = await team.attach("bob", window=8)
    assert bob.welcome["session"].startswith("ses_")
    del bob.welcome["session"]
    assert bob.welcome == {
        "agent": "bob",
        "resumed": False,
        "version": "1.1.0",
        "window": 8,
        "heartbeat_s": 20.0,
        "batch_max": 256,
        "frame_bytes_max": 4194304,
        "message_bytes_max": 1048576,
        "in_flight_max": 1024,
        "waiting": [0, 0, 0, 0, 0],
    }
    assert bob.socket.subprotocol == "tocsin.v1"
    assert (await team.attach("bob")).welcome["window"] == 32, "the policy's default"


async def test_hello_registers_where_it_is_asked_to(team: SocketTeam) -> None:
    team.join("newcomer")
    client = await team.open("newcomer")
    assert (await client.refused("hello"))["code"] == "E_AUTH_007"
    welcome = await client.hello(type="Tester", versions=["1.0.0"], capabilities=["StatusUpdate"])
    assert welcome["version"] == "1.0.0"
    known = team.hub.host.exchange.state.agents["newcomer"]
    assert (known.agent_type, known.role, known.capabilities) == ("Tester", "primary", ("StatusUpdate",))


async def test_hello_comes_first_and_once(team: SocketTeam) -> None:
    client = await team.open("ada")
    for op, fields in (
        ("send_message", {"envelope": envelope(1)}),
        ("confirm_messages", {"message_ids": []}),
        ("ping", {}),
        ("credit", {"window": 1}),
        ("call", {"operation": "get_me"}),
        ("bye", {}),
    ):
        assert (await client.refused(op, **fields))["code"] == "E_STATE_003", op
    await client.hello()
    assert (await client.refused("hello"))["code"] == "E_STATE_002"
    assert (await client.send(1))["message_id"] == "msg_1_x"


async def test_a_bad_hello_can_be_said_again(team: SocketTeam) -> None:
    client = await team.open("ada")
    problem = await client.refused("hello", window=-1)
    assert (problem["code"], problem["field"]) == ("E_VALIDATION_004", "$.window")
    assert (await client.refused("hello", type="two words"))["code"] == "E_VALIDATION_004"
    assert (await client.refused("hello", type="X", versions=["9.0.0"]))["code"] == "E_PROTOCOL_001"
    await client.hello(window=1)


async def test_the_first_frame_may_hold_more_than_hello(team: SocketTeam) -> None:
    await team.attach("bob")
    ada = await team.open("ada")
    answers = await ada.ask({"op": "hello"}, {"op": "send_message", "envelope": envelope(1)})
    assert [next(iter(answer.keys() - {"re"})) for answer in answers] == ["ok", "ok"]


async def test_the_operations_of_a_frame_share_a_commit_and_a_frame(tmp_path: Path) -> None:
    async with socket_team(tmp_path, socket={"turn_operations_max": 32}) as team:
        ada, bob = await team.attach("ada"), await team.attach("bob", window=100)
        before = team.hub.metrics.totals.copy()
        frames = len(ada.frames)
        answers = await ada.ask(*[{"op": "send_message", "envelope": envelope(number)} for number in range(32)])
        assert [answer["ok"]["receipt"]["message_id"] for answer in answers] == [f"msg_{n}_x" for n in range(32)]
        assert len(ada.frames) == frames + 1
        assert await bob.take(32) == [f"msg_{number}_x" for number in range(32)]
        assert len(bob.frames) <= 1 + 2, "the welcome, and pushes of at most two commits"
        await team.get("ada", "/v1/policy")
        assert team.hub.metrics.totals["MessageAccepted"] - before.get("MessageAccepted", 0) == 32


async def test_a_frame_larger_than_a_turn_is_decided_in_order_over_several(tmp_path: Path) -> None:
    async with socket_team(tmp_path, socket={"turn_operations_max": 3}) as team:
        ada, bob = await team.attach("ada"), await team.attach("bob", window=100)
        answers = await ada.ask(*[{"op": "send_message", "envelope": envelope(number)} for number in range(50)])
        assert all("ok" in answer for answer in answers)
        assert await bob.take(50) == [f"msg_{number}_x" for number in range(50)]


async def test_frames_behind_one_that_waits_for_its_turn_are_decided_in_order(tmp_path: Path) -> None:
    async with socket_team(tmp_path, socket={"turn_operations_max": 1}) as team:
        ada = await team.attach("ada")
        answers = []
        for number in range(12):
            text, futures = ada.numbered({"op": "send_message", "envelope": envelope(number)})
            answers += futures
            await ada.raw(text)
        async with asyncio.timeout(10):
            await asyncio.gather(*answers)
        sent = [message.message_id for message in team.hub.host.exchange.state.messages.values()]
        assert sent == [f"msg_{number}_x" for number in range(12)]


async def test_settling(team: SocketTeam) -> None:
    ada, bob = await team.attach("ada"), await team.attach("bob", window=100)
    for number in range(5):
        await ada.send(number)
    await bob.take(5)
    assert await bob.ok("acknowledge_message", message_id="msg_0_x", notes="seen") == {
        "signal_id": "msg_0_x",
        "state": "acknowledged",
        "duplicate": False,
    }
    assert (await bob.ok("acknowledge_message", message_id="msg_1_x", status="processed"))["state"] == "processed"
    nacked = await bob.ok("reject_message", message_id="msg_2_x", reason="busy", can_retry=False, code="E_TASK_003")
    assert (nacked["signal_id"], nacked["state"]) == ("msg_2_x", "dead")
    assert await bob.ok("mark_processed", message_id="msg_3_x") == {}
    assert (await bob.refused("reject_message", message_id="msg_3_x", reason="late"))["code"] == "E_STATE_002"
    assert (await bob.refused("acknowledge_message", message_id="msg_9_x"))["code"] == "E_STATE_001"
    assert (await ada.refused("acknowledge_message", message_id="msg_4_x"))["code"] == "E_STATE_001", (
        "not its recipient"
    )


async def test_a_confirmation_without_an_id_has_no_answer(team: SocketTeam) -> None:
    ada, bob = await team.attach("ada"), await team.attach("bob")
    await ada.send(1)
    await bob.take()
    await bob.raw('[{"op": "confirm_messages", "message_ids": ["msg_1_x", "msg_7_x"]}]')
    await bob.ok("ping")
    assert bob.loose.empty()
    assert (await ada.ok("recall_message", message_id="msg_1_x"))["outcome"] == "already_delivered"
    assert team.hub.host.exchange.state.messages[team.hub.host.exchange.state.ids["msg_1_x"]].state == "delivered"


async def test_recall(team: SocketTeam) -> None:
    ada = await team.attach("ada")
    await ada.send(1)
    assert await ada.ok("recall_message", message_id="msg_1_x") == {
        "outcome": "recalled",
        "outcomes": {"bob": "recalled"},
    }
    assert (await ada.ok("recall_message", message_id="msg_8_x"))["outcome"] == "not_found"


async def test_ping_says_what_waits_by_priority(team: SocketTeam) -> None:
    ada, bob = await team.attach("ada"), await team.attach("bob", window=1)
    for number, priority in enumerate(["Info", "Info", "Coordinate", "Critical"]):
        await ada.send(number, priority=priority)
    assert await bob.ok("ping") == {"waiting": [1, 1, 0, 1, 0]}


async def test_a_broadcast_and_a_duplicate_answer_as_http_does(team: SocketTeam) -> None:
    ada = await team.attach("ada")
    everyone = envelope(1, receiver="*")
    sent = await ada.ok("send_message", envelope=everyone)
    assert sorted(receipt["recipient"] for receipt in sent["receipts"]) == ["bob", "boss"]
    first, again = await ada.send(2), await ada.send(2)
    assert (first["duplicate"], again["duplicate"]) == (False, True)
    over_http = (await team.post("ada", "/v1/messages", envelope(2))).json()["receipt"]
    assert over_http == again
    assert (await ada.refused("send_message", envelope=envelope(2, payload={"other": 1})))["code"] == "E_ADMISSION_007"


async def test_a_refused_send_is_the_problem_document_of_http(team: SocketTeam) -> None:
    ada = await team.attach("ada")
    for bad in (
        envelope(1, sender="bob"),
        envelope(2, receiver="nobody"),
        envelope(3, version="9.0.0"),
        envelope(4, messageType=7),
        {"no": "envelope"},
        envelope(5, messageType="ACK", payload={}),
    ):
        over_http = (await team.post("ada", "/v1/messages", bad)).json()
        assert await ada.refused("send_message", envelope=bad) == over_http
    assert (await ada.refused("send_message", envelope=envelope(1, sender="bob")))["code"] == "E_AUTH_002"


async def test_signatures(tmp_path: Path) -> None:
    async with socket_team(tmp_path, policy="security: {require_signatures: true}") as team:
        ada = await team.attach("ada")
        body = json.dumps(envelope(1))
        signature = Signer(team.tokens["ada"]).sign(body.encode())
        assert (await ada.refused("send_message", envelope=envelope(1)))["code"] == "E_AUTH_006"
        await ada.raw(f'[{{"op": "send_message", "id": 77, "envelope": {body}, "signature": "{signature}"}}]')
        assert (await ada.loose.get())["ok"]["receipt"]["message_id"] == "msg_1_x"
        await ada.raw(f'[{{"op": "send_message", "id": 78, "envelope": {{ {body[1:]}, "signature": "{signature}"}}]')
        assert (await ada.loose.get())["problem"]["code"] == "E_AUTH_006", "the bytes are others"


async def test_calls_answer_what_http_answers(team: SocketTeam) -> None:
    ada = await team.attach("ada")
    await ada.send(1, correlationId="req_1")
    while not (await team.get("ada", "/v1/search?q=number")).json()["items"]:
        """The index follows shortly."""
    for operation, arguments, address in (
        ("get_me", {}, "/v1/me"),
        ("list_agents", {}, "/v1/agents"),
        ("get_agent", {"agent": "bob"}, "/v1/agents/bob"),
        ("get_message", {"message_id": "msg_1_x"}, "/v1/messages/msg_1_x"),
        ("trace_message", {"message_id": "msg_1_x", "fresh": True}, "/v1/messages/msg_1_x/history?fresh=true"),
        ("list_thread", {"correlation_id": "req_1", "limit": 5}, "/v1/threads/req_1?limit=5"),
        ("search_messages", {"q": "number"}, "/v1/search?q=number"),
        ("list_dead_letters", {}, "/v1/dead-letters"),
        ("get_policy", {}, "/v1/policy"),
    ):
        over_http = (await team.get("ada", address)).json()
        assert await ada.ok("call", operation=operation, arguments=arguments) == over_http, operation
    wrong = {"policy": {"aging": {"threshold_s": -1}}}
    checked = await ada.ok("call", operation="check_policy", arguments=wrong)
    assert checked["valid"] is False


async def test_a_call_carries_an_envelope_where_http_takes_one(team: SocketTeam) -> None:
    ada, bob = await team.attach("ada"), await team.attach("bob")
    await bob.ok("call", operation="subscribe_topic", arguments={"topic": "builds"})
    wanted = {"operation": "publish_topic", "arguments": {"topic": "builds"}}
    news = envelope(1, receiver="*")
    published = await ada.ok("call", **wanted, envelope=news)
    assert [receipt["recipient"] for receipt in published["receipts"]] == ["bob"]
    assert (await ada.refused("call", **wanted))["field"] == "$.envelope"
    assert (await ada.refused("call", **wanted, envelope=news, signature="v1=00"))["code"] == "E_AUTH_006"


@pytest.mark.parametrize(
    ("op", "fields", "field", "expected"),
    [
        ("nack", {"message_id": "msg_1_x", "reason": "no"}, "$.op", "now called reject_message"),
        ("ack", {"message_id": "msg_1_x"}, "$.op", "now called acknowledge_message"),
        ("send", {"envelope": {}}, "$.op", "now called send_message"),
        ("hello", {"agent_type": "Manager"}, "$.agent_type", "type"),
        ("hello", {"supported": ["1.1.0"]}, "$.supported", "versions"),
        ("reject_message", {"message_id": "msg_1_x", "reson": "no"}, "$.reson", "reason"),
        ("call", {"operation": "register_agent", "arguments": {"agent_type": "Manager"}}, "$.agent_type", "type"),
        ("call", {"operation": "find_messages", "arguments": {"message_type": "Alert"}}, "$.message_type", "type"),
        ("call", {"operation": "fetch_inbx"}, "$.operation", "did you mean 'fetch_inbox'?"),
    ],
    ids=str,
)
async def test_an_old_or_unknown_name_is_refused_with_the_known_one(
    team: SocketTeam, op: str, fields: dict[str, Any], field: str, expected: str
) -> None:
    ada = await team.attach("ada")
    problem = await ada.refused(op, **fields)
    assert (problem["field"], problem["expected"]) == (field, expected)
    assert expected in problem["detail"]


async def test_calls_are_refused_as_http_refuses(team: SocketTeam) -> None:
    ada = await team.attach("ada")
    assert (await ada.refused("call", operation="get_agent", arguments={"agent": "nobody"}))["code"] == "E_ROUTING_001"
    assert (await ada.refused("call", operation="get_agent"))["field"] == "$.agent"
    assert (await ada.refused("call", operation="list_tokens"))["code"] == "E_AUTH_003"
    assert (await ada.refused("call", operation="redrive_dead_letters", arguments={}))["code"] == "E_VALIDATION_001"
    wrong = {"correlation_id": "x", "limit": "many"}
    assert (await ada.refused("call", operation="list_thread", arguments=wrong))["code"] == "E_VALIDATION_002"
    unknown = await ada.refused("call", operation="list_thread", arguments={"correlation_id": "x", "limt": 1})
    assert (unknown["code"], unknown["expected"]) == ("E_VALIDATION_004", "limit")
    for name in ("send", "drain", "send_messages", "health", "metrics", "describe", "no_such_thing", "__class__"):
        assert (await ada.refused("call", operation=name))["code"] == "E_VALIDATION_003", name
    team.join("root", "human", admin=True)
    root = await team.open("root")
    await root.hello(type="Human")
    assert {row["agent"] for row in (await root.ok("call", operation="list_tokens"))["items"]} >= {"ada", "root"}


async def test_bye_gives_back_what_was_not_confirmed(team: SocketTeam) -> None:
    ada, bob = await team.attach("ada"), await team.attach("bob")
    await ada.send(1)
    await bob.take()
    assert await bob.ok("bye") == {}
    assert await bob.closed() == 1000
    assert bob.bye is None
    again = await team.attach("bob", session=bob.welcome["session"])
    assert not again.welcome["resumed"]
    push = await again.pushes.get()
    assert (push["signal_id"], push["offer"]) == ("msg_1_x", 2)


async def test_credit_pauses_and_resumes_pushing(team: SocketTeam) -> None:
    ada, bob = await team.attach("ada"), await team.attach("bob", window=2)
    assert (await bob.ok("credit", window=0))["window"] == 0
    for number in range(4):
        assert (await ada.send(number))["queued"]
    assert await bob.ok("ping") == {"waiting": [4, 0, 0, 0, 0]}
    assert bob.pushes.empty()
    await bob.raw('[{"op": "credit", "window": 3}]')
    assert await bob.take(3) == ["msg_0_x", "msg_1_x", "msg_2_x"]
    assert await bob.ok("ping") == {"waiting": [1, 0, 0, 0, 0]}
    await bob.confirm("msg_0_x")
    assert await bob.take() == ["msg_3_x"]
    assert (await bob.refused("credit", window=-1))["field"] == "$.window"


async def test_critical_overtakes_what_waits(team: SocketTeam) -> None:
    ada, bob = await team.attach("ada"), await team.attach("bob", window=2)
    for number in range(20):
        await ada.send(number)
    await ada.send(99, priority="Critical", messageType="Blocker", qos={"deliveryClass": "async"})
    assert await bob.take(2) == ["msg_0_x", "msg_1_x"]
    await bob.confirm("msg_0_x")
    assert await bob.take() == ["msg_99_x"]


async def test_metrics_count_what_went_over_sockets(team: SocketTeam) -> None:
    ada, bob = await team.attach("ada"), await team.attach("bob")
    await ada.send(1)
    await ada.refused("send_message", envelope=envelope(2, receiver="nobody"))
    await ada.raw("[7]")
    await ada.loose.get()
    await bob.take()
    text = (await team.get("ada", "/metrics")).text
    for line in (
        "socket_connections 2.0",
        "socket_bytes_queued 0.0",
        'socket_operations_total{op="send_message"} 2.0',
        'socket_operations_total{op="hello"} 2.0',
        'socket_operations_total{op="unreadable"} 1.0',
        'socket_problems_total{code="E_ROUTING_001"} 1.0',
        "socket_pushes_total 1.0",
    ):
        assert line in text, line
