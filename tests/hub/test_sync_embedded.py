"""The embedded bus for code that does not await."""

import threading
from pathlib import Path
from typing import Any

import pytest

from tocsin import SyncTocsin, Tocsin
from tocsin.client import ConnectionState, SyncAgent
from tocsin.core.commands import Caller, RegisterAgent, Registered
from tocsin.core.errors import HubUnavailable, NotPermitted, RoutingFailed
from tocsin.journal.errors import ProjectBusy


def names() -> list[str]:
    return [thread.name for thread in threading.enumerate()]


def test_what_was_sent_is_there_after_a_restart(tmp_path: Path) -> None:
    with SyncTocsin.open(tmp_path / "team") as bus:
        bus.join("bob").close()
        with bus.join("ada", role="director", type="Manager") as ada:
            receipt = ada.send(to="bob", type="TaskAssigned", payload={"text": "make it"})
            assert (receipt.durability, receipt.recipient_state) == ("flushed", "not_available_offline")
            with pytest.raises(RoutingFailed):
                ada.send(to="nobody", type="TaskAssigned")
    assert "tocsin bus" not in names()
    with SyncTocsin.open(tmp_path / "team") as bus, SyncAgent.connect(bus, agent="bob") as bob:
        assert [message.message_id for message in bob.inbox(timeout_s=0.1)] == [receipt.message_id]


def test_commands_can_be_given_directly(tmp_path: Path) -> None:
    with SyncTocsin.open(tmp_path / "team") as bus:
        assert bus.call(RegisterAgent("Manager", ("1.0.0",)), Caller("ada", "primary")) == Registered("ada", "1.0.0")
        with pytest.raises(NotPermitted, match="E_AUTH_003"):
            bus.call(RegisterAgent("Manager", ("1.0.0",)), Caller("ada", "king"))


def test_a_bus_that_closes_tells_who_is_attached(tmp_path: Path) -> None:
    bus = SyncTocsin.open(tmp_path / "team")
    ada, bob = bus.join("ada"), bus.join("bob")
    ended: list[BaseException] = []

    def wait(call: Any) -> None:
        try:
            call()
        except BaseException as error:
            ended.append(error)

    calls = [lambda: next(ada.inbox()), lambda: bob.request(to="cyd", type="StatusUpdate")]
    waiting = [threading.Thread(target=wait, args=(call,)) for call in calls]
    bus.join("cyd").close()
    for thread in waiting:
        thread.start()
    while not sum(ada.get_agent("cyd").waiting.values()):
        pass  # the request is not there yet
    bus.close()
    bus.close()
    for thread in waiting:
        thread.join()
    assert [type(error) for error in ended] == [HubUnavailable, HubUnavailable]
    assert ada.state is ConnectionState.FAILED
    with pytest.raises(HubUnavailable, match="the bus is closed"):
        ada.send(to="bob", type="StatusUpdate")
    with pytest.raises(HubUnavailable, match="the bus is closed"):
        bus.join("cyd")
    ada.close()
    assert "tocsin bus" not in names()


def test_an_agent_that_leaves_leaves_the_others_there(tmp_path: Path) -> None:
    with SyncTocsin.open(tmp_path / "team") as bus, bus.join("ada") as ada:
        for _ in range(2):
            with bus.join("bob") as bob:
                bob.send(to="ada", type="StatusUpdate")
        assert len(list(ada.inbox(timeout_s=0.1))) == 2


def test_a_bus_that_is_not_to_be_had_leaves_no_thread(tmp_path: Path) -> None:
    with SyncTocsin.open(tmp_path / "team"):
        with pytest.raises(ProjectBusy):
            SyncTocsin.open(tmp_path / "team")
        assert names().count("tocsin bus") == 1


async def test_a_bus_of_another_loop_is_not_taken_for_one(tmp_path: Path) -> None:
    async with await Tocsin.open(tmp_path / "team") as bus:
        with pytest.raises(TypeError, match="SyncTocsin"):
            SyncAgent.connect(bus, agent="ada")  # type: ignore[arg-type]
