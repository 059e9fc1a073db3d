"""The tools that a team coordinates by, over both ways, with the official client library."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest

from tests.gateways.mcp.clients import Caller, Hub, over_http, over_stdio


@dataclass
class Trio:
    """Two agents and their director, each with its client."""

    hub: Hub
    ada: Caller
    bob: Caller
    dora: Caller
    #: Their names.
    one: str
    two: str
    boss: str

    @property
    def path(self) -> str:
        """Return a file that no other trio works on."""
        return f"src/{self.one}/users.py"


def mail_of(answer: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    found = [*answer.get("messages", []), *answer["inbox"]["urgent"]]
    return [mail for mail in found if mail["type"] == kind]


async def leases(trio: Trio) -> None:
    """One holds, the other waits, and is told."""
    ada, bob, one, two, path = trio.ada, trio.bob, trio.one, trio.two, trio.path
    held = await ada.do("acquire_lease", exclusive=[f"src/{one}/**"], ttl_s=60)
    assert held["state"] == "held"
    assert (await ada.do("renew_lease", lease=held["lease"], ttl_s=120))["expires_at"] > held["expires_at"]
    assert (await bob.refused("acquire_lease", exclusive=[path], wait_s=0))["code"] == "E_LEASE_002"
    wanted = await bob.do("acquire_lease", exclusive=[path], priority="Blocking", lease=f"{two}.mine")
    assert (wanted["state"], wanted["holders"]) == ("waiting", [one])
    listed = await ada.do("list_leases", resource=path)
    assert ([row["agent"] for row in listed["held"]], [row["agent"] for row in listed["waiting"]]) == (
        [one],
        [two],
    )
    assert (await ada.do("release_lease", lease=held["lease"]))["resources"] == [f"src/{one}/**"]
    granted = mail_of(await bob.do("fetch_inbox"), "LEASE_GRANTED")
    assert [mail["payload"]["lease"] for mail in granted] == [f"{two}.mine"]
    await bob.do("release_lease", lease=f"{two}.mine")
    assert (await bob.refused("release_lease", lease=f"{two}.mine"))["code"] == "E_LEASE_001"


async def work(trio: Trio) -> None:
    """Work is interrupted at a pause point, and given back."""
    hub, ada, bob, two = trio.hub, trio.ada, trio.bob, trio.two
    chore = (await ada.do("post_message", to=two, text="sweep", priority="Info"))["message_id"]
    assert [mail["message_id"] for mail in (await bob.do("fetch_inbox"))["messages"]] == [chore]
    assert (await bob.do("begin_work", message_id=chore, interruptible=False))["working_on"] == chore
    assert (await bob.do("reach_pause_point"))["interrupted_by"] is None
    alarm = (await ada.do("post_message", to=two, text="fire", priority="Critical"))["message_id"]
    paused = await bob.do("reach_pause_point")
    assert (paused["interrupted_by"], paused["working_on"]) == (alarm, chore)
    assert [mail["payload"] for mail in paused["inbox"]["urgent"]] == [{"text": "fire"}]
    aside = await bob.do("put_aside", saved="half of the floor")
    assert (aside["working_on"], aside["aside"]) == (alarm, [chore])
    assert (await bob.do("finish_work"))["aside"] == [chore]
    resumed = await bob.do("resume_work")
    assert (resumed["message_id"], resumed["saved"]) == (chore, "half of the floor")
    assert (await bob.do("finish_work"))["working_on"] is None
    assert (hub.state(chore), hub.state(alarm)) == ("processed", "processed")


async def topics(trio: Trio) -> None:
    """What is published reaches the subscriber."""
    ada, bob, one, two = trio.ada, trio.bob, trio.one, trio.two
    assert (await bob.do("subscribe_topic", topic=f"{one}.builds"))["topics"] == [f"{one}.builds"]
    published = await ada.do("publish_topic", topic=f"{one}.builds", text="red")
    assert [receipt["recipient"] for receipt in published["receipts"]] == [two]
    (news,) = mail_of(await bob.do("fetch_inbox"), "StatusUpdate")
    assert (news["message_id"], news["payload"]) == (published["message_id"], {"text": "red"})
    assert (await bob.do("unsubscribe_topic", topic=f"{one}.builds"))["topics"] == []


async def discussions(trio: Trio) -> None:
    """All who take part vote."""
    ada, bob, dora = trio.ada, trio.bob, trio.dora
    opened = await ada.do(
        "open_discussion", question="tabs?", participants=[trio.two, trio.boss], options=["yes", "no"]
    )
    assert (await bob.do("speak_in_discussion", discussion=opened["discussion"], text="no"))["state"] == "open"
    await bob.do("vote", discussion=opened["discussion"], option="no")
    assert (await dora.do("vote", discussion=opened["discussion"], option="no"))["option"] == "no"


async def approvals(trio: Trio) -> None:
    """A director refuses, with a reason that the one who asked is told."""
    ada, bob, dora = trio.ada, trio.bob, trio.dora
    subject = (await bob.do("acquire_lease", exclusive=[trio.path]))["lease"]
    prose = {"handoff": "lease_override", "subject": "take it from bob"}
    assert (await ada.refused("request_approval", **prose))["code"] == "E_LEASE_001"
    asked = await ada.do("request_approval", handoff="lease_override", subject=subject)
    waiting = (await dora.do("list_approvals"))["items"]
    assert asked["approval"] in [row["approval"] for row in waiting]
    assert (await ada.refused("decide_approval", approval=asked["approval"], verdict="approve"))["code"] == (
        "E_AUTH_003"
    )
    refused = await dora.do("decide_approval", approval=asked["approval"], verdict="refuse", reason="wait")
    assert refused["outcome"] == "refused"
    (word,) = mail_of(await ada.do("list_alerts"), "ApprovalDecided")
    assert word["payload"]["reason"] == "wait"
    await bob.do("release_lease", lease=subject)


async def escalations(trio: Trio) -> None:
    """Two who wait for the same thing are contention, which a director is told of."""
    ada, bob, dora, path = trio.ada, trio.bob, trio.dora, trio.path
    assert (await ada.refused("list_escalations"))["code"] == "E_AUTH_003"
    first = await ada.do("acquire_lease", exclusive=[path])
    for waiter in (bob, dora):
        await waiter.do("acquire_lease", exclusive=[path])
    (found,) = [row for row in (await dora.do("list_escalations"))["items"] if row["subject"] == path]
    await dora.do("resolve_escalation", escalation=found["escalation"], resolution="ada is nearly done")
    closed = (await dora.do("list_escalations", closed=True))["items"]
    assert [row["resolved_by"] for row in closed if row["subject"] == path] == [trio.boss]
    await ada.do("release_lease", lease=first["lease"])


Part = Callable[[Trio], Awaitable[None]]
PARTS: tuple[Part, ...] = (leases, work, topics, discussions, approvals, escalations)


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.__name__)
async def test_a_team_coordinates_over_http(hub: Hub, pair: tuple[str, str], part: Part) -> None:
    boss = f"{pair[0]}boss"
    hub.join(boss, role="director")
    async with over_http(hub, pair[0]) as ada, over_http(hub, pair[1]) as bob, over_http(hub, boss) as dora:
        await part(Trio(hub, ada, bob, dora, *pair, boss))


async def test_a_team_coordinates_over_stdio(hub: Hub, pair: tuple[str, str]) -> None:
    """All parts share the processes, which take longer to start than the parts do."""
    boss = f"{pair[0]}boss"
    hub.join(boss, role="director")
    async with over_stdio(hub, pair[0]) as ada, over_stdio(hub, pair[1]) as bob, over_http(hub, boss) as dora:
        for part in PARTS:
            await part(Trio(hub, ada, bob, dora, *pair, boss))
