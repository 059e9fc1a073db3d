"""Limits in bytes as callers see them: refusals, figures of agents and of the project, metrics, and drains."""

from pathlib import Path
from typing import Any

from tests.envelopes import envelope
from tests.gateways.hubs import QUICK, HubTeam, register_usual, team_at

#: Each message of these tests has 1000 bytes.
POLICY = f"{QUICK}\nlimits: {{mailbox_bytes_max: 3000, sender_bytes_max: 2000, drain_max: 2, drain_bytes_max: 1500}}"
CONTENT = {"text": "x" * (1000 - len('{"text":""}') - len("{}"))}


def note(number: int, sender: str = "ada", **fields: Any) -> dict[str, Any]:
    return envelope(number, sender, messageType="CUSTOM_NOTE", payload=CONTENT, **fields)


async def drained(team: HubTeam, **body: Any) -> list[str]:
    answer = (await team.post("bob", "/v1/inbox/drain", body)).json()
    await team.post("bob", "/v1/inbox/receipts", {"receipt": answer["cursor"]})
    return [item["signal_id"] for item in answer["deliveries"]]


async def test_a_send_without_room_is_refused_with_a_time_and_the_figures_show_why(tmp_path: Path) -> None:
    async with team_at(tmp_path, POLICY) as team:
        await register_usual(team)
        team.join("root", "human", admin=True)
        for number in (1, 2):
            assert (await team.post("ada", "/v1/messages", note(number))).status_code == 200
        over_own = await team.post("ada", "/v1/messages", note(3))
        assert (over_own.status_code, over_own.headers["retry-after"]) == (429, "5")
        assert (over_own.json()["error_code"], over_own.json()["retry_after_s"]) == ("limit_reached", 5)
        assert (await team.post("boss", "/v1/messages", note(4, "boss"))).status_code == 200
        full = await team.post("boss", "/v1/messages", note(5, "boss"))
        assert (full.status_code, full.headers["retry-after"]) == (429, "5")
        assert full.json()["error_code"] == "mailbox_full"

        bob = (await team.get("ada", "/v1/agents/bob")).json()["unread"]
        assert bob == {"mailbox_bytes": 3000, "mailbox_bytes_max": 3000, "sender_bytes": 0, "sender_bytes_max": 2000}
        (ada,) = (await team.get("boss", "/v1/roster?q=ada")).json()["items"]
        assert ada["unread"]["sender_bytes"] == 2000
        status = (await team.get("boss", "/v1/status")).json()
        assert status["bytes"] == {"unsettled": 3000, "dead_letters": 0, "ended": 0}
        assert status["bytes_max"]["unsettled"] == 1 << 30
        figures = (await team.get("root", "/metrics")).text
        for kind, found, most in (("mailbox", 3000.0, 3000.0), ("sender", 2000.0, 2000.0)):
            assert f'message_bytes{{kind="{kind}"}} {found}' in figures
            assert f'message_bytes_limit{{kind="{kind}"}} {most}' in figures

        assert await drained(team) == ["msg_1_x"], "two have too many bytes for one answer"
        assert (await team.post("ada", "/v1/messages", note(3))).status_code == 200
        assert (await team.get("boss", "/v1/status")).json()["bytes"]["ended"] == 1000


async def test_the_limits_of_a_drain_have_no_exception_for_critical(tmp_path: Path) -> None:
    async with team_at(tmp_path, f"{QUICK}\nlimits: {{drain_max: 2}}") as team:
        await register_usual(team)
        for number in range(5):
            urgent = envelope(number, "boss", messageType="CUSTOM_NOTE", priority="Critical", payload={})
            assert (await team.post("boss", "/v1/messages", urgent)).status_code == 200
        assert (await team.post("bob", "/v1/inbox/drain", {"limit": 3})).status_code == 422
        assert await drained(team) == ["msg_0_x", "msg_1_x"]
        assert await drained(team, limit=1) == ["msg_2_x"]
        assert await drained(team, limit=2, at_least="Critical") == ["msg_3_x", "msg_4_x"]
