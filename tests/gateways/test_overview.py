"""Overview operations over HTTP: access, and counts that match what happened."""

from pathlib import Path
from typing import Any

import pytest

from tests.envelopes import envelope
from tests.gateways.hubs import HubTeam, registered_team


async def found(team: HubTeam, path: str, agent: str = "boss") -> Any:
    answer = await team.get(agent, path)
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.parametrize("path", ["overview", "pending", "roster", "conversations"])
async def test_only_who_may_see_everything_sees_it(tmp_path: Path, path: str) -> None:
    async with registered_team(tmp_path) as team:
        refused = await team.get("ada", f"/v1/{path}")
        assert (refused.status_code, refused.json()["code"]) == (403, "E_AUTH_003")
        for agent in ("boss", "root"):
            await found(team, f"/v1/{path}", agent)


async def test_what_happened_is_counted(tmp_path: Path) -> None:
    async with registered_team(tmp_path) as team:
        for number in range(3):
            await team.post("ada", "/v1/messages", envelope(number))
        await team.post("ada", "/v1/messages", envelope(3, receiver="nobody", messageType="Question"))
        await team.post("ada", "/v1/messages/msg_0_x/recall")
        await team.post("bob", "/v1/inbox/drain", {})
        await team.post("ada", "/v1/messages/msg_1_x/recall")
        view = await found(team, "/v1/overview")
        assert view["undeliverable"] == [{"type": "Question", "sender": "ada", "sends": 1}]
        assert view["recalls"] == {"recalled": 1, "already_delivered": 1}
        (drained,) = view["time_to_drain"]
        assert (drained["about"], drained["path"], sum(drained["counts"])) == ("StatusUpdate", "drain", 2)
        assert len(drained["counts"]) == len(view["bounds_s"]) + 1
        assert [(row["about"], sum(row["counts"])) for row in view["delivery_latency"]] == [("Info", 2)]
        assert view["frames"] == {
            "published": 0,
            "subscribers": [],
            "priorities": [
                {"priority": name, "offered": 0, "dropped": 0, "shed": 0}
                for name in ("critical", "high", "normal", "best_effort")
            ],
        }


async def test_what_expires_first_is_listed_first_with_its_path(tmp_path: Path) -> None:
    async with registered_team(tmp_path) as team:
        for number, ttl_s in enumerate((300, 100, 200)):
            await team.post("ada", "/v1/messages", envelope(number, metadata={"ttl": ttl_s}))
        await found(team, "/v1/search?q=nothing")  # brings the tables up to date
        items = (await found(team, "/v1/pending"))["items"]
        assert [item["message_id"] for item in items] == ["msg_1_x", "msg_2_x", "msg_0_x"]
        assert {item["publish_path"] for item in items} == {"queued_offline"}


async def test_the_roster_says_what_an_agent_does_and_may_spend(tmp_path: Path) -> None:
    async with registered_team(tmp_path) as team:
        sent = envelope(1, priority="Blocking", messageType="ReviewRequested")
        await team.post("ada", "/v1/messages", sent)
        await team.post("bob", "/v1/inbox/drain", {})
        await team.post("bob", "/v1/attention/begin", {"message_id": "msg_1_x"})
        page = await found(team, "/v1/roster")
        assert ([agent["agent"] for agent in page["items"]], page["next"], page["total"]) == (
            ["ada", "bob", "boss"],
            None,
            3,
        )
        ada, bob, boss = page["items"]
        assert 980 <= ada["budget"]["tokens"] <= ada["budget"]["tokens_max"] == 1000
        assert 19 <= ada["budget"]["blocking"] < 20
        assert (ada["recent"], ada["recent_high"], ada["gaming"]) == (1, 1, False)
        assert boss["budget"] is None
        assert (bob["attention"]["status"], bob["attention"]["working_on"]) == ("processing", "msg_1_x")
        assert [(session["kind"], session["fresh"]) for session in bob["sessions"]] == [("piggyback", True)]
        first = await found(team, "/v1/roster?limit=1&q=b")
        assert ([agent["agent"] for agent in first["items"]], first["next"]) == (["bob"], "bob")
        second = await found(team, "/v1/roster?limit=1&q=b&after=bob")
        assert ([agent["agent"] for agent in second["items"]], second["next"]) == (["boss"], None)


async def test_who_talks_to_whom(tmp_path: Path) -> None:
    async with registered_team(tmp_path) as team:
        for number in range(3):
            await team.post("ada", "/v1/messages", envelope(number))
        await team.post("bob", "/v1/messages", envelope(9, sender="bob", receiver="ada"))
        await found(team, "/v1/search?q=nothing")
        view = await found(team, "/v1/conversations")
        assert [(one["sender"], one["recipient"], one["messages"]) for one in view["items"]] == [
            ("ada", "bob", 3),
            ("bob", "ada", 1),
        ]


async def test_messages_are_found_and_an_agent_finds_its_own(tmp_path: Path) -> None:
    async with registered_team(tmp_path) as team:
        await team.post("ada", "/v1/messages", envelope(1))
        await team.post("ada", "/v1/messages", envelope(2, priority="Blocking", messageType="ReviewRequested"))
        await team.post("bob", "/v1/messages", envelope(3, sender="bob", receiver="boss"))

        async def ids(query: str, agent: str = "boss") -> list[str]:
            page = await found(team, f"/v1/messages?{query}", agent)
            return [item["message_id"] for item in page["items"]]

        assert await ids("") == ["msg_3_x", "msg_2_x", "msg_1_x"]
        assert await ids("", "ada") == ["msg_2_x", "msg_1_x"]
        assert await ids("level=Blocking") == ["msg_2_x"]
        assert await ids("sender=ada&type=StatusUpdate") == ["msg_1_x"]
        assert await ids("states=queued,offered&limit=2") == ["msg_3_x", "msg_2_x"]
        assert await ids("since=2100-01-01T00:00:00Z") == []
        assert await ids("until=2100-01-01T00:00:00") == ["msg_3_x", "msg_2_x", "msg_1_x"]
        for wrong in ("level=High", "since=yesterday", "publish_path=air"):
            assert (await team.get("boss", f"/v1/messages?{wrong}")).status_code == 422
