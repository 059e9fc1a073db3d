"""Operations that the dashboard's pages use besides those of agents: the wait-for graph, and groups of dead letters."""

from pathlib import Path
from typing import Any

from tests.envelopes import envelope
from tests.gateways.hubs import QUICK, HubTeam, registered_team


async def kill(team: HubTeam, number: int, code: str = "E_TASK_001", **changes: Any) -> None:
    """Send a message from ada that bob rejects, so that it becomes a dead letter."""
    sent = await team.post("ada", "/v1/messages", envelope(number, **changes))
    assert sent.status_code in (200, 207), sent.text
    await team.post("bob", "/v1/inbox/drain", {})
    said = {"reason": "no", "code": code, "can_retry": False}
    killed = await team.post("bob", f"/v1/messages/msg_{number}_x/nack", said)
    assert killed.status_code == 200, killed.text


async def test_the_wait_for_graph_and_inherited_priorities(tmp_path: Path) -> None:
    async with registered_team(tmp_path) as team:
        await team.register("cid")
        await team.post("ada", "/v1/leases", {"exclusive": ["src/**"]})
        await team.post("bob", "/v1/leases", {"exclusive": ["src/api.py"], "priority": "Critical"})
        await team.post("cid", "/v1/leases", {"exclusive": ["src/api.py"], "priority": "Coordinate"})
        asked = {"handoff": "plan_approval", "subject": "a plan"}
        assert (await team.post("ada", "/v1/approvals", asked)).status_code == 200
        view = (await team.get("boss", "/v1/waits")).json()
        waits = {(wait["waiter"], wait["kind"]): wait for wait in view["waits"]}
        assert view["total"] == 3
        assert (waits["bob", "lease"]["on"], waits["bob", "lease"]["what"]) == (["ada"], "src/api.py")
        assert waits["bob", "lease"]["priority"] == "Critical"
        assert waits["cid", "lease"]["behind"] == ["bob"]
        assert (waits["ada", "approval"]["any_of"], waits["ada", "approval"]["what"]) == (True, "a plan")
        agents = {agent["agent"]: agent for agent in view["agents"]}
        assert (agents["ada"]["inherited"], agents["ada"]["holds"], agents["ada"]["waited_for"]) == ("Critical", 1, 2)
        assert agents["cid"]["inherited"] is None
        assert len((await team.get("boss", "/v1/waits?limit=1")).json()["waits"]) == 1
        assert (await team.get("ada", "/v1/waits")).status_code == 403


async def test_dead_letters_are_counted_and_found_by_reason_code_and_type(tmp_path: Path) -> None:
    async with registered_team(tmp_path) as team:
        for number in (1, 2, 3):
            await kill(team, number)
        await kill(team, 4, "E_TASK_003", messageType="Question")
        groups = (await team.get("boss", "/v1/dead-letters/groups")).json()
        assert [(group["code"], group["letters"]) for group in groups] == [("E_TASK_001", 3), ("E_TASK_003", 1)]
        assert groups[0]["types"] == {"StatusUpdate": 3}
        first = (await team.get("boss", "/v1/dead-letters/find?code=E_TASK_001&limit=2")).json()
        rest = (await team.get("boss", f"/v1/dead-letters/find?code=E_TASK_001&after={first['next']}")).json()
        names = [item["message_id"] for item in first["items"] + rest["items"]]
        assert (names, rest["next"]) == (["msg_1_x", "msg_2_x", "msg_3_x"], None)
        typed = (await team.get("boss", "/v1/dead-letters/find?type=Question")).json()["items"]
        assert [(item["signal_id"], item["reason"], item["redrivable"]) for item in typed] == [
            ("msg_4_x", groups[1]["reason"], True)
        ]
        for path in ("groups", "find"):
            assert (await team.get("ada", f"/v1/dead-letters/{path}")).status_code == 403


async def test_lists_show_the_text_of_messages_and_why_they_died(tmp_path: Path) -> None:
    async with registered_team(tmp_path) as team:
        await kill(team, 1, payload={"id": 1, "text": "rewrite the parser\nplease " + "now " * 2000})
        (found,) = (await team.get("boss", "/v1/messages?sender=ada")).json()["items"]
        assert found["preview"].startswith("rewrite the parser please now")
        assert len(found["preview"]) <= team.hub.config.preview_max
        (dead,) = (await team.get("boss", "/v1/dead-letters/find")).json()["items"]
        assert (dead["preview"], dead["detail"]) == (found["preview"], "bob rejected msg_1_x: no")
        await team.post("ada", "/v1/messages", envelope(2, payload={"text": "is it done?"}))
        assert (await team.get("boss", "/v1/messages/msg_2_x")).is_success  # the tables have it
        pending = (await team.get("boss", "/v1/pending")).json()["items"]
        assert [row["preview"] for row in pending if row["sender"] == "ada"] == ["is it done?"]
        await team.post("ada", "/v1/messages", envelope(3, messageType="CUSTOM_PLAN", payload={"plan": "drop it all"}))
        (approval,) = (await team.get("boss", "/v1/approvals")).json()["items"]
        assert (approval["subject"], approval["preview"]) == ("msg_3_x", "drop it all")


async def test_matching_dead_letters_are_redriven_in_batches(tmp_path: Path) -> None:
    async with registered_team(tmp_path, policy=QUICK + "\nlimits: {batch_max: 2}") as team:
        for number in (1, 2, 3):
            await kill(team, number)
        await kill(team, 4, "E_TASK_003")
        path, group = "/v1/dead-letters/redrive-matching", {"code": "E_TASK_001"}
        assert (await team.post("ada", path, group)).status_code == 403
        first = (await team.post("boss", path, group)).json()
        assert (first["redriven"], first["refused"], first["left"]) == (["msg_1_x", "msg_2_x"], {}, 1)
        second = (await team.post("boss", path, group)).json()
        assert (second["redriven"], second["left"]) == (["msg_3_x"], 0)
        assert (await team.post("boss", path, group)).json() == {"redriven": [], "refused": {}, "left": 0}
        again = (await team.post("bob", "/v1/inbox/drain", {})).json()["deliveries"]
        assert [item["signal_id"] for item in again] == ["msg_1_x", "msg_2_x", "msg_3_x"]
        (left,) = (await team.get("boss", "/v1/dead-letters/find")).json()["items"]
        assert left["message_id"] == "msg_4_x"


async def test_one_copy_of_a_broadcast_is_redriven_alone(tmp_path: Path) -> None:
    async with registered_team(tmp_path) as team:
        await kill(team, 1, receiver="*")
        await team.post("boss", "/v1/inbox/drain", {})
        said = {"reason": "no", "code": "E_TASK_002", "can_retry": False}
        assert (await team.post("boss", "/v1/messages/msg_1_x/nack", said)).status_code == 200
        done = (await team.post("boss", "/v1/dead-letters/redrive-matching", {"recipient": "bob"})).json()
        assert done["redriven"] == ["msg_1_x:bob"]
        (left,) = (await team.get("boss", "/v1/dead-letters/find")).json()["items"]
        assert left["signal_id"] == "msg_1_x:boss"


async def test_a_dead_letter_of_a_retired_recipient_is_not_redriven(tmp_path: Path) -> None:
    async with registered_team(tmp_path) as team:
        await kill(team, 1)
        assert (await team.call("DELETE", "boss", "/v1/agents/bob")).status_code == 200
        (letter,) = (await team.get("boss", "/v1/dead-letters/find")).json()["items"]
        assert letter["redrivable"] is False
        done = (await team.post("boss", "/v1/dead-letters/redrive-matching", {})).json()
        assert done == {"redriven": [], "refused": {}, "left": 0}
