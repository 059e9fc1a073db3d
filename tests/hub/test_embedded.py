"""The embedded bus: the whole of it in one process."""

import asyncio
from pathlib import Path

import pytest

from tocsin.client import Agent, ConnectionState
from tocsin.core.commands import Caller, RegisterAgent, Registered
from tocsin.core.errors import HubUnavailable, NotPermitted, RoutingFailed, ValidationFailed
from tocsin.hub.embedded import Tocsin
from tocsin.journal.errors import ProjectBusy
from tocsin.wire.socket import Hello


async def test_a_message_goes_from_one_agent_to_another(tmp_path: Path) -> None:
    async with await Tocsin.open(tmp_path / "team") as bus:
        ada = await bus.join("ada", type="Manager")
        bob = await bus.join("bob")
        inbox = bob.inbox()
        receipt = await ada.send(to="bob", type="TaskAssigned", payload={"text": "where is it?"})
        assert receipt.delivered
        message = await anext(inbox)
        assert message.payload == {"text": "where is it?"}
        assert (await message.acknowledge("processed")).state == "processed"
        await bob.close()
        await ada.close()


async def test_an_agent_may_also_be_connected_by_its_own_name(tmp_path: Path) -> None:
    async with await Tocsin.open(tmp_path / "team") as bus:
        async with Agent.connect(bus, agent="ada", role="director", type="Manager") as ada:
            assert ((await ada.get_agent("ada")).role, ada.name) == ("director", "ada")
        with pytest.raises(NotPermitted, match="name the agent"):
            await Agent.connect(bus)


async def test_a_refusal_is_raised(tmp_path: Path) -> None:
    async with await Tocsin.open(tmp_path / "team") as bus, bus.join("ada", type="Manager") as ada:
        with pytest.raises(RoutingFailed, match="E_ROUTING_001"):
            await ada.send(to="nobody", type="TaskAssigned")
        with pytest.raises(ValidationFailed, match="E_VALIDATION_004"):
            await bus.join("no name")


async def test_what_was_sent_is_there_after_a_restart(tmp_path: Path) -> None:
    async with await Tocsin.open(tmp_path / "team") as bus:
        async with bus.join("bob"):
            pass
        async with bus.join("ada", type="Manager") as ada:
            first = await ada.send(to="bob", type="TaskAssigned")
            second = await ada.send(to="bob", type="TaskAssigned")
            assert (first.recipient_state, first.queued) == ("not_available_offline", True)
            assert (await ada.recall_message(second.message_id)).outcome == "recalled"
    async with await Tocsin.open(tmp_path / "team") as bus, bus.join("bob") as bob:
        taken = [message async for message in bob.inbox(timeout_s=0.1)]
        assert [message.message_id for message in taken] == [first.message_id]
        await taken[0].mark_processed()


async def test_a_bus_that_closes_tells_who_is_attached(tmp_path: Path) -> None:
    before = asyncio.all_tasks()
    bus = await Tocsin.open(tmp_path / "team")
    ada, bob = await bus.join("ada"), await bus.join("bob")
    await ada.send(to="bob", type="StatusUpdate", payload={"n": 1})
    reading = asyncio.create_task(anext(ada.inbox()))
    inbox = bob.inbox()
    await bob.get_agent("bob")
    await bus.close()
    with pytest.raises(HubUnavailable, match="E_HUB_003"):
        await reading
    assert ada.state is ConnectionState.FAILED
    with pytest.raises(HubUnavailable, match="E_HUB_003"):
        await ada.send(to="bob", type="StatusUpdate")
    with pytest.raises(HubUnavailable):
        await anext(inbox)
    assert asyncio.all_tasks() == before
    async with await Tocsin.open(tmp_path / "team") as again, again.join("bob") as bob:
        assert (await anext(bob.inbox())).payload == {"n": 1}, "it was pushed, and never seen"


async def test_an_agent_that_says_no_goodbye_has_gone_all_the_same(tmp_path: Path) -> None:
    async with await Tocsin.open(tmp_path / "team") as bus, bus.join("eve") as eve:
        link = await bus.transport("ada", "primary").dial()
        await link.send([Hello(id=0, window=1, type="AdHoc", versions=("1.1.0",))])
        await link.receive()
        assert (await eve.get_agent("ada")).presence == "available"
        await link.close()
        assert (await eve.get_agent("ada")).presence == "not_available_offline"


async def test_commands_can_be_given_directly(tmp_path: Path) -> None:
    async with await Tocsin.open(tmp_path / "team") as bus:
        reply = await bus.call(RegisterAgent("Manager", ("1.0.0",)), Caller("ada", "primary"))
        assert reply == Registered("ada", "1.0.0")
        with pytest.raises(NotPermitted, match="E_AUTH_003"):
            await bus.call(RegisterAgent("Manager", ("1.0.0",)), Caller("ada", "king"))


async def test_a_directory_is_open_once(tmp_path: Path) -> None:
    async with await Tocsin.open(tmp_path / "team"):
        with pytest.raises(ProjectBusy):
            await Tocsin.open(tmp_path / "team")
    await asyncio.gather((await Tocsin.open(tmp_path / "team")).close())


async def test_the_lazier_mode_is_named_in_every_receipt(tmp_path: Path) -> None:
    async with await Tocsin.open(tmp_path / "team", durability="NORMAL") as bus, bus.join("ada") as ada:
        receipt = await ada.send(to="ada", type="TaskAssigned")
        assert (receipt.durability, receipt.copies) == ("buffered", 1)
