"""What an agent may not see leaves no trace in any answer: not an item, not a cursor, not a shorter page."""

from pathlib import Path
from typing import Any

import pytest

from tests.envelopes import envelope
from tests.gateways.hubs import HubTeam, registered_team

#: Lists that a clone asks for: with a word or a thread that only others have used, and with one that nobody has.
QUESTIONS = {
    "search": ("/v1/search?q=swordfish&limit=1", "/v1/search?q=marlin&limit=1"),
    "find": ("/v1/messages?q=swordfish&limit=1", "/v1/messages?q=marlin&limit=1"),
    "find by sender": ("/v1/messages?sender=ada&limit=1", "/v1/messages?sender=nobody&limit=1"),
    "thread": ("/v1/threads/thread_1?limit=1", "/v1/threads/thread_2?limit=1"),
    "dead letters": ("/v1/dead-letters?limit=1", "/v1/dead-letters?limit=1&after=1000000"),
}


async def _others_talk(team: HubTeam) -> None:
    for number in range(3):
        sent = envelope(number, payload={"text": "swordfish"}, correlationId="thread_1")
        await team.post("ada", "/v1/messages", sent)
        await team.post("bob", "/v1/inbox/drain")
        refused = {"reason": "no", "can_retry": False}
        assert (await team.post("bob", f"/v1/messages/msg_{number}_x/nack", refused)).status_code == 200


async def _asked(team: HubTeam, agent: str, path: str) -> tuple[int, Any]:
    answer = await team.get(agent, path)
    return answer.status_code, answer.json()


@pytest.mark.parametrize("name", QUESTIONS)
async def test_a_guess_is_answered_like_a_miss(tmp_path: Path, name: str) -> None:
    async with registered_team(tmp_path) as team:
        await team.register("eve", "clone")
        await _others_talk(team)
        while len((await team.get("boss", "/v1/search?q=swordfish")).json()["items"]) < 3:
            """The index follows shortly."""
        hit, miss = QUESTIONS[name]
        assert await _asked(team, "eve", hit) == await _asked(team, "eve", miss) == (200, {"items": [], "next": None})
        status, page = await _asked(team, "boss", hit)
        assert (status, len(page["items"])) == (200, 1)
        assert page["next"] is not None, "there is more for those who may see it"


async def test_pages_are_full_of_what_the_caller_may_see(tmp_path: Path) -> None:
    async with registered_team(tmp_path) as team:
        await team.register("eve", "clone")
        mine = []
        for number in range(6):
            await team.post("ada", "/v1/messages", envelope(number, payload={"text": "swordfish"}))
            letter = envelope(100 + number, "eve", "bob", payload={"text": "swordfish"})
            letter["sender"]["type"] = "Manager"
            assert (await team.post("eve", "/v1/messages", letter)).status_code == 200
            mine.append(f"msg_{100 + number}_x")
        while len((await team.get("boss", "/v1/search?q=swordfish")).json()["items"]) < 12:
            """The index follows shortly."""
        found: list[str] = []
        after: int | None = 0
        while after is not None:
            page = (await team.get("eve", f"/v1/search?q=swordfish&limit=2&after={after}")).json()
            assert len(page["items"]) == 2
            found += [item["message_id"] for item in page["items"]]
            after = page["next"]
        assert found == mine[::-1]
