"""The story of coordination, whole: a hub in a process of its own, agents over sockets, and HTTP to look at it.

A clone holds what a primary needs and is raised for it; two who wait for each other are parted; something Critical
interrupts work that goes on afterwards where it was; a request that nobody answers goes to a director, then to a human.
"""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.client.grounds import HubGround
from tocsin.cli.remote import Remote
from tocsin.client import Agent, Deadlock, LeaseLost, Message, NoResponse

POLICY = """
storage: {projection_interval_s: 0.02}
escalation: {director_s: 0.5}
"""
NOTE = "CUSTOM_NOTE"


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubGround]:
    data: Path = tmp_path_factory.mktemp("coordination") / "team"
    data.mkdir()
    (data / "tocsin.yaml").write_text(POLICY, encoding="utf-8")
    ground = HubGround(data)
    ground.start()
    yield ground
    assert ground.hub.stop() == 0


@pytest.fixture(autouse=True)
def clean(ground: HubGround) -> Iterator[None]:
    """Let everyone go after each act."""
    yield
    ground.clear()


async def seen(remote: Remote, *path: str, until: Callable[[Any], Any], **query: Any) -> Any:
    """Look over HTTP until something shows; the act itself is bounded."""
    while True:
        view = await asyncio.to_thread(lambda: remote.get(*path, **query))
        if until(view):
            return view
        await asyncio.sleep(0.02)


async def told(agent: Agent, about: Callable[[Message], bool]) -> Message:
    """Wait for the message that says it."""
    async for message in agent.inbox():
        if about(message):
            return message
    raise AssertionError("unreachable: the inbox of an attached agent does not end")


def of(view: Any, agent: str) -> Any:
    """Return what an agent waits for, as the list of leases shows it."""
    return next((row for row in view["waiting"] if row["agent"] == agent), None)


async def held(agent: Agent, resource: str, priority: str) -> str:
    async with agent.acquire(resource, priority=priority) as lease:
        return lease.lease


async def test_a_clone_in_the_way_of_a_blocking_primary_is_raised(ground: HubGround) -> None:
    async with (
        ground.join("twin", role="clone") as twin,
        ground.join("ada") as ada,
        ground.join("carl") as carl,
        ground.join("bob") as bob,
    ):
        remote = Remote(ground.url, ground.token("ada"))
        sent = await twin.send(to="bob", type=NOTE, payload={"n": 1}, priority="Info")
        api = await twin.acquire("src/api/**", priority="Info")
        db = await bob.acquire("db")
        carls = asyncio.create_task(held(carl, "db", "Coordinate"))
        await seen(remote, "v1", "leases", until=lambda view: of(view, "carl"))
        twins = asyncio.create_task(held(twin, "db", "Info"))
        before = await seen(remote, "v1", "leases", until=lambda view: of(view, "twin"))
        assert (of(before, "twin")["priority"], of(before, "twin")["place"]) == ("Info", 2)

        adas = asyncio.create_task(held(ada, "src/api/users.py", "Blocking"))
        raised = await seen(remote, "v1", "leases", until=lambda view: of(view, "ada"))
        assert of(raised, "ada")["holders"] == ["twin"]
        assert (of(raised, "twin")["priority"], of(raised, "twin")["place"]) == ("Blocking", 1)
        # What it had sent before, and still waits, is raised with it.
        (message,) = await bob.get_message(sent.message_id)
        while message.level != "Blocking":
            (message,) = await bob.get_message(sent.message_id)
        assert message.priority == "Info"

        await db.release()
        await twins  # before carl, who had been first in line
        await api.release()
        await adas
        await carls
        view = await seen(remote, "v1", "leases", until=lambda view: not view["held"])
        assert view["waiting"] == []
        again = await twin.acquire("src/api/**", priority="Info")
        assert (await twin.list_leases()).held[0].priority == "Info"
        await again.release()
        (message,) = await bob.get_message(sent.message_id)
        while message.level != "Info":
            (message,) = await bob.get_message(sent.message_id)


async def test_two_who_wait_for_each_other_are_parted(ground: HubGround) -> None:
    async with (
        ground.join("ada") as ada,
        ground.join("bob") as bob,
        ground.join("dora", role="director") as dora,
    ):
        remote = Remote(ground.url, ground.token("ada"))
        a, b = await ada.acquire("a"), await bob.acquire("b")
        bob.inbox()  # so that the bus can tell it
        adas = asyncio.create_task(held(ada, "b", "Blocking"))
        await seen(remote, "v1", "leases", until=lambda view: of(view, "ada"))
        with pytest.raises(Deadlock, match="bob → ada → bob"):
            await bob.acquire("a", priority="Coordinate")
        await b.lost()
        with pytest.raises(LeaseLost, match="deadlock"):
            b.must_hold()
        assert await adas
        why = await told(bob, lambda message: message.type == "ERROR_REPORT")
        assert (why.payload["errorCode"], why.payload["context"]["victim"]) == ("E_LEASE_004", "bob")
        whole = await told(dora, lambda message: "cycle" in message.payload.get("context", {}))
        cycle = {row["agent"]: row["of"] for row in whole.payload["context"]["cycle"]}
        assert cycle == {"ada": ["bob"], "bob": ["ada"]}
        await a.release()


async def test_something_critical_interrupts_and_the_work_goes_on(ground: HubGround) -> None:
    async with ground.join("ada") as ada, ground.join("bob") as bob:
        chore = await ada.send(to="bob", type=NOTE, payload={"steps": 3}, priority="Info")
        done: list[str] = []

        def so_far() -> str:
            return ",".join(done)

        async with bob.working_on(await anext(bob.inbox())) as work:
            for step in range(3):
                done.append(f"step {step}")
                if step == 1:
                    alarm = await ada.send(to="bob", type=NOTE, payload={"fire": True}, priority="Critical")
                interruption = await work.pause_point(save=so_far)
                if interruption is None:
                    continue
                assert step == 1
                async with interruption as urgent:
                    assert urgent.message_id == alarm.message_id
                    assert urgent.interrupts == chore.message_id
                    assert (await bob.get_attention()).aside == (chore.message_id,)
                    done = ["the fire is out"]
                done = interruption.saved.split(",")
        assert done == ["step 0", "step 1", "step 2"]
        remote = Remote(ground.url, ground.token("ada"))
        for sent in (chore, alarm):
            where = ("v1", "messages", sent.message_id)
            await seen(remote, *where, until=lambda rows: rows[0]["state"] == "processed")


async def test_a_request_that_nobody_answers_goes_to_the_director_then_to_the_human(ground: HubGround) -> None:
    async with (
        ground.join("ada") as ada,
        ground.join("bob"),
        ground.join("dora", role="director") as dora,
        ground.join("hugo", role="human") as hugo,
    ):
        with pytest.raises(NoResponse) as late:
            await ada.request("bob", "CUSTOM_QUESTION", {"text": "ship it?"}, escalate=True, timeout_s=0.3)
        assert "bob did not answer" in str(late.value)
        first = await told(dora, lambda message: "escalation" in message.payload.get("context", {}))
        name = first.payload["context"]["escalation"]
        second = await told(hugo, lambda message: message.payload["context"].get("escalation") == name)
        assert second.priority == "Critical"
        remote = Remote(ground.url, ground.token("hugo"))
        (open_one,) = [
            row
            for row in (await seen(remote, "v1", "escalations", until=lambda page: page["items"]))["items"]
            if row["trigger"] == "request_timeout"
        ]
        assert (open_one["escalation"], open_one["state"]) == (name, "human_escalation")
        assert (await hugo.resolve_escalation(name, "I asked bob on the phone")).state == "normal"
        (closed,) = [row for row in await dora.list_escalations(closed=True) if row.escalation == name]
        assert (closed.resolved_by, closed.resolution) == ("hugo", "I asked bob on the phone")
        path = [step.state for step in closed.steps]
        expected = ["director_notified", "human_escalation", "human_intervention", "normal"]
        assert [state for state in path if state in expected] == expected
