"""A recorded history of concurrent clients, with cut connections and killed hubs, contradicts no promise."""

import asyncio
import contextlib
import random
from pathlib import Path

import pytest

from tests.acceptance.histories import History, Hold, Recall, Sent, Taken, violations
from tests.client.grounds import HubGround, hub_ground
from tests.client.wires import Wire
from tests.patience import PATIENCE_S
from tests.soak import scaled, within
from tocsin.client import Agent
from tocsin.core.errors import LeaseConflict

NOTE = "CUSTOM_NOTE"
SENDS, HOLDS = scaled(12, 60), scaled(3, 20)


async def send(history: History, agent: Agent, number: int, to: str) -> str:
    name = f"msg_{number}_{agent.name}"
    record = Sent(name, agent.name, to, history.now())
    history.sent.append(record)
    await agent.send(to=to, type=NOTE, message_id=name)
    record.answered = history.now()
    return name


async def produce(history: History, agent: Agent, numbers: range, chance: random.Random) -> None:
    """Send to a reader and to one that comes late, and recall some of what the late one has not seen."""
    for number in numbers:
        to = chance.choice(("reader", "reader", "late"))
        name = await send(history, agent, number, to)
        if to == "late" and chance.random() < 0.5:
            record = Recall(name, history.now())
            history.recalls.append(record)
            record.outcome = (await agent.recall_message(name)).outcome
            record.answered = history.now()


async def consume(history: History, agent: Agent) -> None:
    async for message in agent.inbox():
        if message.type == NOTE:
            history.taken.append(Taken(message.message_id, agent.name, history.now()))


async def contend(history: History, agent: Agent, times: int) -> None:
    for _ in range(times):
        lease = await agent.acquire("resource", ttl_s=600, wait_s=600)
        record = Hold("resource", agent.name, history.now())
        history.holds.append(record)
        await agent.get_me()
        record.released = history.now()
        with contextlib.suppress(LeaseConflict):  # it was released already, and the answer was lost
            await lease.release()


async def disturb(ground: HubGround, wire: Wire, round_: int) -> None:
    """Cut every connection, or kill the hub and start it again, in turn."""
    if round_ % 2 == 0:
        wire.cut()
    else:
        await asyncio.to_thread(ground.kill)
        await asyncio.to_thread(ground.start)


async def under_way(history: History, more: int) -> None:
    """Wait until some more messages were accepted."""
    before = sum(bool(one.answered) for one in history.sent)
    async with asyncio.timeout(PATIENCE_S):
        while sum(bool(one.answered) for one in history.sent) < before + more:
            await asyncio.sleep(0.005)


async def everything_taken(history: History) -> None:
    recalled = {one.message for one in history.recalls if one.outcome == "recalled"}
    wanted = {one.message for one in history.sent} - recalled
    async with asyncio.timeout(PATIENCE_S):
        while not wanted <= {one.message for one in history.taken}:
            await asyncio.sleep(0.05)


async def record(folder: Path, history: History, seed: int) -> None:
    """Record a history: as many sends and holds as there were rounds."""
    rounds = 0
    chance = random.Random(seed)
    async with (
        hub_ground(folder) as ground,
        Wire(ground.port) as wire,
        ground.join("ann", url=wire.url) as ann,
        ground.join("ben", url=wire.url) as ben,
        ground.join("reader", url=wire.url) as reader,
    ):
        async with ground.join("late"):
            pass  # it is known, and away
        reading = [asyncio.create_task(consume(history, reader))]
        for round_ in within(2, 20, budget_s=90):
            numbers = range(round_ * SENDS, (round_ + 1) * SENDS)
            working = [asyncio.create_task(produce(history, agent, numbers, chance)) for agent in (ann, ben)]
            working += [asyncio.create_task(contend(history, agent, HOLDS)) for agent in (ann, ben)]
            await under_way(history, chance.randrange(2, SENDS))
            await disturb(ground, wire, round_)
            await asyncio.gather(*working)
            rounds += 1
        async with ground.join("late", url=wire.url) as late:
            reading.append(asyncio.create_task(consume(history, late)))
            await everything_taken(history)
            for task in reading:
                task.cancel()
            await asyncio.gather(*reading, return_exceptions=True)
    assert len(history.sent) == 2 * rounds * SENDS
    assert len(history.holds) == 2 * rounds * HOLDS


@pytest.mark.parametrize("seed", range(scaled(1, 8)))
async def test_a_disturbed_history_contradicts_no_promise(tmp_path: Path, seed: int) -> None:
    history = History()
    await record(tmp_path, history, seed)
    assert violations(history) == []


def valid() -> History:
    """Return a small history without a violation."""
    history = History()
    history.sent = [Sent("m1", "ann", "bob", 1, 2), Sent("m2", "ann", "bob", 3, 4), Sent("m3", "ann", "bob", 5, 6)]
    history.taken = [Taken("m1", "bob", 7), Taken("m2", "bob", 8)]
    history.recalls = [Recall("m3", 9, 10, "recalled")]
    history.holds = [Hold("r", "ann", 11, 12), Hold("r", "bob", 13, 14)]
    return history


def test_a_valid_history_has_no_violation() -> None:
    assert violations(valid()) == []


def test_the_check_finds_a_loss_and_a_repeat() -> None:
    history = valid()
    del history.taken[1]
    assert violations(history) == ["m2 was accepted and never taken"]
    history.taken += [Taken("m2", "bob", 8), Taken("m2", "bob", 9)]
    assert violations(history) == ["m2 was taken 2 times"]
    history.taken[1:] = [Taken("m2", "bob", 8), Taken("m9", "bob", 9)]
    assert violations(history) == ["bob took m9, which nobody had sent to it"]


def test_the_check_finds_a_recalled_message_that_was_taken() -> None:
    history = valid()
    history.taken.append(Taken("m3", "bob", 15))
    assert violations(history) == ["m3 was recalled and taken"]


def test_the_check_finds_a_wrong_order_and_allows_what_was_concurrent() -> None:
    history = valid()
    history.taken = [Taken("m2", "bob", 7), Taken("m1", "bob", 8)]
    assert violations(history) == ["m2 was taken before m1, which was sent before it"]
    history.sent[1].invoked = 2
    history.sent[0].answered = 3
    assert violations(history) == []


def test_the_check_finds_two_holders() -> None:
    history = valid()
    history.holds[0].released = 14
    assert violations(history) == ["ann and bob held r at the same time"]
