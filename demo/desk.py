"""Open matters for the reader: an approval, an escalation, a dead letter and a contested lease.

Each is made at the end of the story and stays open until the reader acts on it, in the dashboard or with the command
line. The team then goes on from the reader's decision, and the demo tells how.
"""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec

from demo.hub import HUMAN, DemoHub
from demo.scenes import NOTE, Team
from tocsin.client import NoResponse
from tocsin.core.errors import TocsinError

__all__ = ["MERGE", "QUESTION", "SILENT", "Matter", "leave_matters"]

MERGE = "CUSTOM_MERGE"
QUESTION = "CUSTOM_QUESTION"
#: The member that holds a lease and answers nothing.
SILENT = "carl-2"
_FILES, _FILE = "src/billing/**", "src/billing/invoice.py"
#: Time between two looks at whether the reader has acted, seconds.
_LOOK_S = 1.0
#: Time that a lease may be waited for, seconds.
_WAIT_S = 86_400.0


class Matter(msgspec.Struct):
    """Something that waits for the reader."""

    #: Page of the dashboard that shows it.
    page: str
    text: str
    #: Arguments of the command that settles it, and what the command does.
    command: str
    does: str
    #: Returns what the team did after the reader acted.
    settled: Callable[[], Coroutine[Any, Any, str]]


async def leave_matters(team_: Team) -> list[Matter]:
    """Make the four matters; return them in the order in which a reader would look at them."""
    question, lease = await asyncio.gather(_escalation(team_), _lease(team_))
    return [await _approval(team_), question, await _dead_letter(team_), lease]


async def _approval(team_: Team) -> Matter:
    """Send a message of a type that is held until a director or a human approves it."""
    words = {"text": "merge invoices into main: 14 files, all tests pass"}
    held = await team_["bob"].send(to="carl", type=MERGE, payload=words)
    page = await team_.look("v1", "approvals", until=lambda page: page["items"], subject=held.message_id)
    approval = page["items"][0]["approval"]

    async def settled() -> str:
        while True:
            copy = (await _rows(team_.hub, "v1", "messages", held.message_id))[0]
            if copy["state"] == "dead":
                return "You refused the merge; bob keeps the branch open."
            if copy["state"] == "processed":
                return "You approved the merge; carl received bob's message and merged the branch."
            await asyncio.sleep(_LOOK_S)

    text = f"Approval: bob asks to {words['text']}. The message to carl is held until you decide."
    return Matter("Human inbox", text, f"--as {HUMAN} approvals approve {approval}", "let bob merge", settled)


async def _escalation(team_: Team) -> Matter:
    """Leave a question unanswered until it has passed the director and reached the human."""
    words = {"text": "do we keep invoices for ten years or for seven?"}
    with contextlib.suppress(NoResponse):
        await team_["ada"].request(SILENT, QUESTION, words, timeout_s=1.0)
    page = await team_.look("v1", "escalations", until=_for_human)
    escalation = _for_human(page)["escalation"]

    async def settled() -> str:
        while True:
            rows = (await _rows(team_.hub, "v1", "escalations"))["items"]
            found = next((row for row in rows if row["escalation"] == escalation), None)
            if found is None or found["state"] == "normal":
                return "You answered the escalation; ada goes on with your answer."
            await asyncio.sleep(_LOOK_S)

    text = f'Escalation: ada asked {SILENT} "{words["text"]}", and neither {SILENT} nor dora answered in time.'
    command = f'--as {HUMAN} escalations resolve {escalation} "ten years"'
    return Matter("Human inbox", text, command, "answer ada", settled)


def _for_human(page: Any) -> Any:
    """Return the escalation of an unanswered question that has reached a human, if there is one."""
    wanted = {"state": "human_escalation", "trigger": "request_timeout"}
    return next((row for row in page["items"] if wanted.items() <= row.items()), None)


async def _dead_letter(team_: Team) -> Matter:
    """Reject a message for good."""
    words = {"text": "deploy with config/production.yaml"}
    sent = await team_["dora"].send(to="erin", type=NOTE, payload=words)
    async with asyncio.timeout(30):
        async for message in team_["erin"].inbox():
            if message.message_id == sent.message_id:
                await message.reject("config/production.yaml does not exist yet", can_retry=False)
                break
            await message.mark_processed()
    await team_.state(sent.message_id, "dead")

    async def settled() -> str:
        while (await _rows(team_.hub, "v1", "messages", sent.message_id))[0]["state"] != "processed":
            await asyncio.sleep(_LOOK_S)
        return "You redrove the dead letter; by now the file exists, and erin has deployed."

    text = f'Dead letter: erin rejected "{words["text"]}", because the file did not exist yet.'
    return Matter("Dead letters", text, f"--as {HUMAN} dlq redrive {sent.message_id}", "let erin try again", settled)


async def _lease(team_: Team) -> Matter:
    """Hold files that another agent waits for."""
    held = await team_[SILENT].acquire(_FILES, wait_s=_WAIT_S)
    waiting = asyncio.create_task(_wait_for_file(team_))
    await team_.look("v1", "leases", until=lambda seen: any(row["agent"] == "bob-2" for row in seen["waiting"]))

    async def settled() -> str:
        await waiting
        return f"You released {_FILES}; bob-2, who had waited for it, has edited {_FILE} and released it."

    text = f"Contested lease: {SILENT} holds {_FILES} and does not move; bob-2 waits for {_FILE}."
    command = f'--as {HUMAN} leases force-release {held.lease} --reason "bob-2 needs it"'
    return Matter("Leases", text, command, "take it from carl-2", settled)


async def _wait_for_file(team_: Team) -> None:
    while True:
        with contextlib.suppress(TocsinError):
            async with team_["bob-2"].acquire(_FILE, priority="Coordinate", wait_s=_WAIT_S):
                await asyncio.sleep(_LOOK_S)
            return
        await asyncio.sleep(_LOOK_S)


async def _rows(hub: DemoHub, *path: str) -> Any:
    """Read a list as the reader; a refusal counts as not found yet."""
    while True:
        with contextlib.suppress(OSError, TocsinError):
            return await asyncio.to_thread(lambda: hub.remote(HUMAN).get(*path))
        await asyncio.sleep(_LOOK_S)
