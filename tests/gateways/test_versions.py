"""Replies in the version of the caller, and the codes that the catalogue has for receivers and correlation ids."""

from pathlib import Path
from typing import Any

import pytest

from tests.envelopes import envelope
from tests.gateways.hubs import HubTeam, registered_team
from tests.gateways.websocket.sockets import socket_team


async def _old(team: HubTeam, agent: str, kind: str = "Manager") -> None:
    team.join(agent)
    assert (await team.put(agent, "/v1/me", {"type": kind, "versions": ["1.0.0"]})).json()["version"] == "1.0.0"


def _letter(number: int, sender: str, receiver: str, **changes: Any) -> dict[str, Any]:
    return envelope(number, sender, receiver, messageType="CUSTOM_NOTE", **changes)


async def test_a_first_version_caller_reads_its_own_names(tmp_path: Path) -> None:
    async with registered_team(tmp_path) as team:
        await _old(team, "olga")
        await _old(team, "otto")
        sent = await team.post("olga", "/v1/messages", _letter(1, "olga", "otto", version="1.0.0", priority="HIGH"))
        receipt = sent.json()["receipt"]
        assert (receipt["priority"], receipt["requested_priority"]) == ("HIGH", "HIGH")

        async def seen(agent: str) -> tuple[str, str, str]:
            record = (await team.get(agent, "/v1/messages/msg_1_x")).json()[0]
            return record["state"], record["priority"], record["level"]

        assert await seen("olga") == ("PENDING", "HIGH", "HIGH")
        assert await seen("boss") == ("queued", "Blocking", "Blocking")
        cursor = (await team.post("otto", "/v1/inbox/drain")).json()["cursor"]
        assert await seen("olga") == ("IN_TRANSIT", "HIGH", "HIGH")
        await team.get("otto", "/v1/me", headers={"Tocsin-Receipt": cursor})
        assert await seen("olga") == ("DELIVERED", "HIGH", "HIGH")
        acked = (await team.post("otto", "/v1/messages/msg_1_x/ack", {"status": "processed"})).json()
        assert acked["state"] == "PROCESSED"
        history = (await team.get("olga", "/v1/messages/msg_1_x/history")).json()[0]
        assert history["message"]["state"] == "PROCESSED"
        await team.post("olga", "/v1/messages", _letter(2, "olga", "otto", version="1.0.0", priority="LOW"))
        await team.post("otto", "/v1/inbox/drain")
        rejected = await team.post("otto", "/v1/messages/msg_2_x/nack", {"reason": "no"})
        assert rejected.json()["state"] == "FAILED"
        (dead,) = (await team.get("olga", "/v1/dead-letters")).json()["items"]
        assert (dead["message"]["state"], dead["message"]["priority"]) == ("FAILED", "LOW")
        listed = (await team.get("olga", "/v1/messages?sender=olga")).json()["items"]
        assert {row["state"] for row in listed} == {"PROCESSED", "FAILED"}


async def test_a_delivered_message_that_awaits_an_ack_is_in_transit(tmp_path: Path) -> None:
    async with registered_team(tmp_path) as team:
        await _old(team, "olga")
        await _old(team, "otto", "Implementation")
        report = {"errorType": "TaskFailure", "errorMessage": "it does not build", "severity": "high"}
        parts: dict[str, Any] = {"version": "1.0.0", "messageType": "ERROR_REPORT", "priority": "HIGH"}
        letter = envelope(1, "otto", "olga", sender_type="Implementation", payload=report, **parts)
        sent = await team.post("otto", "/v1/messages", letter)
        assert sent.status_code == 200, sent.text
        cursor = (await team.post("olga", "/v1/inbox/drain")).json()["cursor"]
        await team.get("olga", "/v1/me", headers={"Tocsin-Receipt": cursor})
        assert (await team.get("otto", "/v1/messages/msg_1_x")).json()[0]["state"] == "IN_TRANSIT"
        assert (await team.get("boss", "/v1/messages/msg_1_x")).json()[0]["state"] == "delivered"
        await team.post("olga", "/v1/messages/msg_1_x/ack", {})
        assert (await team.get("otto", "/v1/messages/msg_1_x")).json()[0]["state"] == "DELIVERED"


async def test_receipts_over_a_socket_are_in_the_callers_version(tmp_path: Path) -> None:
    async with socket_team(tmp_path) as team:
        team.join("olga")
        olga = await team.open("olga")
        await olga.hello(type="Manager", versions=["1.0.0"])
        letter = _letter(1, "olga", "ada", version="1.0.0", priority="NORMAL")
        receipt = (await olga.ok("send_message", envelope=letter))["receipt"]
        assert (receipt["priority"], receipt["requested_priority"]) == ("NORMAL", "NORMAL")


async def test_a_partial_broadcast_names_its_code(tmp_path: Path) -> None:
    async with registered_team(tmp_path, policy="limits: {mailbox_depth_max: 2}") as team:
        await team.register("full")
        for number in range(2):
            await team.post("boss", "/v1/messages", envelope(number, "boss", "full"))
        sent = await team.post("boss", "/v1/messages", envelope(9, "boss", "*"))
        assert (sent.status_code, sent.json()["code"]) == (207, "E_ROUTING_004")
        assert set(sent.json()["failed"]) == {"full"}
        whole = await team.post("boss", "/v1/messages", envelope(10, "boss", "ada"))
        assert "code" not in whole.json()


@pytest.mark.parametrize(
    ("changes", "code", "field"),
    [
        ({"receiver": {"agentId": "", "type": "*"}}, "E_ROUTING_002", "$.receiver.agentId"),
        ({"receiver": {}}, "E_ROUTING_002", "$.receiver.agentId"),
        ({"receiver": {"agentId": "a b", "type": "*"}}, "E_ROUTING_002", "$.receiver.agentId"),
        ({"correlationId": ""}, "E_PROTOCOL_003", "$.correlationId"),
        ({"correlationId": "no spaces"}, "E_PROTOCOL_003", "$.correlationId"),
        ({"correlationId": "x" * 129}, "E_PROTOCOL_003", "$.correlationId"),
    ],
)
async def test_an_invalid_receiver_or_correlation_has_its_own_code(
    tmp_path: Path, changes: dict[str, Any], code: str, field: str
) -> None:
    async with registered_team(tmp_path) as team:
        problem = (await team.post("ada", "/v1/messages", envelope(1) | changes)).json()
        assert (problem["code"], problem["field"]) == (code, field)
