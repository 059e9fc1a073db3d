"""The embedded bus: the whole of it in one process."""

import asyncio
from pathlib import Path

import msgspec
import pytest

from tests.hub.test_host import run
from tocsin.core.commands import Acknowledged, Receipt
from tocsin.core.errors import RoutingFailed
from tocsin.hub.embedded import Tocsin
from tocsin.journal.errors import ProjectBusy


def question(message_id: str, receiver: str = "bob") -> bytes:
    return msgspec.json.encode(
        {
            "version": "1.1.0",
            "messageId": message_id,
            "timestamp": "2025-11-12T10:00:00Z",
            "sender": {"agentId": "ada", "type": "Manager"},
            "receiver": {"agentId": receiver, "type": "*"},
            "messageType": "TaskAssigned",
            "payload": {"text": "where is it?"},
        }
    )


def test_a_message_goes_from_one_agent_to_another(tmp_path: Path) -> None:
    async def test() -> None:
        async with await Tocsin.open(tmp_path / "team") as bus:
            ada = await bus.join("ada", agent_type="Manager")
            bob = await bus.join("bob")
            inbox = await bob.attach()
            receipt = await ada.send(question("msg_1_a"))
            assert isinstance(receipt, Receipt)
            assert receipt.delivered
            delivery = await inbox.receive()
            assert msgspec.json.decode(delivery.envelope)["payload"] == {"text": "where is it?"}
            await bob.confirm(delivery.signal_id)
            assert isinstance(await bob.acknowledge(delivery.signal_id, "processed"), Acknowledged)
            await inbox.beat()
            await inbox.close()

    run(test())


def test_a_refusal_is_raised(tmp_path: Path) -> None:
    async def test() -> None:
        async with await Tocsin.open(tmp_path / "team") as bus:
            ada = await bus.join("ada", agent_type="Manager")
            with pytest.raises(RoutingFailed, match="E_ROUTING_001"):
                await ada.send(question("msg_1_a", "nobody"))

    run(test())


def test_what_was_sent_is_there_after_a_restart(tmp_path: Path) -> None:
    async def test() -> None:
        async with await Tocsin.open(tmp_path / "team") as bus:
            ada, bob = await bus.join("ada", agent_type="Manager"), await bus.join("bob")
            await ada.send(question("msg_1_a"))
            await ada.send(question("msg_2_a"))
            await ada.recall("msg_2_a")
        async with await Tocsin.open(tmp_path / "team") as bus:
            bob = await bus.join("bob")
            session = await bob.open()
            assert [delivery.signal_id for delivery in await bob.poll(session)] == ["msg_1_a"]
            await bob.processed("msg_1_a")
            assert await bob.poll(session) == ()

    run(test())


def test_a_directory_is_open_once(tmp_path: Path) -> None:
    async def test() -> None:
        async with await Tocsin.open(tmp_path / "team"):
            with pytest.raises(ProjectBusy):
                await Tocsin.open(tmp_path / "team")
        await asyncio.gather((await Tocsin.open(tmp_path / "team")).close())

    run(test())


def test_the_lazier_mode_is_named_in_every_receipt(tmp_path: Path) -> None:
    async def test() -> None:
        async with await Tocsin.open(tmp_path / "team", durability="NORMAL") as bus:
            ada = await bus.join("ada", agent_type="Manager")
            await bus.join("bob")
            receipt = await ada.send(question("msg_1_a"))
            assert isinstance(receipt, Receipt)
            assert (receipt.durability, receipt.copies) == ("buffered", 1)

    run(test())
