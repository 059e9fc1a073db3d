"""Sending and receiving over HTTP, in process."""

from pathlib import Path

import msgspec
import pytest

from tests.envelopes import envelope
from tests.gateways.hubs import registered_team
from tocsin.wire.signatures import Signer


async def test_a_receipt_says_how_the_message_is_stored_and_where_its_recipient_is(tmp_path: Path) -> None:
    async with registered_team(tmp_path) as team:
        sent = await team.post("ada", "/v1/messages", envelope(1))
        assert sent.status_code == 200
        receipt = sent.json()["receipt"]
        expected = {
            "queued": True,
            "recipient_state": "not_available_offline",
            "publish_path": "queued_offline",
            "durability": "flushed",
            "copies": 1,
        }
        assert {name: receipt[name] for name in expected} == expected
        assert receipt["expires_at"].endswith("Z")


async def test_a_message_goes_from_send_to_processed(tmp_path: Path) -> None:
    async with registered_team(tmp_path) as team:
        await team.post("ada", "/v1/messages", envelope(1))
        drained = (await team.post("bob", "/v1/inbox/drain")).json()
        assert [item["signal_id"] for item in drained["deliveries"]] == ["msg_1_x"]
        assert drained["deliveries"][0]["envelope"]["payload"] == {"text": "number 1"}
        assert (await team.post("bob", "/v1/messages/msg_1_x/ack", {})).json()["state"] == "acknowledged"
        assert (await team.post("bob", "/v1/messages/msg_1_x/processed")).status_code == 200
        life = (await team.get("ada", "/v1/messages/msg_1_x/history")).json()[0]
        kinds = [happening["kind"] for happening in life["history"]]
        assert kinds == [
            "MessageAccepted",
            "MessageOffered",
            "MessageDelivered",
            "MessageAcknowledged",
            "MessageProcessed",
        ]
        assert life["message"]["state"] == "processed"


async def test_one_session_is_opened_on_demand_and_used_again(tmp_path: Path) -> None:
    async with registered_team(tmp_path) as team:
        assert (await team.get("ada", "/v1/agents/bob")).json()["sessions"] == {}
        for _ in range(3):
            await team.post("bob", "/v1/inbox/drain", {"limit": 5})
        bob = (await team.get("ada", "/v1/agents/bob")).json()
        assert (bob["sessions"], bob["presence"]) == ({"piggyback": 1}, "available")
        receipt = (await team.post("ada", "/v1/messages", envelope(1))).json()["receipt"]
        assert receipt["publish_path"] == "buffered_for_piggyback"


async def test_the_urgent_comes_first_and_an_explicit_receipt_counts(tmp_path: Path) -> None:
    async with registered_team(tmp_path) as team:
        for number, priority in enumerate(("Info", "Critical", "Coordinate")):
            await team.post("ada", "/v1/messages", envelope(number, priority=priority))
        drained = (await team.post("bob", "/v1/inbox/drain", {"limit": 2})).json()
        ids = [item["signal_id"] for item in drained["deliveries"]]
        assert ids == ["msg_1_x", "msg_2_x"]
        assert drained["waiting"]["Info"] == 1
        confirmed = (await team.post("bob", "/v1/inbox/receipts", {"message_ids": ["msg_1_x", "msg_9_x"]})).json()
        assert confirmed["unknown"] == ["msg_9_x"]


async def test_the_sender_is_who_the_token_says(tmp_path: Path) -> None:
    async with registered_team(tmp_path) as team:
        forged = await team.post("bob", "/v1/messages", envelope(1, sender="ada"))
        assert forged.status_code == 403
        assert forged.headers["content-type"] == "application/problem+json"
        assert (forged.json()["error_code"], forged.json()["code"]) == ("sender_mismatch", "E_AUTH_002")


async def test_only_the_sender_recalls_and_only_the_recipient_acknowledges(tmp_path: Path) -> None:
    async with registered_team(tmp_path) as team:
        await team.post("ada", "/v1/messages", envelope(1))
        assert (await team.post("bob", "/v1/messages/msg_1_x/recall")).json()["outcome"] == "not_found"
        assert (await team.post("ada", "/v1/messages/msg_1_x/ack", {})).status_code == 404
        assert (await team.post("ada", "/v1/messages/msg_1_x/recall")).json()["outcome"] == "recalled"
        assert (await team.post("bob", "/v1/inbox/drain")).json()["deliveries"] == []


async def test_refusals_say_what_is_wrong_and_what_would_be_right(tmp_path: Path) -> None:
    async with registered_team(tmp_path) as team:
        unknown = await team.post("ada", "/v1/messages", envelope(1, receiver="nobody"))
        assert (unknown.status_code, unknown.json()["error_code"]) == (404, "unknown_recipient")
        wrong = await team.post("ada", "/v1/messages", envelope(2, priority="URGENT"))
        assert wrong.status_code == 422
        assert wrong.json()["field"] == "$.priority"
        assert "Critical" in wrong.json()["expected"]
        assert (await team.post("ada", "/v1/messages", b"{")).json()["error_code"] == "malformed_json"
        absent = await team.post("ada", "/v1/messages", envelope(3, messageType="Blocker", priority="BLOCKER"))
        assert (absent.status_code, absent.json()["retryable"]) == (409, True)
        assert absent.json()["facts"]["recipient_state"] == "not_available_offline"
        assert (await team.post("ada", "/v1/messages/msg_9_x/nack", {})).json()["field"] == "$.reason"


async def test_a_batch_answers_each_envelope_in_order(tmp_path: Path) -> None:
    async with registered_team(tmp_path) as team:
        batch = [envelope(1), envelope(2, receiver="nobody"), {"not": "one"}, envelope(1)]
        answers = (await team.post("ada", "/v1/messages/batch", batch)).json()
        assert answers[0]["receipt"]["signal_id"] == "msg_1_x"
        assert answers[1]["problem"]["error_code"] == "unknown_recipient"
        assert answers[2]["problem"]["code"] == "E_VALIDATION_001"
        assert answers[3]["receipt"]["duplicate"]


async def test_a_broadcast_that_leaves_someone_out_says_so(tmp_path: Path) -> None:
    async with registered_team(tmp_path) as team:
        await team.post("bob", "/v1/inbox/drain")
        answer = await team.post("ada", "/v1/messages", envelope(1, receiver="*", qos={"deliveryClass": "sync"}))
        assert answer.status_code == 207
        assert [receipt["recipient"] for receipt in answer.json()["receipts"]] == ["bob"]
        assert answer.json()["failed"]["boss"]["error_code"] == "recipient_not_available"


async def test_a_signature_is_checked_when_it_is_there_and_can_be_required(tmp_path: Path) -> None:
    async with registered_team(tmp_path, policy="security: {require_signatures: true}") as team:
        body = msgspec.json.encode(envelope(1))
        unsigned = await team.post("ada", "/v1/messages", body)
        assert (unsigned.status_code, unsigned.json()["error_code"]) == (401, "bad_signature")
        wrong = await team.post("ada", "/v1/messages", body, headers={"Tocsin-Signature": "v1=00"})
        assert wrong.status_code == 401
        signed = await team.post(
            "ada", "/v1/messages", body, headers={"Tocsin-Signature": Signer(team.tokens["ada"]).sign(body)}
        )
        assert signed.status_code == 200


@pytest.mark.parametrize("required", [True, False])
async def test_the_signature_of_a_batch_is_that_of_its_body(tmp_path: Path, required: bool) -> None:
    async with registered_team(tmp_path, policy=f"security: {{require_signatures: {str(required).lower()}}}") as team:
        body = msgspec.json.encode([envelope(1), envelope(2)])
        wrong = await team.post("ada", "/v1/messages/batch", body, headers={"Tocsin-Signature": "v1=00"})
        assert (wrong.status_code, wrong.json()["error_code"]) == (401, "bad_signature")
        unsigned = await team.post("ada", "/v1/messages/batch", body)
        assert unsigned.status_code == (401 if required else 200)
        headers = {"Tocsin-Signature": Signer(team.tokens["ada"]).sign(body)}
        signed = await team.post("ada", "/v1/messages/batch", body, headers=headers)
        assert signed.status_code == 200
        assert [item["receipt"]["message_id"] for item in signed.json()] == ["msg_1_x", "msg_2_x"]
