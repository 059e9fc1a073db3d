"""Adoption of tocsin.yaml at the start of a hub: once for each change, and what was adopted meanwhile is named."""

import logging
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
import pytest

from tocsin.core.commands import SYSTEM, Adopted, AdoptPolicy, Caller, RegisterAgent
from tocsin.core.policy import document_of
from tocsin.hub.config import load_config
from tocsin.hub.policy_file import adopt_policy_file, adopted_policies
from tocsin.hub.service import Hub
from tocsin.policies import parse_policy

FIRST = "aging: {threshold_s: 60}"
BOSS = Caller("boss", "director")


async def start(folder: Path, text: str, during: Callable[[Hub], Awaitable[None]] | None = None) -> int | None:
    """Start a hub with a policy file as `tocsin serve` does, and return the version that it adopted."""
    policy = parse_policy(text)
    hub = await Hub.open(folder, policy, load_config(folder / "server.yaml", port=0), project="team")
    try:
        adopted = await adopt_policy_file(hub, policy)
        if during is not None:
            await during(hub)
        return adopted
    finally:
        await hub.close()


def adopting(text: str, reason: str) -> Callable[[Hub], Awaitable[None]]:
    """Return what adopts a policy through the API."""

    async def adopt(hub: Hub) -> None:
        await hub.host.submit(RegisterAgent("Director", ("1.1.0",)), BOSS)
        reply = await hub.host.submit(AdoptPolicy(document_of(parse_policy(text)), reason), BOSS)
        assert isinstance(reply, Adopted)

    return adopt


def in_force(threshold_s: float, version: int) -> Callable[[Hub], Awaitable[None]]:
    async def look(hub: Hub) -> None:
        state = hub.host.exchange.state
        assert (state.policy.aging.threshold_s, state.policy_version) == (threshold_s, version)

    return look


async def test_an_edited_file_is_adopted_at_the_next_start(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Edits after the first start were ignored without a word."""
    assert await start(tmp_path, FIRST, in_force(60, 1)) is None
    assert await start(tmp_path, FIRST, in_force(60, 1)) is None, "it has not changed"
    with caplog.at_level(logging.INFO, "tocsin.hub"):
        assert await start(tmp_path, "aging: {threshold_s: 30}", in_force(30, 2)) == 2
    assert "tocsin.yaml has changed, adopted as version 2: aging.threshold_s: 60 s → 30 s" in caplog.text
    assert await start(tmp_path, "aging: {threshold_s: 30}", in_force(30, 2)) is None
    assert await start(tmp_path, FIRST, in_force(60, 3)) == 3, "going back is a change too"


async def test_what_was_adopted_through_the_api_stays_until_the_file_changes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await start(tmp_path, FIRST, adopting("aging: {threshold_s: 45}", "slower today"))
    with caplog.at_level(logging.INFO, "tocsin.hub"):
        assert await start(tmp_path, FIRST, in_force(45, 2)) is None
    assert "not that of tocsin.yaml: version 2 by boss (slower today); see tocsin policy diff" in caplog.text
    caplog.clear()
    with caplog.at_level(logging.INFO, "tocsin.hub"):
        assert await start(tmp_path, "aging: {threshold_s: 30}", in_force(30, 3)) == 3
    assert "it replaces version 2 by boss (slower today)" in caplog.text


async def test_the_adoption_is_an_event_with_its_reason(tmp_path: Path) -> None:
    await start(tmp_path, FIRST, adopting("aging: {threshold_s: 45}", "slower today"))

    async def look(hub: Hub) -> None:
        found = await hub.reader.ask(lambda tables: adopted_policies(tables, 0, 10))
        assert [(one.version, one.by) for one in found] == [(3, SYSTEM.agent), (2, "boss"), (1, SYSTEM.agent)]
        assert found[0].reason == "tocsin.yaml has changed; it replaces version 2 by boss (slower today)"
        assert msgspec.json.encode(found[0].document["aging"]["threshold_s"]) == b"30.0"

    assert await start(tmp_path, "aging: {threshold_s: 30}", look) == 3


async def test_a_file_that_was_applied_is_not_adopted_again(tmp_path: Path) -> None:
    await start(tmp_path, FIRST, adopting("aging: {threshold_s: 30}", "tocsin.yaml was applied"))
    assert await start(tmp_path, "aging: {threshold_s: 30}", in_force(30, 2)) is None
    await start(tmp_path, "aging: {threshold_s: 30}", adopting("aging: {threshold_s: 45}", "slower today"))
    assert await start(tmp_path, "aging: {threshold_s: 30}", in_force(45, 3)) is None
