"""The story: one act for each thing that a bus for agents must get right. Every figure is measured as it plays."""

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any

from demo.stage import CAST, Stage
from tocsin.client import Agent, Deadlock, Message, NoResponse
from tocsin.core.errors import TocsinError
from tocsin.frames import FrameBus, Priority
from tocsin.frames.errors import ChannelEmptyError

__all__ = ["ACTS", "Act", "Team", "team"]

NOTE = "CUSTOM_NOTE"
clock = time.perf_counter


class Team:
    """Everybody, attached."""

    def __init__(self, stage: Stage, members: dict[str, Agent]) -> None:
        self.stage = stage
        self._members = members

    def __getitem__(self, name: str) -> Agent:
        return self._members[name]

    async def look(self, *path: str, until: Callable[[Any], Any], **query: Any) -> Any:
        """Look over HTTP, as a director, until something shows."""
        remote = self.stage.remote("dora")
        async with asyncio.timeout(30):
            while not until(view := await asyncio.to_thread(lambda: remote.get(*path, **query))):
                await asyncio.sleep(0.05)
        return view

    async def state(self, message_id: str, wanted: str) -> None:
        """Wait until a message is in a state."""
        await self.look("v1", "messages", message_id, until=lambda rows: rows[0]["state"] == wanted)


Act = Callable[[Team], Awaitable[str]]


@asynccontextmanager
async def team(stage: Stage) -> AsyncIterator[Team]:
    """Attach everybody for as long as the block takes."""
    async with AsyncExitStack() as stack:
        yield Team(stage, {name: await stack.enter_async_context(stage.join(name)) for name in CAST})


async def _next(agent: Agent, about: Callable[[Message], bool]) -> Message:
    async with asyncio.timeout(30):
        async for message in agent.inbox():
            await message.processed()
            if about(message):
                return message
    raise RuntimeError("an attached agent's inbox does not end")


async def work(all_: Team) -> str:
    """Do a morning's work: tasks are given out, reported on and finished."""
    dora, done = all_["dora"], 0
    hands = [name for name in CAST if name not in ("dora", "hugo")]
    started = clock()

    async def toil(name: str, task: str) -> None:
        me = all_[name]
        given = await _next(me, lambda message: message.correlation_id == task)
        for step in range(1, 4):
            await asyncio.sleep(0.5)
            status = "completed" if step == 3 else "in_progress"
            update = {"taskId": task, "status": status, "progress": step / 3, "currentStep": f"step {step} of 3"}
            await me.send(to="dora", type="TASK_UPDATE", payload=update, correlation_id=given.correlation_id)

    for round_ in range(10):
        tasks = {name: f"task_{round_}_{number}" for number, name in enumerate(hands)}
        toiling = [asyncio.create_task(toil(name, task)) for name, task in tasks.items()]
        for name, task in tasks.items():
            assignment = {
                "taskId": task,
                "taskRef": f"Task {round_}.{name}",
                "taskDescription": f"{name} builds part {round_} of the service",
                "memoryLogPath": f"memory/{task}.md",
                "executionType": "multi-step",
            }
            await dora.send(to=name, type="TASK_ASSIGNMENT", payload=assignment, correlation_id=task)
        for _ in range(3 * len(tasks)):
            heard = await _next(dora, lambda message: message.type == "TASK_UPDATE")
            done += heard.payload["status"] == "completed"
        await asyncio.gather(*toiling)
    return (
        f"{done} tasks were given out, each reported on three times and finished; the director heard "
        f"{done * 3} updates in {clock() - started:.1f} s."
    )


async def urgent_first(all_: Team) -> str:
    """Let something Critical overtake a backlog."""
    ada, bob, backlog = all_["ada"], all_["bob"], 200
    for number in range(backlog):
        await ada.send(to="bob", type=NOTE, payload={"routine": number}, priority="Info")
    sent_at = clock()
    await all_["erin"].send(to="bob", type=NOTE, payload={"alarm": True}, priority="Critical")
    inbox = bob.inbox()
    first = await anext(inbox)
    took = (clock() - sent_at) * 1e3
    place, message = 1, first
    while "alarm" not in message.payload:
        await message.processed()
        message = await anext(inbox)
        place += 1
    await message.processed()
    for _ in range(backlog - place + 1):
        await (await anext(inbox)).processed()
    return (
        f"{backlog} routine notes waited for bob when erin sent one Critical message. It was number {place} of "
        f"{backlog + 1} that bob saw, {took:.0f} ms after it was sent."
    )


async def flood(all_: Team) -> str:
    """Flood, and see that nobody else notices."""
    noisy, tries = all_["carl-2"], 600
    codes: Counter[str] = Counter()

    async def shout(number: int) -> None:
        try:
            await noisy.send(to="carl", type=NOTE, payload={"noise": number}, priority="Info")
        except TocsinError as error:
            codes[error.code] += 1
        else:
            codes["accepted"] += 1

    await asyncio.gather(*[shout(number) for number in range(tries)])
    started = clock()
    await all_["ada"].send(to="erin", type=NOTE, payload={"hello": True}, priority="Coordinate")
    await _next(all_["erin"], lambda message: "hello" in message.payload)
    took = (clock() - started) * 1e3
    for _ in range(codes["accepted"]):
        await _next(all_["carl"], lambda message: "noise" in message.payload)
    refused = ", ".join(f"{count} with {code}" for code, count in codes.items() if code != "accepted") or "none"
    return (
        f"carl-2 tried {tries} notes at once: {codes['accepted']} were taken, refused were {refused}. A note from ada "
        f"to erin right after took {took:.0f} ms."
    )


async def recalls(all_: Team) -> str:
    """Take back what nobody has been offered, and fail to take back what was read."""
    erin = all_["erin"]
    await all_["hugo"].close()
    early = await erin.send(to="hugo", type=NOTE, payload={"oops": 1})
    won = await erin.recall(early.message_id)
    late = await erin.send(to="ada", type=NOTE, payload={"oops": 2})
    await _next(all_["ada"], lambda message: message.message_id == late.message_id)
    lost = await erin.recall(late.message_id)
    return (
        f"A note to hugo, who was away, was taken back ({won.outcome}); one that ada had already read was not "
        f"({lost.outcome}), and erin was told so."
    )


async def stale(all_: Team) -> str:
    """Let a message's time run out before anybody acts on it."""
    sent = await all_["ada"].send(to="hugo", type=NOTE, payload={"lunch": "now?"}, ttl_s=1.0)
    started = clock()
    await all_.state(sent.message_id, "expired")
    return (
        f"ada's note to hugo was good for one second; {clock() - started:.1f} s after it was sent it stood in the "
        "books as expired, unread."
    )


async def inversion(all_: Team) -> str:
    """Stand in the way of something urgent, and inherit its urgency."""
    twin, bob = all_["ada-2"], all_["bob"]
    held = await twin.acquire("src/api/**", priority="Info")

    async def wait() -> None:
        async with bob.acquire("src/api/users.py", priority="Blocking"):
            pass

    waiting = asyncio.create_task(wait())
    view = await all_.look("v1", "waits", until=lambda seen: seen["waits"])
    raised = next(row["inherited"] for row in view["agents"] if row["agent"] == "ada-2")
    started = clock()
    await held.release()
    await waiting
    return (
        f"The clone ada-2 held src/api/** at Info when bob needed src/api/users.py at {view['waits'][0]['priority']}: "
        f"the clone counted as {raised} until it let go, and bob had it {(clock() - started) * 1e3:.0f} ms later."
    )


async def deadlock(all_: Team) -> str:
    """Let two wait for each other, and part them in the decision that would close the circle."""
    ada, bob = all_["ada"], all_["bob"]
    a, b = await ada.acquire("db/migrations"), await bob.acquire("ci/pipeline")

    async def wait() -> None:
        async with ada.acquire("ci/pipeline", priority="Blocking"):
            pass

    waiting = asyncio.create_task(wait())
    await all_.look("v1", "leases", until=lambda seen: any(row["agent"] == "ada" for row in seen["waiting"]))
    started = clock()
    try:
        await bob.acquire("db/migrations", priority="Coordinate")
        circle = "nobody noticed"
    except Deadlock as error:
        circle = str(error).split(":")[-1].strip()
    took = (clock() - started) * 1e3
    await b.lost()
    await waiting
    await a.release()
    return f"ada and bob each held what the other wanted. bob was told after {took:.0f} ms ({circle}); ada went on."


def _written(done: list[int]) -> str:
    return ",".join(map(str, done))


async def interrupt(all_: Team) -> str:
    """Interrupt work at a pause point, and go on where it was."""
    chore = await all_["dora"].send(to="erin", type=NOTE, payload={"steps": 4}, priority="Info")
    erin, done, at = all_["erin"], [], 0
    given = await anext(erin.inbox())
    while given.message_id != chore.message_id:
        await given.processed()
        given = await anext(erin.inbox())
    async with erin.working_on(given) as working:
        for step in range(4):
            await asyncio.sleep(0.1)
            done.append(step)
            if step == 1:
                await all_["ada"].send(to="erin", type=NOTE, payload={"fire": True}, priority="Critical")
                await asyncio.sleep(0.2)
            stopped = await working.pause_point(save=partial(_written, done))
            if stopped is not None:
                at = step
                async with stopped:
                    done = []
                done = [int(each) for each in stopped.saved.split(",")]
    return (
        f"erin was at step {at + 1} of 4 when ada rang. The work was put aside at the pause point, the alarm dealt "
        f"with, and the steps done so far ({len(done)} in the end, none twice) were given back."
    )


async def escalate(all_: Team) -> str:
    """Let a question go unanswered: to the director, then to a human, who settles it."""
    started = clock()
    with contextlib.suppress(NoResponse):
        await all_["ada"].request("carl", "CUSTOM_QUESTION", {"text": "ship it?"}, escalate=True, timeout_s=1.0)
    async with all_.stage.join("hugo") as hugo:
        told = await _next(hugo, lambda message: "escalation" in message.payload.get("context", {}))
        took = clock() - started
        name = told.payload["context"]["escalation"]
        settled = await hugo.resolve(name, "I asked carl on the phone: ship it")
    return (
        f"carl did not answer ada within a second. The director was told, did not act for 3 s, and {took:.1f} s after "
        f"the question it was in hugo's inbox at {told.priority}; hugo settled it ({settled.state})."
    )


async def dead_letter(all_: Team) -> str:
    """Keep what cannot be handled, and send it again once that is mended."""
    sent = await all_["dora"].send(to="bob", type=NOTE, payload={"config": "broken"})
    bob = all_["bob"]
    async for message in bob.inbox():
        if message.message_id == sent.message_id:
            await message.nack("the config cannot be read", can_retry=False)
            break
        await message.processed()
    await all_.state(sent.message_id, "dead")
    letters = await all_.look("v1", "dead-letters", until=lambda page: page["items"])
    await all_["dora"].redrive(sent.message_id)
    again = await _next(bob, lambda message: message.message_id == sent.message_id)
    await all_.state(sent.message_id, "processed")
    return (
        f"bob could not handle a message of dora's; it became a dead letter ({letters['items'][0]['reason']}), was "
        f"redriven once the cause was mended, and was processed on attempt {again.offer}."
    )


async def shed(all_: Team) -> str:
    """Publish more than can be read: the less important go without first."""
    bus: FrameBus[dict[str, int]] = FrameBus()
    bursts, burst = 60, 48
    #: Who reads how many frames of each burst.
    readers = {
        "critical": (bus.subscribe("person-detector", priority=Priority.CRITICAL, capacity=64), burst),
        "normal": (bus.subscribe("recorder", capacity=64), burst // 2),
        "best effort": (bus.subscribe("experiment", priority=Priority.BEST_EFFORT, capacity=64), burst // 2),
    }
    for _ in range(bursts):
        for number in range(burst):
            bus.publish({"frame": number})
        for channel, pace in readers.values():
            with contextlib.suppress(ChannelEmptyError):
                for _ in range(pace):
                    channel.get_nowait()
    accounts = bus.stats().subscribers
    bus.close()
    names = ("person-detector", "recorder", "experiment")
    told = ", ".join(
        f"{kind} {accounts[name].dropped / (bursts * burst):.0%}" for kind, name in zip(readers, names, strict=True)
    )
    return f"{bursts * burst} frames came in bursts, twice as fast as most could be read. Dropped were: {told}."


#: The acts in order, with what is announced.
ACTS: dict[str, Act] = {
    "the urgent overtakes the routine": urgent_first,
    "a morning's work": work,
    "a flood is held back": flood,
    "a recall wins, another loses": recalls,
    "a time to live fires": stale,
    "an inversion is undone": inversion,
    "a deadlock is broken": deadlock,
    "an interrupt at a pause point": interrupt,
    "an escalation reaches the human": escalate,
    "a dead letter is redriven": dead_letter,
    "frames are shed in the right order": shed,
}
