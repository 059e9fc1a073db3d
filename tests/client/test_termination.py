"""Programs that are terminated, or exit without closing their agents: what they have not confirmed returns at once.

The hub keeps the session of a lost connection for an hour here, so nothing returns because time has passed.
"""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

import pytest

from tests.client.grounds import POLICY, HubGround, prepared
from tests.client.wires import Wire
from tests.forks import Forked
from tests.patience import PATIENCE_S
from tocsin.client import Agent

NOTE = "CUSTOM_NOTE"
SERVER = "health_interval_s: 86400\nsocket: {resume_grace_s: 3600}\n"


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubGround]:
    hub = prepared(tmp_path_factory.mktemp("hub"), POLICY, SERVER)
    hub.start()
    yield hub
    hub.hub.stop()


@pytest.fixture
async def ground(hub: HubGround) -> AsyncIterator[HubGround]:
    async with hub.join("bob"):
        pass
    yield hub
    await asyncio.to_thread(hub.clear)


@contextmanager
def running(ground: HubGround, kind: str, *words: str, url: str = "") -> Iterator[Forked]:
    environment = os.environ | {"TOCSIN_TOKEN": ground.token("bob")}
    process = Forked(["tests.client.program", kind, url or ground.url, *words], env=environment)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


async def line(process: Forked) -> str:
    assert process.stdout is not None
    return (await asyncio.to_thread(process.stdout.readline)).strip()


async def send(ada: Agent) -> str:
    return (await ada.send(to="bob", type=NOTE, priority="Critical")).message_id


async def state(ada: Agent, message_id: str) -> str:
    return (await ada.get_message(message_id))[0].state


@pytest.mark.parametrize("kind", ["async", "sync", "uvloop", "both"])
async def test_sigterm_closes_the_sessions_and_then_ends_the_process(ground: HubGround, kind: str) -> None:
    async with ground.join("ada") as ada:
        with running(ground, kind) as process:
            count = 2 if kind == "both" else 1
            while [one.sessions for one in await ada.list_agents() if one.agent == "bob"] != [{"push": count}]:
                await asyncio.sleep(0.01)
            sent = [await send(ada) for _ in range(2 * count)]
            assert {await line(process) for _ in sent} == set(sent)
            process.terminate()
            assert await asyncio.to_thread(process.wait, PATIENCE_S) == -signal.SIGTERM
            assert [await state(ada, one) for one in sent] == ["queued"] * len(sent)
            assert await line(process) == "", "the program is not told"


async def test_a_killed_program_that_is_started_again_gets_what_it_had(ground: HubGround) -> None:
    """It cannot say goodbye: its next process replaces the session."""
    async with ground.join("ada") as ada:
        with running(ground, "async") as process:
            sent = await send(ada)
            assert await line(process) == sent
            process.kill()
            await asyncio.to_thread(process.wait, PATIENCE_S)
        assert await state(ada, sent) == "offered"
        with running(ground, "async") as process:
            assert await line(process) == sent
            process.terminate()
            await asyncio.to_thread(process.wait, PATIENCE_S)


@pytest.mark.parametrize("kind", ["leave", "leave_sync"])
async def test_a_program_that_exits_without_closing_gives_back_what_it_has(ground: HubGround, kind: str) -> None:
    async with ground.join("ada") as ada:
        with running(ground, kind) as process:
            sent = await send(ada)
            assert await line(process) == sent
            assert await asyncio.to_thread(process.wait, PATIENCE_S) == 0
            while await state(ada, sent) != "queued":
                await asyncio.sleep(0.01)


async def test_a_program_decides_what_sigterm_does(ground: HubGround) -> None:
    async with ground.join("ada") as ada:
        with running(ground, "decide") as process:
            sent = await send(ada)
            assert await line(process) == sent
            process.terminate()
            assert (await line(process), await asyncio.to_thread(process.wait, PATIENCE_S)) == ("orderly", 0)
            assert await state(ada, sent) == "queued"


async def test_closing_on_sigterm_can_be_switched_off(ground: HubGround) -> None:
    async with ground.join("ada") as ada:
        with running(ground, "async", "off") as process:
            sent = await send(ada)
            assert await line(process) == sent
            process.terminate()
            assert await asyncio.to_thread(process.wait, PATIENCE_S) == -signal.SIGTERM
            assert await state(ada, sent) == "offered"


async def test_the_handler_of_sigterm_stays_no_longer_than_the_agents(ground: HubGround) -> None:
    with running(ground, "restore") as process:
        assert [await line(process) for _ in range(3)] == [
            "False",
            "True",
            "True only the main thread can handle signals",
        ]
    with running(ground, "restore_sync") as process:
        assert [await line(process) for _ in range(2)] == ["False", "True"]


async def test_a_forked_process_leaves_the_agents_of_its_parent_alone(ground: HubGround) -> None:
    async with ground.join("ada") as ada:
        with running(ground, "fork") as process:
            assert await line(process) == str(-signal.SIGTERM)
            sent = await send(ada)
            assert await line(process) == sent
            assert await asyncio.to_thread(process.wait, PATIENCE_S) == 0


@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_a_hub_that_does_not_answer_delays_the_end_for_a_limited_time(ground: HubGround, kind: str) -> None:
    async with Wire(ground.port) as wire, ground.join("ada") as ada:
        for words, signals in (((kind, "hurried"), 1), ((kind,), 2)):
            with running(ground, *words, url=wire.url) as process:
                sent = await send(ada)
                while await line(process) != sent:
                    pass
                wire.freeze()
                for _ in range(signals):  # the second one ends it at once
                    process.terminate()
                    await asyncio.sleep(0.1)
                assert await asyncio.to_thread(process.wait, PATIENCE_S) == -signal.SIGTERM
                wire.thaw()
