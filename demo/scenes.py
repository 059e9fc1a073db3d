"""The demo's scenes: one per feature of the bus. Every figure is measured during the scene."""

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any

from demo.hub import MEMBERS, ON_CALL, DemoHub
from tocsin.client import Agent, Deadlock, Message, NoResponse
from tocsin.core.errors import TocsinError
from tocsin.frames import FrameBus, Priority
from tocsin.frames.errors import ChannelEmptyError

__all__ = ["SCENES", "Scene", "Team", "team"]

NOTE = "CUSTOM_NOTE"
clock = time.perf_counter


class Team:
    """The members of the team, connected; all but the one on call."""

    def __init__(self, hub: DemoHub, members: dict[str, Agent], *, quick: bool = False) -> None:
        self.hub = hub
        self._members = members
        #: Whether the scenes are as short as they can be.
        self.quick = quick
        #: Id of the urgent message that was sent behind a backlog.
        self.alarm = ""

    def __getitem__(self, name: str) -> Agent:
        return self._members[name]

    async def look(self, *path: str, until: Callable[[Any], Any], **query: Any) -> Any:
        """Poll an HTTP endpoint, as the director, until a condition holds."""
        remote = self.hub.remote("dora")
        async with asyncio.timeout(30):
            while not until(view := await asyncio.to_thread(lambda: remote.get(*path, **query))):
                await asyncio.sleep(0.05)
        return view

    async def state(self, message_id: str, wanted: str) -> None:
        """Wait until a message is in a state."""
        await self.look("v1", "messages", message_id, until=lambda rows: rows[0]["state"] == wanted)


Scene = Callable[[Team], Awaitable[str]]


@asynccontextmanager
async def team(hub: DemoHub, *, quick: bool = False) -> AsyncIterator[Team]:
    """Connect all members but the one on call until the end of the block."""
    async with AsyncExitStack() as stack:
        members = {name: await stack.enter_async_context(hub.join(name)) for name in MEMBERS if name != ON_CALL}
        yield Team(hub, members, quick=quick)


async def _next(agent: Agent, about: Callable[[Message], bool]) -> Message:
    async with asyncio.timeout(30):
        async for message in agent.inbox():
            await message.mark_processed()
            if about(message):
                return message
    raise RuntimeError("an attached agent's inbox does not end")


async def work(team_: Team) -> str:
    """Assign tasks, report on them and finish them."""
    dora, done = team_["dora"], 0
    workers = [name for name in MEMBERS if name not in ("dora", "hugo", ON_CALL)]
    rounds, step_s = (2, 0.05) if team_.quick else (10, 0.5)
    started = clock()

    async def do_task(name: str, task: str) -> None:
        me = team_[name]
        given = await _next(me, lambda message: message.correlation_id == task)
        for step in range(1, 4):
            await asyncio.sleep(step_s)
            status = "completed" if step == 3 else "in_progress"
            update = {"taskId": task, "status": status, "progress": step / 3, "currentStep": f"step {step} of 3"}
            await me.send(to="dora", type="TASK_UPDATE", payload=update, correlation_id=given.correlation_id)

    for round_ in range(rounds):
        tasks = {name: f"task_{round_}_{number}" for number, name in enumerate(workers)}
        running = [asyncio.create_task(do_task(name, task)) for name, task in tasks.items()]
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
            update_ = await _next(dora, lambda message: message.type == "TASK_UPDATE")
            done += update_.payload["status"] == "completed"
        await asyncio.gather(*running)
    return (
        f"{done} tasks were assigned, each with three updates, and completed; the director received "
        f"{done * 3} updates in {clock() - started:.1f} s."
    )


async def urgent_first(team_: Team) -> str:
    """Send a Critical message behind a backlog."""
    ada, bob, backlog = team_["ada"], team_["bob"], 200
    for number in range(backlog):
        await ada.send(to="bob", type=NOTE, payload={"text": f"tests of module {number} pass"}, priority="Info")
    sent_at = clock()
    alarm = await team_["erin"].send(
        to="bob", type=NOTE, payload={"text": "production is down: stop the deploy"}, priority="Critical"
    )
    team_.alarm = alarm.message_id
    inbox = bob.inbox()
    first = await anext(inbox)
    took = (clock() - sent_at) * 1e3
    place, message = 1, first
    while message.message_id != alarm.message_id:
        await message.mark_processed()
        message = await anext(inbox)
        place += 1
    await message.mark_processed()
    for _ in range(backlog - place + 1):
        await (await anext(inbox)).mark_processed()
    return (
        f"{backlog} Info messages were waiting for bob when erin sent one Critical message. bob received it as number "
        f"{place} of {backlog + 1}, {took:.0f} ms after it was sent."
    )


async def flood(team_: Team) -> str:
    """Send too many messages from one agent, and measure the delay for others."""
    noisy, tries = team_["carl-2"], 600
    codes: Counter[str] = Counter()

    async def send_one(number: int) -> None:
        try:
            await noisy.send(to="carl", type=NOTE, payload={"text": f"noise {number}"}, priority="Info")
        except TocsinError as error:
            codes[error.code] += 1
        else:
            codes["accepted"] += 1

    await asyncio.gather(*[send_one(number) for number in range(tries)])
    started = clock()
    hello = await team_["ada"].send(to="erin", type=NOTE, payload={"text": "are you there?"}, priority="Coordinate")
    await _next(team_["erin"], lambda message: message.message_id == hello.message_id)
    took = (clock() - started) * 1e3
    for _ in range(codes["accepted"]):
        await _next(team_["carl"], lambda message: message.sender == "carl-2")
    accepted = codes.pop("accepted")
    refused = f"{codes.total()} refused ({', '.join(codes)})" if codes else "none refused"
    return (
        f"carl-2 sent {tries} messages at once: {accepted} were accepted and {refused}. A message from ada to erin "
        f"right after took {took:.0f} ms."
    )


async def recalls(team_: Team) -> str:
    """Recall a message before it is offered, and one after it was read."""
    erin = team_["erin"]
    await team_["hugo"].close()
    early = await erin.send(to="hugo", type=NOTE, payload={"text": "the release is at three"})
    early_recall = await erin.recall_message(early.message_id)
    late = await erin.send(to="ada", type=NOTE, payload={"text": "the release is at four"})
    await _next(team_["ada"], lambda message: message.message_id == late.message_id)
    late_recall = await erin.recall_message(late.message_id)
    return (
        f"A message to hugo, who was offline, was recalled ({early_recall.outcome}); one that ada had already read was "
        f"not ({late_recall.outcome})."
    )


async def stale(team_: Team) -> str:
    """Let a message expire by its TTL."""
    sent = await team_["ada"].send(to="hugo", type=NOTE, payload={"text": "lunch now?"}, ttl_s=1.0)
    started = clock()
    await team_.state(sent.message_id, "expired")
    return (
        f"ada's message to hugo had a TTL of one second; {clock() - started:.1f} s after it was sent it had expired, "
        "unread."
    )


async def inversion(team_: Team) -> str:
    """Hold a lease that an urgent request waits for, and inherit its priority."""
    twin, bob = team_["ada-2"], team_["bob"]
    held = await twin.acquire("src/api/**", priority="Info")

    async def wait() -> None:
        async with bob.acquire("src/api/users.py", priority="Blocking"):
            pass

    waiting = asyncio.create_task(wait())
    view = await team_.look("v1", "waits", until=lambda seen: seen["waits"])
    raised = next(row["inherited"] for row in view["agents"] if row["agent"] == "ada-2")
    started = clock()
    await held.release()
    await waiting
    return (
        f"The clone ada-2 held src/api/** at Info when bob requested src/api/users.py at "
        f"{view['waits'][0]['priority']}: the clone inherited {raised},"
        f" and bob had the lease {(clock() - started) * 1e3:.0f} ms after its release."
    )


async def deadlock(team_: Team) -> str:
    """Let two agents wait for each other, and resolve the deadlock."""
    ada, bob = team_["ada"], team_["bob"]
    a, b = await ada.acquire("db/migrations"), await bob.acquire("ci/pipeline")

    async def wait() -> None:
        async with ada.acquire("ci/pipeline", priority="Blocking"):
            pass

    waiting = asyncio.create_task(wait())
    await team_.look("v1", "leases", until=lambda seen: any(row["agent"] == "ada" for row in seen["waiting"]))
    started = clock()
    try:
        await bob.acquire("db/migrations", priority="Coordinate")
        cycle = "no deadlock was found"
    except Deadlock as error:
        cycle = str(error).split(":")[-1].strip()
    took = (clock() - started) * 1e3
    await b.lost()
    await waiting
    await a.release()
    return f"ada and bob each held a lease that the other requested. bob was refused after {took:.0f} ms ({cycle})."


def _written(done: list[int]) -> str:
    return ",".join(map(str, done))


async def interrupt(team_: Team) -> str:
    """Interrupt work at a pause point, and resume it."""
    chore = await team_["dora"].send(
        to="erin", type=NOTE, payload={"text": "tidy the changelog, in four steps"}, priority="Info"
    )
    erin, done, at = team_["erin"], [], 0
    given = await anext(erin.inbox())
    while given.message_id != chore.message_id:
        await given.mark_processed()
        given = await anext(erin.inbox())
    async with erin.working_on(given) as working:
        for step in range(4):
            await asyncio.sleep(0.1)
            done.append(step)
            if step == 1:
                await team_["ada"].send(
                    to="erin", type=NOTE, payload={"text": "the disk of the database is full"}, priority="Critical"
                )
                await asyncio.sleep(0.2)
            stopped = await working.pause_point(save=partial(_written, done))
            if stopped is not None:
                at = step
                async with stopped:
                    done = []
                done = [int(each) for each in stopped.saved.split(",")]
    return (
        f"erin was at step {at + 1} of 4 when ada sent a Critical message. The work was paused, the message handled, "
        f"and the work resumed with its saved state ({len(done)} steps in the end, none twice)."
    )


async def escalate(team_: Team) -> str:
    """Leave a request unanswered until it is escalated to the director and then to a human."""
    started = clock()
    with contextlib.suppress(NoResponse):
        await team_["ada"].request("carl", "CUSTOM_QUESTION", {"text": "ship it?"}, escalate=True, timeout_s=1.0)
    async with team_.hub.join("hugo") as hugo:
        received = await _next(hugo, lambda message: "escalation" in message.payload.get("context", {}))
        took = clock() - started
        name = received.payload["context"]["escalation"]
        await hugo.resolve_escalation(name, "I asked carl on the phone: ship it")
    return (
        f"carl did not answer ada within a second. The director was notified and did not act for 3 s; {took:.1f} s "
        f"after the request it was in hugo's inbox at {received.priority}, and hugo resolved it."
    )


async def dead_letter(team_: Team) -> str:
    """Reject a message, and redrive it from the dead letters."""
    sent = await team_["dora"].send(to="bob", type=NOTE, payload={"text": "deploy with config/staging.yaml"})
    bob = team_["bob"]
    async for message in bob.inbox():
        if message.message_id == sent.message_id:
            await message.reject("the config cannot be read", can_retry=False)
            break
        await message.mark_processed()
    await team_.state(sent.message_id, "dead")
    letters = await team_.look("v1", "dead-letters", until=lambda page: page["items"])
    await team_["dora"].redrive_dead_letters([sent.message_id])
    again = await _next(bob, lambda message: message.message_id == sent.message_id)
    await team_.state(sent.message_id, "processed")
    return (
        f"bob rejected a message from dora; it became a dead letter ({letters['items'][0]['reason']}), was redriven, "
        f"and was processed on attempt {again.offer}."
    )


async def wake(team_: Team) -> str:
    """Send a message to an agent that is not running, and let its waker start it."""
    dora, started = team_["dora"], clock()
    question = {"text": "the nightly build is red: who looks at it?"}
    sent = await dora.send(to=ON_CALL, type=NOTE, payload=question, priority="Blocking")
    answer = await _next(dora, lambda message: message.sender == ON_CALL)
    took = clock() - started
    await team_.state(sent.message_id, "processed")
    record = await team_.look("v1", "agents", ON_CALL, until=lambda agent: not agent["sessions"])
    return (
        f"{ON_CALL} was not running (reached by its {sent.reach}). After half a second the hub started its worker; "
        f'{took:.1f} s after the message dora had the answer: "{answer.payload["text"]}". Outcome of the wake: '
        f"{record['wake']['outcome']}. With nothing left to do the worker ended."
    )


async def shed(team_: Team) -> str:
    """Publish more frames than can be read: frames of less important subscribers are dropped first."""
    bus: FrameBus[dict[str, int]] = FrameBus()
    bursts, burst = 60, 48
    #: Subscribers by name, with the number of frames that they read of each burst.
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
    received = ", ".join(
        f"{kind} {accounts[name].dropped / (bursts * burst):.0%}" for kind, name in zip(readers, names, strict=True)
    )
    return f"{bursts * burst} frames were published in bursts, twice as fast as most were read. Dropped: {received}."


#: The scenes in order, with their titles.
SCENES: dict[str, Scene] = {
    "urgent messages first": urgent_first,
    "tasks and updates": work,
    "rate limits": flood,
    "recall": recalls,
    "expiry": stale,
    "priority inheritance": inversion,
    "deadlock": deadlock,
    "interrupt at a pause point": interrupt,
    "escalation to a human": escalate,
    "dead letter and redrive": dead_letter,
    "a sleeping agent is woken": wake,
    "load shedding of frames": shed,
}
