"""Every operation through every interface: the same calls have the same outcomes."""

import asyncio
import re
from collections.abc import Set
from pathlib import Path
from typing import Any

import pytest

from tests.operations.interfaces import HUB_INTERFACES, Answer, Interface, embedded, hub_interface
from tests.operations.story import STORY
from tocsin.core.commands import SYSTEM
from tocsin.wire.operation import Where
from tocsin.wire.table import OPERATIONS

#: Parts of replies that follow from when and how a caller is attached, not from the operation.
VOLATILE = {
    *("seq", "presence", "sessions", "recipient_state", "resolved_to_session", "publish_path", "session", "events"),
    "reach",
    *("token", "token_id", "budget", "facts", "since", "frames", "time_to_drain", "delivery_latency", "bounds_s"),
    *("reached_seq", "behind_events", "behind_s", "next", "recent", "gaming", "holders", "value", "limit", "states"),
    "cursor",
}
#: Replies that list what waits: any answer of a tool hands out urgent messages, so less of it does.
CHANGED_BY_TOOLS = {"fetch_inbox", "list_pending"}
_TIME = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+(Z|\+00:00)")


def _is_notice(item: Any) -> bool:
    """Tell whether the bus itself sent a message: tools hand out urgent notices with any answer, others do not."""
    if not isinstance(item, dict):
        return False
    sender = item.get("sender", item.get("envelope", {}).get("sender", {}).get("agentId"))
    return bool(sender == SYSTEM.agent)


def normal(value: Any, names: dict[str, str]) -> Any:
    """Return a reply without what differs from run to run."""
    if isinstance(value, dict):
        return {
            key: normal(part, names)
            for key, part in value.items()
            if key not in VOLATILE
            and not (key == "waiting" and isinstance(part, dict))
            # The sentence of a history entry names sessions and durations, as its facts do.
            and not (key == "text" and "facts" in value)
        }
    if isinstance(value, list):
        return [normal(part, names) for part in value if not _is_notice(part)]
    if isinstance(value, str):
        return "(time)" if _TIME.fullmatch(value) else names.get(value, value)
    return value


async def play(interface: Interface) -> list[Answer]:
    """Play the story and return the outcome of each step."""
    kept: dict[str, str] = {}
    outcomes = []
    for step in STORY:
        operation, given = OPERATIONS[step.operation], step.given(kept)
        answer = await interface.call(step.agent, operation, given, step.envelope)
        while step.items and len(answer.reply["items"]) < step.items:
            await asyncio.sleep(0.02)
            answer = await interface.call(step.agent, operation, given, step.envelope)
        if step.keep is not None and answer.reply is not None:
            kept[step.keep[0]] = answer.reply[step.keep[1]]
        names = {value: f"({name})" for name, value in kept.items()}
        outcomes.append(Answer(normal(answer.reply, names), answer.code, answer.field))
    return outcomes


async def outcomes_of(path: Path, kind: str) -> list[Answer]:
    async with embedded(path) if kind == "embedded" else hub_interface(path, kind) as interface:
        return await play(interface)


@pytest.fixture(scope="module")
async def expected(tmp_path_factory: pytest.TempPathFactory) -> list[Answer]:
    return await outcomes_of(tmp_path_factory.mktemp("http"), "http")


def differences(expected: list[Answer], found: list[Answer], loose: Set[str] = frozenset()) -> list[str]:
    """List the steps that went otherwise than expected; of `loose` operations only the codes are compared."""
    return [
        f"step {index}, {step.agent} calls {step.operation}: {answer}, and not {wanted}"
        for index, (step, wanted, answer) in enumerate(zip(STORY, expected, found, strict=True))
        if (answer.code != wanted.code if step.operation in loose else answer != wanted)
    ]


def test_every_operation_is_in_the_story() -> None:
    assert {step.operation for step in STORY} == set(OPERATIONS)


async def test_the_story_goes_as_it_says(expected: list[Answer]) -> None:
    outcomes = enumerate(zip(STORY, expected, strict=True))
    assert [(index, step, answer) for index, (step, answer) in outcomes if answer.code != step.refused] == []


@pytest.mark.parametrize("kind", [kind for kind in HUB_INTERFACES if kind != "http"])
async def test_outcomes_over_a_hub_are_equal(kind: str, expected: list[Answer], tmp_path: Path) -> None:
    found = await outcomes_of(tmp_path, kind)
    assert differences(expected, found, CHANGED_BY_TOOLS if kind == "mcp" else frozenset()) == []


async def test_outcomes_on_an_embedded_bus_are_equal(expected: list[Answer], tmp_path: Path) -> None:
    found = await outcomes_of(tmp_path, "embedded")
    not_here = {name for name, operation in OPERATIONS.items() if operation.where is Where.HUB}
    refused = Answer(None, "E_STATE_004")
    wanted = [refused if step.operation in not_here else answer for step, answer in zip(STORY, expected, strict=True)]
    assert differences(wanted, found, not_here) == []
