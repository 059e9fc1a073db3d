"""Receipts of polls: only a call that quotes the cursor of an answer confirms the messages of that answer."""

import asyncio
from pathlib import Path
from typing import Any

from tests.envelopes import envelope
from tests.gateways.hubs import QUICK, HubTeam, registered_team, team_at

DRAIN = "/v1/inbox/drain"
#: A poll's answer counts as lost after this long.
HASTY = f"{QUICK}\ndelivery: {{receipt_timeout_s: {{push: 30, piggyback: 0.1, daemon: 30}}}}"


async def states(team: HubTeam, *numbers: int) -> list[str]:
    return [(await team.get("ada", f"/v1/messages/msg_{number}_x")).json()[0]["state"] for number in numbers]


def ids(answer: Any) -> list[str]:
    return [item["signal_id"] for item in answer.json()["deliveries"]]


async def test_no_call_confirms_what_it_does_not_quote(tmp_path: Path) -> None:
    async with registered_team(tmp_path) as team:
        for number in (1, 2):
            await team.post("ada", "/v1/messages", envelope(number))
        both = await asyncio.gather(*(team.post("bob", DRAIN, {"limit": 1}) for _ in range(2)))
        assert sorted(signal for answer in both for signal in ids(answer)) == ["msg_1_x", "msg_2_x"]
        await team.get("bob", "/v1/me")
        await team.post("bob", DRAIN)
        assert await states(team, 1, 2) == ["offered", "offered"]
        assert (await team.get("ada", "/v1/agents/bob")).json()["sessions"] == {"piggyback": 1}


async def test_any_call_that_quotes_the_cursor_confirms_that_batch(tmp_path: Path) -> None:
    async with registered_team(tmp_path) as team:
        cursors = []
        for number in range(6):
            await team.post("ada", "/v1/messages", envelope(number))
            cursors.append((await team.post("bob", DRAIN)).json()["cursor"])
        await team.get("bob", "/v1/me", headers={"Tocsin-Receipt": cursors[0]})
        await team.post("bob", "/v1/messages", envelope(9, "bob", "ada"), headers={"Tocsin-Receipt": cursors[1]})
        await team.post("bob", DRAIN, {"receipt": cursors[2]})
        reply = (await team.post("bob", "/v1/inbox/receipts", {"receipt": f"{cursors[3]}, {cursors[2]}"})).json()
        assert reply == {"confirmed": 1, "unknown": []}
        assert await states(team, *range(6)) == ["delivered"] * 4 + ["offered"] * 2
        both = ", ".join(cursors[4:])
        assert (await team.post("bob", DRAIN, headers={"Tocsin-Receipt": both})).json()["cursor"] == ""
        assert await states(team, *range(6)) == ["delivered"] * 6


async def test_a_foreign_or_broken_cursor_is_harmless(tmp_path: Path) -> None:
    async with registered_team(tmp_path) as team:
        await team.post("ada", "/v1/messages", envelope(1))
        cursor = (await team.post("bob", DRAIN)).json()["cursor"]
        assert (await team.get("ada", "/v1/me", headers={"Tocsin-Receipt": cursor})).status_code == 200
        for broken in ("x", "," * 100, cursor[:-1], "A" * 6000):
            assert (await team.get("bob", "/v1/me", headers={"Tocsin-Receipt": broken})).status_code == 200
        assert await states(team, 1) == ["offered"]


async def test_an_answer_whose_cursor_is_not_quoted_is_repeated_and_marked(tmp_path: Path) -> None:
    async with team_at(tmp_path, HASTY) as team:
        await team.register("ada")
        await team.register("bob")
        await team.post("ada", "/v1/messages", envelope(1))
        (lost,) = (await team.post("bob", DRAIN)).json()["deliveries"]
        assert (lost["offer"], lost["repeated"]) == (1, False)
        while not (again := (await team.post("bob", DRAIN)).json())["deliveries"]:
            await asyncio.sleep(0.02)
        (item,) = again["deliveries"]
        assert (item["signal_id"], item["offer"], item["repeated"]) == ("msg_1_x", 2, True)
        await team.get("bob", "/v1/me", headers={"Tocsin-Receipt": again["cursor"]})
        assert await states(team, 1) == ["delivered"]


async def test_a_receipt_counts_after_the_hub_was_restarted(tmp_path: Path) -> None:
    async with team_at(tmp_path) as team:
        await team.register("ada")
        await team.register("bob")
        for number in (1, 2):
            await team.post("ada", "/v1/messages", envelope(number))
        cursor = (await team.post("bob", DRAIN, {"limit": 1})).json()["cursor"]
        await team.post("bob", DRAIN)
    async with team_at(tmp_path) as again:
        again.tokens = team.tokens
        await again.get("bob", "/v1/me")
        assert await states(again, 1, 2) == ["offered", "offered"]
        await again.get("bob", "/v1/me", headers={"Tocsin-Receipt": cursor})
        assert await states(again, 1, 2) == ["delivered", "offered"]


async def test_only_the_urgent_can_be_asked_for(tmp_path: Path) -> None:
    async with registered_team(tmp_path) as team:
        for number, priority in enumerate(("Info", "Blocking", "Critical")):
            await team.post("ada", "/v1/messages", envelope(number, priority=priority))
        asked = {"limit": 5, "at_least": "Blocking"}
        assert ids(await team.post("bob", DRAIN, asked | {"bytes_max": 1})) == []
        assert ids(await team.post("bob", DRAIN, asked | {"bytes_max": 1000})) == ["msg_2_x", "msg_1_x"]
        wrong = (await team.post("bob", DRAIN, {"at_least": "Loud"})).json()
        assert (wrong["code"], wrong["field"]) == ("E_VALIDATION_003", "$.at_least")
