"""Coordination over HTTP, through the real application: attention, patterns, approvals, escalations."""

import asyncio
from pathlib import Path

from tests.envelopes import envelope
from tests.gateways.hubs import QUICK, registered_team


async def test_work_is_put_aside_for_what_is_urgent_and_comes_back(tmp_path: Path) -> None:
    async with registered_team(tmp_path) as team:
        await team.post("boss", "/v1/messages", envelope(1, "boss", priority="Coordinate"))
        await team.post("bob", "/v1/inbox/drain", {})
        begun = await team.post("bob", "/v1/attention/begin", {"message_id": "msg_1_x"})
        assert begun.json()["status"] == "processing"
        await team.post("boss", "/v1/messages", envelope(2, "boss", priority="Critical"))
        paused = await team.post("bob", "/v1/attention/pause-point")
        assert paused.json()["interrupted_by"] == "msg_2_x"
        aside = await team.post("bob", "/v1/attention/aside", {"saved": "line 42: ü"})
        assert aside.json()["aside"] == ["msg_1_x"]
        assert (await team.get("bob", "/v1/attention")).json()["status"] == "idle"
        drained = (await team.post("bob", "/v1/inbox/drain", {})).json()["deliveries"]
        assert [item["signal_id"] for item in drained] == ["msg_2_x"]
        await team.post("bob", "/v1/attention/begin", {"message_id": "msg_2_x"})
        await team.post("bob", "/v1/attention/finish")
        resumed = (await team.post("bob", "/v1/attention/resume")).json()
        assert (resumed["message_id"], resumed["saved"], resumed["duplicate"]) == ("msg_1_x", "line 42: ü", False)
        assert (await team.post("bob", "/v1/attention/finish")).json()["status"] == "idle"
        refused = await team.post("bob", "/v1/attention/finish")
        assert (refused.status_code, refused.json()["code"]) == (409, "E_STATE_002")


async def test_a_request_is_answered(tmp_path: Path) -> None:
    async with registered_team(tmp_path) as team:
        question = envelope(1, correlationId="req_1", messageType="CUSTOM_QUESTION")
        asked = await team.post("ada", "/v1/requests?timeout_s=60&boost_on_timeout=true", question)
        assert asked.status_code == 200
        assert asked.json()["receipt"]["recipient"] == "bob"
        assert [row["responder"] for row in (await team.get("bob", "/v1/requests")).json()["items"]] == ["bob"]
        await team.post("bob", "/v1/inbox/drain", {})
        answer = envelope(2, "bob", "ada", correlationId="req_1", messageType="CUSTOM_ANSWER")
        assert (await team.post("bob", "/v1/messages", answer)).status_code == 200
        assert (await team.get("ada", "/v1/requests")).json()["items"] == []
        gone = await team.post("ada", "/v1/requests/msg_1_x/cancel")
        assert gone.status_code == 404


async def test_a_request_nobody_answers_reaches_a_human_who_resolves_it(tmp_path: Path) -> None:
    policy = QUICK + "\nescalation: {director_s: 0.05}"
    async with registered_team(tmp_path, policy=policy) as team:
        await team.register("mensch", "human")
        question = envelope(1, correlationId="req_1", messageType="CUSTOM_QUESTION")
        await team.post("ada", "/v1/requests?timeout_s=0.05", question)
        while True:
            rows = (await team.get("mensch", "/v1/escalations")).json()["items"]
            if rows and rows[0]["state"] == "human_escalation":
                break
        inbox = (await team.post("mensch", "/v1/inbox/drain", {})).json()["deliveries"]
        assert inbox[0]["envelope"]["payload"]["context"]["escalation"] == rows[0]["escalation"]
        assert (await team.get("ada", "/v1/escalations")).status_code == 403
        path = f"/v1/escalations/{rows[0]['escalation']}/resolve"
        resolved = await team.post("mensch", path, {"resolution": "asked bob in person"})
        assert resolved.json()["state"] == "normal"
        (row,) = (await team.get("boss", "/v1/escalations?closed=true")).json()["items"]
        assert (row["resolved_by"], row["resolution"]) == ("mensch", "asked bob in person")
        assert [step["state"] for step in row["steps"]][-2:] == ["human_intervention", "normal"]


async def test_an_escalation_names_the_resource_or_the_message_that_it_is_about(tmp_path: Path) -> None:
    rule = "{trigger: dependency_blocked, level: Coordinate, after_s: 0.05, actions: [notify_director]}"
    policy = QUICK + f"\nescalation: {{rules: {{coordinate_blocks: {rule}}}}}"
    async with registered_team(tmp_path, policy=policy) as team:
        await team.post("ada", "/v1/leases", {"exclusive": ["src/parser.py"]})
        await team.post("bob", "/v1/leases", {"exclusive": ["src/*.py"], "priority": "Coordinate"})
        while not (rows := (await team.get("boss", "/v1/escalations")).json()["items"]):
            await asyncio.sleep(0.01)
        assert [(row["trigger"], row["about"]) for row in rows] == [("dependency_blocked", "src/*.py")]
        assert "bob has waited for ada (src/*.py) longer than 0.05 s" in rows[0]["detail"]
        question = envelope(1, "boss", correlationId="req_1", messageType="CUSTOM_QUESTION", payload={"text": "ready?"})
        await team.post("boss", "/v1/requests?timeout_s=0.01", question)
        while len(rows := (await team.get("boss", "/v1/escalations")).json()["items"]) < 2:
            await asyncio.sleep(0.01)
        assert rows[1]["about"] == "CUSTOM_QUESTION from boss to bob: ready?"


async def test_a_topic_reaches_its_subscribers(tmp_path: Path) -> None:
    async with registered_team(tmp_path) as team:
        assert (await team.post("bob", "/v1/topics/subscribe", {"topic": "build/main"})).json() == {
            "topics": ["build/main"]
        }
        published = await team.post("ada", "/v1/topics/publish?topic=build/main", envelope(1, receiver="*"))
        assert [row["recipient"] for row in published.json()["receipts"]] == ["bob"]
        (row,) = (await team.get("ada", "/v1/topics")).json()["items"]
        assert row == {"topic": "build/main", "subscribers": 1, "subscribed": False}
        await team.post("bob", "/v1/topics/unsubscribe", {"topic": "build/main"})
        again = await team.post("ada", "/v1/topics/publish?topic=build/main", envelope(2, receiver="*"))
        assert again.json()["receipts"] == []


async def test_a_discussion_ends_in_consensus(tmp_path: Path) -> None:
    async with registered_team(tmp_path) as team:
        body = {"question": "tabs or spaces?", "participants": ["ada", "bob"], "options": ["tabs", "spaces"]}
        opened = (await team.post("boss", "/v1/discussions", body)).json()
        place = f"/v1/discussions/{opened['discussion']}"
        assert (await team.post("ada", place + "/speak", {"text": "spaces"})).status_code == 200
        await team.post("ada", place + "/vote", {"option": "spaces"})
        (row,) = (await team.get("bob", "/v1/discussions")).json()["items"]
        assert row["votes"] == {"ada": "spaces"}
        ended = (await team.post("bob", place + "/vote", {"option": "spaces"})).json()
        assert (ended["state"], ended["option"]) == ("consensus", "spaces")
        assert (await team.post("bob", place + "/cancel")).status_code == 404


async def test_a_plan_is_held_until_a_director_changes_it(tmp_path: Path) -> None:
    async with registered_team(tmp_path) as team:
        plan = envelope(1, messageType="CUSTOM_PLAN")
        sent = (await team.post("ada", "/v1/messages", plan)).json()["receipt"]
        assert (sent["held"], sent["queued"]) == (True, False)
        assert (await team.post("bob", "/v1/inbox/drain", {})).json()["deliveries"] == []
        (row,) = (await team.get("ada", "/v1/approvals")).json()["items"]
        assert (await team.get("bob", "/v1/approvals")).json()["items"] == []
        path = f"/v1/approvals/{row['approval']}/decide"
        assert (await team.post("ada", path, {"verdict": "approve"})).status_code == 403
        decided = await team.post("boss", path, {"verdict": "approve", "payload": {"text": "less"}})
        assert decided.json()["outcome"] == "changed"
        (item,) = (await team.post("bob", "/v1/inbox/drain", {})).json()["deliveries"]
        assert item["envelope"]["payload"] == {"text": "less"}
        asked = await team.post("ada", "/v1/approvals", {"handoff": "pre_merge_review", "subject": "branch x"})
        assert (await team.post("ada", f"/v1/approvals/{asked.json()['approval']}/withdraw")).status_code == 200


async def test_what_nobody_in_the_project_could_decide_is_shown_as_escalated_and_may_be_decided(tmp_path: Path) -> None:
    async with registered_team(tmp_path) as team:
        assert (await team.call("DELETE", "boss", "/v1/agents/boss")).status_code == 200
        asked = await team.post("ada", "/v1/approvals", {"handoff": "plan_approval", "subject": "a plan"})
        (row,) = (await team.get("ada", "/v1/approvals")).json()["items"]
        assert row["due_at"] is None
        drained = (await team.post("ada", "/v1/inbox/drain", {})).json()["deliveries"]
        assert [item["envelope"]["messageType"] for item in drained] == ["ApprovalOverdue"]
        path = f"/v1/approvals/{asked.json()['approval']}/decide"
        assert (await team.post("boss", path, {"verdict": "approve"})).json()["outcome"] == "approved"


async def test_a_changed_payload_survives_a_restart(tmp_path: Path) -> None:
    async with registered_team(tmp_path) as team:
        await team.post("ada", "/v1/messages", envelope(1, messageType="CUSTOM_PLAN"))
        (row,) = (await team.get("boss", "/v1/approvals")).json()["items"]
        decided = {"verdict": "approve", "payload": {"text": "less"}}
        await team.post("boss", f"/v1/approvals/{row['approval']}/decide", decided)
    async with registered_team(tmp_path) as team:
        (item,) = (await team.post("bob", "/v1/inbox/drain", {})).json()["deliveries"]
        assert item["envelope"]["payload"] == {"text": "less"}


async def test_a_director_brings_an_escalation_before_a_human_at_once(tmp_path: Path) -> None:
    async with registered_team(tmp_path) as team:
        await team.register("mensch", "human")
        question = envelope(1, correlationId="req_1", messageType="CUSTOM_QUESTION")
        await team.post("ada", "/v1/requests?timeout_s=0.01", question)
        while not (rows := (await team.get("boss", "/v1/escalations")).json()["items"]):
            await asyncio.sleep(0.01)
        path = f"/v1/escalations/{rows[0]['escalation']}/human"
        assert (await team.post("ada", path, {})).status_code == 403
        raised = await team.post("boss", path, {"reason": "who knows bob?"})
        assert raised.json() == {"escalation": rows[0]["escalation"], "state": "human_escalation"}
        (delivery,) = (await team.post("mensch", "/v1/inbox/drain", {})).json()["deliveries"]
        assert delivery["envelope"]["payload"]["context"]["escalation"] == rows[0]["escalation"]
        assert (await team.post("boss", "/v1/escalations/esc_none/human", {})).status_code == 404


async def test_a_requester_may_want_no_escalation(tmp_path: Path) -> None:
    async with registered_team(tmp_path) as team:
        question = envelope(1, correlationId="req_1", messageType="CUSTOM_QUESTION")
        await team.post("ada", "/v1/requests?timeout_s=0.01&escalate=false", question)
        while (await team.get("ada", "/v1/requests")).json()["items"]:
            await asyncio.sleep(0.01)
        assert (await team.get("boss", "/v1/escalations?closed=true")).json()["items"] == []
