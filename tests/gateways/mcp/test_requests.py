"""The tools that ask and wait, and those that end what waits, with the official client library."""

import asyncio
from typing import Any

from tests.gateways.mcp.clients import Caller, Hub, Way, over_http


async def asked(caller: Caller, *, by: str) -> str:
    """Wait until somebody waits for an answer of the caller; return the request."""
    while True:
        found = (await caller.do("list_requests"))["items"]
        mine = [row["request"] for row in found if row["requester"] == by]
        if mine:
            return str(mine[0])
        await asyncio.sleep(0.02)


async def test_an_answer_is_in_the_result(hub: Hub, pair: tuple[str, str], way: Way) -> None:
    one, two = pair
    async with way(hub, one) as ada, over_http(hub, two) as bob:
        asking = asyncio.create_task(ada.do("send_request", to=two, text="ready?", priority="Blocking"))
        request = await asked(bob, by=one)
        await ada.do("post_message", to=one, text="a note to myself", priority="Critical")
        await bob.do("reply_message", message_id=request, text="yes")
        answered = await asking
        assert (answered["state"], answered["request"], answered["problem"]) == ("answered", request, None)
        assert (answered["answer"]["from"], answered["answer"]["payload"]) == (two, {"text": "yes"})
        others = [*answered["messages"], *answered["inbox"]["urgent"]]
        assert (await ada.do("fetch_inbox"))["messages"] == [], f"all is handed out, once: {others}"


async def test_an_answer_that_takes_long_can_be_waited_for_again_or_no_longer(hub: Hub, pair: tuple[str, str]) -> None:
    one, two = pair
    async with over_http(hub, one) as ada, over_http(hub, two) as bob:
        question: dict[str, Any] = {"to": two, "text": "ready?", "message_id": f"msg_{one}_q"}
        waiting = await ada.do("send_request", **question, wait_s=0.05)
        assert (waiting["state"], waiting["answer"], waiting["request"]) == (
            "waiting",
            None,
            question["message_id"],
        )
        await bob.do("reply_message", message_id=waiting["request"], text="now I am")
        answered = await ada.do("send_request", **question)
        assert (answered["state"], answered["answer"]["payload"]) == ("answered", {"text": "now I am"})

        second = await ada.do("send_request", to=two, text="and now?", wait_s=0)
        assert [row["request"] for row in (await bob.do("list_requests"))["items"]] == [second["request"]]
        assert (await bob.refused("cancel_request", request=second["request"]))["code"] == "E_STATE_001"
        await ada.do("cancel_request", request=second["request"])
        refused = await ada.refused("cancel_request", request=second["request"])
        assert "list_requests" in refused["repair"]


async def test_what_will_not_be_answered_says_so_and_what_to_do(hub: Hub, pair: tuple[str, str]) -> None:
    one, two = pair
    async with over_http(hub, one) as ada, over_http(hub, two) as bob:
        late = await ada.do("send_request", to=two, text="?", timeout_s=0.05, escalate=False)
        assert (late["state"], late["problem"]["code"]) == ("failed", "E_PROTOCOL_004")
        assert late["problem"]["repair"]

        asking = asyncio.create_task(ada.do("send_request", to=two, text="will you?"))
        await bob.do("reject_message", message_id=await _taken(bob), reason="not mine", can_retry=False)
        refused = await asking
        assert refused["state"] == "failed"
        assert "not mine" in refused["problem"]["detail"]

        await bob.do("acquire_lease", exclusive=[f"{one}.x"])
        await ada.do("acquire_lease", exclusive=[f"{one}.x"], priority="Critical")
        circle = await bob.do("send_request", to=one, text="done?", priority="Info")
        assert (circle["state"], circle["problem"]["code"]) == ("failed", "E_LEASE_004")
        assert "Release what you hold" in circle["problem"]["repair"]

        nobody = await ada.refused("send_request", to=f"{one}.nobody", text="?")
        assert (nobody["code"], nobody["field"]) == ("E_ROUTING_001", "to")
        assert "list_team" in nobody["repair"]
        assert (await ada.refused("send_request", to=one, text="?"))["field"] == "to"
        assert (await ada.refused("send_request", to=two, wait_s=600))["field"] == "wait_s"


async def _taken(caller: Caller) -> str:
    while True:
        answer = await caller.do("fetch_inbox")
        for mail in [*answer["messages"], *answer["inbox"]["urgent"]]:
            if mail["payload"].get("text") == "will you?":
                return str(mail["message_id"])
        await asyncio.sleep(0.02)


async def test_a_lease_ends_by_name_or_by_force(hub: Hub, pair: tuple[str, str]) -> None:
    one, two = pair
    boss, path = f"{one}boss", f"src/{one}.py"
    hub.join(boss, role="director")
    async with over_http(hub, one) as ada, over_http(hub, two) as bob, over_http(hub, boss) as dora:
        await ada.do("acquire_lease", exclusive=[path, f"{path}.bak"])
        assert (await ada.refused("release_lease"))["code"] == "E_VALIDATION_001"
        assert (await ada.refused("release_lease", resources=["never held"]))["code"] == "E_LEASE_001"
        assert (await ada.do("release_lease", resources=[f"{path}.bak"]))["resources"] == [f"{path}.bak"]
        (held,) = (await ada.do("list_leases", resource=path))["held"]
        assert (await bob.refused("force_release", lease=held["lease"], reason="mine"))["code"] == "E_AUTH_003"
        taken = await dora.do("force_release", lease=held["lease"], reason="ada is away")
        assert taken["resources"] == [path]


async def test_a_discussion_is_cancelled_by_the_agent_that_opened_it(hub: Hub, pair: tuple[str, str]) -> None:
    one, two = pair
    boss = f"{one}boss"
    hub.join(boss, role="director")
    async with over_http(hub, one) as ada, over_http(hub, two) as bob:
        opened = await ada.do("open_discussion", question="tabs?", participants=[two, boss])
        (listed,) = (await bob.do("list_discussions"))["items"]
        assert (listed["discussion"], listed["question"]) == (opened["discussion"], "tabs?")
        assert (await bob.refused("cancel_discussion", discussion=opened["discussion"]))["code"] == "E_STATE_001"
        assert (await ada.do("cancel_discussion", discussion=opened["discussion"]))["state"] == "cancelled"
        assert (await bob.do("list_discussions"))["items"] == []


async def test_an_approval_is_withdrawn_by_the_agent_that_requested_it(hub: Hub, pair: tuple[str, str]) -> None:
    one, two = pair
    hub.join(f"{one}boss", role="director")
    async with over_http(hub, one) as ada, over_http(hub, two) as bob:
        wanted = await ada.do("request_approval", handoff="plan_approval", subject="rewrite it")
        assert (await bob.refused("withdraw_approval", approval=wanted["approval"]))["code"] == "E_STATE_001"
        await ada.do("withdraw_approval", approval=wanted["approval"])


async def test_a_director_brings_an_escalation_before_a_human(hub: Hub, pair: tuple[str, str]) -> None:
    one, two = pair
    boss, human, path = f"{one}boss", f"{one}human", f"src/{one}.py"
    hub.join(boss, role="director")
    hub.join(human, role="human")
    async with (
        over_http(hub, one) as ada,
        over_http(hub, two) as bob,
        over_http(hub, boss) as dora,
        over_http(hub, human) as hugo,
    ):
        first = await ada.do("acquire_lease", exclusive=[path])
        for waiter in (bob, dora):
            await waiter.do("acquire_lease", exclusive=[path])
        (found,) = [row for row in (await dora.do("list_escalations"))["items"] if row["subject"] == path]
        escalation = found["escalation"]
        assert (await ada.refused("escalate_to_human", escalation=escalation))["code"] == "E_AUTH_003"
        raised = await dora.do("escalate_to_human", escalation=escalation, reason="who goes first?")
        assert raised["state"] == "human_escalation"
        told = await hugo.do("fetch_inbox")
        mail = [*told["messages"], *told["inbox"]["urgent"]]
        assert any(escalation in str(message["payload"]) for message in mail), mail
        await dora.do("resolve_escalation", escalation=escalation, resolution="bob does")
        await ada.do("release_lease", lease=first["lease"])
