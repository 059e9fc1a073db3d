"""The team's ordinary work, at a calm rate and until the demo ends.

A director assigns tasks; workers reserve files, report progress and ask each other questions. An activity that is
refused, for instance because the reader took a lease away or changed the policy, is given up, and the next one begins.
"""

import asyncio
import contextlib
import itertools
import random
from collections.abc import Awaitable, Callable

from demo.desk import MERGE, QUESTION, SILENT
from demo.hub import HUMAN, MEMBERS, ON_CALL
from demo.scenes import NOTE, Team
from tocsin.client import Agent, Message
from tocsin.core.errors import TocsinError

__all__ = ["work_on"]

#: Time between two tasks, steps, questions and alarms, seconds.
_TASK_S, _STEP_S, _QUESTION_S, _ALARM_S = 2.0, 3.0, 15.0, 45.0
_LEASE_WAIT_S = 20.0
_PARTS = ("api", "billing-report", "checkout", "docs", "login", "search", "settings")
_TASKS = ("add a test to", "fix a warning in", "measure", "review", "simplify", "write a page about")
_QUESTIONS = (
    "which time zone do reports use?",
    "may I rename the column total?",
    "is the staging database free?",
    "who reviews the login page?",
)
_ALARMS = ("the build is red", "staging does not answer", "a test fails on main")


async def work_on(team_: Team) -> None:
    """Let the team work until cancelled."""
    chance = random.Random(7)  # noqa: S311
    workers = [name for name in MEMBERS if name not in ("dora", HUMAN, ON_CALL, SILENT)]
    asking = [name for name in workers if MEMBERS[name][0] == "primary"]

    async def assign(number: int) -> None:
        part, task = chance.choice(_PARTS), f"task_{number}"
        words = f"{chance.choice(_TASKS)} {part}"
        assignment = {
            "taskId": task,
            "taskRef": f"Task {number}",
            "taskDescription": words,
            "memoryLogPath": f"memory/{task}.md",
            "executionType": "multi-step",
        }
        worker = workers[number % len(workers)]
        await team_["dora"].send(to=worker, type="TASK_ASSIGNMENT", payload=assignment, correlation_id=f"work_{number}")

    async def ask(number: int) -> None:
        one, other = chance.sample(asking, 2)
        words = {"text": _QUESTIONS[number % len(_QUESTIONS)]}
        await team_[one].request(other, QUESTION, words, timeout_s=30.0, escalate=False)

    async def alarm(number: int) -> None:
        one, other = chance.sample(asking, 2)
        words = {"text": _ALARMS[number % len(_ALARMS)]}
        await team_[one].send(to=other, type=NOTE, payload=words, priority="Critical")

    async with asyncio.TaskGroup() as group:
        for name in [*workers, "dora"]:
            group.create_task(_Member(team_, name).read_inbox())
        group.create_task(_read_only(team_[SILENT]))
        for interval_s, activity in ((_TASK_S, assign), (_QUESTION_S, ask), (_ALARM_S, alarm)):
            group.create_task(_repeat(interval_s, activity))


async def _repeat(interval_s: float, activity: Callable[[int], Awaitable[None]]) -> None:
    for number in itertools.count(1):
        with contextlib.suppress(TocsinError):
            await activity(number)
        await asyncio.sleep(interval_s)


async def _read_only(agent: Agent) -> None:
    """Receive messages and do nothing about them."""
    while True:
        with contextlib.suppress(TocsinError):
            async for _ in agent.inbox():
                pass
        await asyncio.sleep(1)


class _Member:
    """One member at work."""

    def __init__(self, team_: Team, name: str) -> None:
        self._me = team_[name]
        self._name = name

    async def read_inbox(self) -> None:
        """Handle messages as they arrive; tasks are worked on beside them."""
        async with asyncio.TaskGroup() as tasks:
            while True:
                with contextlib.suppress(TocsinError):
                    async for message in self._me.inbox():
                        with contextlib.suppress(TocsinError):
                            await self._handle(message, tasks)
                await asyncio.sleep(1)  # An inbox ends with its connection, which the SDK makes again.

    async def _handle(self, message: Message, tasks: asyncio.TaskGroup) -> None:
        if message.type == "TASK_ASSIGNMENT":
            tasks.create_task(self._work_on(message))
        elif message.type == QUESTION:
            await asyncio.sleep(_STEP_S / 3)
            await message.reply({"text": "yes, until noon"})
            return
        elif message.type == MERGE:
            await asyncio.sleep(_STEP_S)
        await message.mark_processed()

    async def _work_on(self, message: Message) -> None:
        """Reserve a file, report three steps, and release it."""
        task, part = message.payload["taskId"], message.payload["taskDescription"].split()[-1]
        with contextlib.suppress(TocsinError):
            async with self._me.acquire(f"src/{part}/{self._name}.py", wait_s=_LEASE_WAIT_S):
                for step in range(1, 4):
                    await asyncio.sleep(_STEP_S)
                    status = "completed" if step == 3 else "in_progress"
                    update = {"taskId": task, "status": status, "progress": step / 3, "currentStep": f"step {step}"}
                    thread = message.correlation_id
                    await self._me.send(to="dora", type="TASK_UPDATE", payload=update, correlation_id=thread)
