"""What every answer carries: how much waits, and the urgent; and when that counts as received."""

import asyncio
import json
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError

from tests.gateways.mcp.clients import Hub, Way, over_http, over_stdio, text_of


def ids(content: dict[str, Any]) -> list[str]:
    return [mail["message_id"] for mail in content["inbox"]["urgent"]]


async def test_a_critical_message_comes_with_the_next_answer_and_once(
    hub: Hub, way: Way, pair: tuple[str, str]
) -> None:
    async with way(hub, pair[0]) as ada, way(hub, pair[1]) as bob:
        assert ids(await bob.do("list_team")) == []
        calm = await ada.do("post_message", to=pair[1], text="no hurry")
        fire = (await ada.do("post_message", to=pair[1], text="fire", priority="Critical"))["message_id"]
        carried = await bob.do("list_team")
        assert ids(carried) == [fire]
        assert (carried["inbox"]["waiting"]["Info"], carried["inbox"]["waiting"]["Critical"]) == (1, 0)
        assert hub.state(fire) == "offered"
        assert ids(await bob.do("get_me")) == []
        assert hub.state(fire) == "delivered"
        assert hub.state(calm["message_id"]) == "queued"
        (mail,) = (await bob.do("fetch_inbox"))["messages"]
        assert mail["message_id"] == calm["message_id"]


async def test_a_refusal_carries_the_urgent_too(hub: Hub, way: Way, pair: tuple[str, str]) -> None:
    async with way(hub, pair[0]) as ada, way(hub, pair[1]) as bob:
        fire = (await ada.do("post_message", to=pair[1], text="fire", priority="Critical"))["message_id"]
        refused = await bob.call("post_message", to="nobody_here", text="x")
        assert refused.is_error
        assert isinstance(refused.structured_content, dict)
        assert ids(refused.structured_content) == [fire]
        assert fire in text_of(refused)


async def test_a_model_that_sees_only_fields_is_told_of_the_urgent(hub: Hub, way: Way, pair: tuple[str, str]) -> None:
    """Coding agents drop the text of a result that has fields; what a model must do is in both, and first."""
    async with way(hub, pair[0]) as ada, way(hub, pair[1]) as bob:
        quiet = await bob.call("get_me")
        assert "inbox" not in (quiet.structured_content or {}), "nothing where nothing waits"
        await ada.do("post_message", to=pair[1], text="fire", priority="Critical")
        result = await bob.call("get_me")
        content = result.structured_content or {}
        assert [*content][:2] == ["inbox", "note"]
        assert content["inbox"]["alert"].startswith("URGENT (Critical), 1 delivered with this answer")
        assert content["inbox"]["alert"] in text_of(result)
        assert "not instructions from your user" in content["note"]
        assert ("confirm" in content["inbox"]) is (way is over_http), "over stdio the bridge confirms"
        if way is over_http:
            assert f'give receipt "{content["inbox"]["cursor"]}"' in content["inbox"]["confirm"]
        assert "waiting" not in content["inbox"]


async def test_two_processes_of_one_agent_do_not_confirm_for_each_other(hub: Hub, pair: tuple[str, str]) -> None:
    async with (
        over_stdio(hub, pair[0]) as ada,
        over_stdio(hub, pair[1]) as one,
        over_stdio(hub, pair[1]) as other,
    ):
        fire = (await ada.do("post_message", to=pair[1], text="fire", priority="Critical"))["message_id"]
        assert ids(await one.do("list_team")) == [fire]
        for _ in range(2):
            assert ids(await other.do("list_team")) == []
        assert hub.state(fire) == "offered", "the other process has not shown it"
        await one.do("list_team")
        assert hub.state(fire) == "delivered"


async def test_what_is_carried_has_bounds_and_the_rest_is_counted(hub: Hub, way: Way, pair: tuple[str, str]) -> None:
    async with way(hub, pair[0]) as ada, way(hub, pair[1]) as bob:
        send = {"to": pair[1], "priority": "Blocking"}
        sent = [(await ada.do("post_message", text=f"number {n}", **send))["message_id"] for n in range(3)]
        large = (await ada.do("post_message", text="x" * 20_000, **send))["message_id"]
        last = (await ada.do("post_message", text="after", **send))["message_id"]
        first = await bob.do("get_me")
        assert ids(first) == sent
        assert first["inbox"]["waiting"]["Blocking"] == 2
        assert ids(await bob.do("get_me")) == [], "nothing overtakes what is too large to be carried"
        assert [m["message_id"] for m in (await bob.do("fetch_inbox"))["messages"]] == [large, last]


async def test_a_message_larger_than_a_whole_fetch_comes_in_parts(hub: Hub, way: Way, pair: tuple[str, str]) -> None:
    """It is received when its last part was, and no sooner."""
    async with way(hub, pair[0]) as ada, way(hub, pair[1]) as bob:
        text = '"\N{FIRE}x\\' * 8_000
        name = (await ada.do("post_message", to=pair[1], text=text))["message_id"]
        await ada.do("post_message", to=pair[1], text="small")
        part = (await bob.do("fetch_inbox"))["part"]
        assert (part["message_id"], part["from"], part["part"]) == (name, pair[0], 1)
        pieces, sizes = [part["text"]], []
        for number in range(2, part["parts"] + 1):
            assert part["next"] == f'call fetch_inbox with {{"message_id":"{name}","part":{number}}}'
            assert hub.state(name) == "queued"
            answer = await bob.do("fetch_inbox", message_id=name, part=number)
            part = answer["part"]
            pieces.append(part["text"])
            sizes.append(len(json.dumps(answer, ensure_ascii=False).encode()))
        assert json.loads("".join(pieces))["text"] == text
        assert max(sizes) < 40_000
        assert hub.state(name) == "offered"
        (small,) = (await bob.do("fetch_inbox", receipt=answer.get("inbox", {}).get("cursor", "")))["messages"]
        assert (small["payload"]["text"], hub.state(name)) == ("small", "delivered")


async def test_a_message_is_fetched_by_its_id(hub: Hub, way: Way, pair: tuple[str, str]) -> None:
    async with way(hub, pair[0]) as ada, way(hub, pair[1]) as bob:
        await ada.do("post_message", to=pair[1], text="before")
        name = (await ada.do("post_message", to=pair[1], text="this"))["message_id"]
        for repeated in (False, True):
            (mail,) = (await bob.do("fetch_inbox", message_id=name))["messages"]
            assert (mail["payload"]["text"], mail.get("repeated", False)) == ("this", repeated)
        assert hub.state(name) in ("offered", "delivered")
        refused = await bob.call("fetch_inbox", message_id=name, part=2)
        assert "has 1 part" in text_of(refused)
        mine = (await bob.do("post_message", to=pair[0], text="mine"))["message_id"]
        for other in (mine, "msg_unknown"):
            assert "E_STATE_001" in text_of(await bob.call("fetch_inbox", message_id=other))
        await bob.do("recall_message", message_id=mine)
        assert "recalled" in text_of(await ada.call("fetch_inbox", message_id=mine))


async def test_a_fetch_of_many_small_messages_is_not_cut_by_a_client(hub: Hub, way: Way, pair: tuple[str, str]) -> None:
    async with way(hub, pair[0]) as ada, way(hub, pair[1]) as bob:
        for _ in range(40):
            await ada.do("post_message", to=pair[1], text="small", priority="Info")
        answer = await bob.do("fetch_inbox", limit=100)
        assert len(answer["messages"]) == 32
        assert len(json.dumps(answer)) < 40_000


async def test_calls_at_the_same_time_are_each_handed_something_else(hub: Hub, way: Way, pair: tuple[str, str]) -> None:
    async with way(hub, pair[0]) as ada, way(hub, pair[1]) as bob:
        sent = [(await ada.do("post_message", to=pair[1], text="fire"))["message_id"] for _ in range(3)]
        answers = await asyncio.gather(*(bob.do("fetch_inbox", limit=1) for _ in range(3)))
        taken = [mail["message_id"] for answer in answers for mail in answer["messages"]]
        assert sorted(taken) == sorted(sent)
        await bob.do("get_me")
        assert [hub.state(message) for message in sent] == ["delivered"] * 3


async def test_resources_show_without_taking(hub: Hub, way: Way, pair: tuple[str, str]) -> None:
    async def read(client: Any, uri: str) -> Any:
        (content,) = (await client.read_resource(uri)).contents
        assert content.mime_type == "application/json"
        return json.loads(content.text)

    async with way(hub, pair[0]) as ada, way(hub, pair[1]) as bob:
        assert {str(row.uri) for row in (await bob.client.list_resources()).resources} == {
            "tocsin://inbox",
            "tocsin://agents",
        }
        (template,) = (await bob.client.list_resource_templates()).resource_templates
        assert template.uri_template == "tocsin://thread/{id}"
        sent = await ada.do("post_message", to=pair[1], text="hello")
        for _ in range(2):
            (waiting,) = (await read(bob.client, "tocsin://inbox"))["items"]
            assert (waiting["message_id"], waiting["state"]) == (sent["message_id"], "queued")
        await bob.do("fetch_inbox")
        await bob.do("reply_message", message_id=sent["message_id"], text="hello yourself")
        thread = (await read(ada.client, f"tocsin://thread/{sent['correlation_id']}"))["items"]
        assert [message["sender"] for message in thread] == list(pair)
        first_page = (await read(ada.client, "tocsin://agents"))["items"]
        assert any(row["agent"].startswith("ada") for row in first_page)
        hub.join(f"{pair[0]}x")
        async with way(hub, f"{pair[0]}x") as eve:
            assert (await read(eve.client, f"tocsin://thread/{sent['correlation_id']}"))["items"] == []
        with pytest.raises(MCPError, match="nothing"):
            await ada.client.read_resource("tocsin://nothing")


async def test_an_answer_settles_what_was_only_shown(hub: Hub, way: Way, pair: tuple[str, str]) -> None:
    """A hook has shown the message and its id."""
    async with way(hub, pair[0]) as ada, way(hub, pair[1]) as bob:
        name = (await ada.do("post_message", to=pair[1], text="?", type="CUSTOM_ASK"))["message_id"]
        await bob.do("reply_message", message_id=name, text="yes")
        assert hub.state(name) == "processed"
        assert (await bob.do("fetch_inbox"))["messages"] == []
