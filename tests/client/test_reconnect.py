"""Dropped sockets and killed hubs: nothing accepted is lost, nothing reaches the application twice, no call hangs."""

import asyncio
import random
from pathlib import Path

import pytest

from tests.client.grounds import POLICY, HubGround, hub_ground, take_all
from tests.client.wires import Wire
from tests.soak import SOAK, scaled
from tocsin.client import Agent, ConnectionState, Draft, NoAnswer, Receipt, client_config
from tocsin.client.connection.transport import Link, LinkLost
from tocsin.client.connection.websocket import WebSocketTransport
from tocsin.client.messages.message import Message
from tocsin.core.errors import HubUnavailable, NotPermitted
from tocsin.wire.socket import Hello

NOTE = "CUSTOM_NOTE"
QUICK_HEART = "socket: {heartbeat_s: 0.1, sweep_interval_s: 0.05, resume_grace_s: 5}\n"


class Reader:
    """An application that takes everything and remembers what it saw."""

    def __init__(self, agent: Agent) -> None:
        self.seen: list[str] = []
        self._agent = agent
        self._arrived = asyncio.Condition()

    async def run(self) -> None:
        async for message in self._agent.inbox():
            async with self._arrived:
                self.seen.append(message.message_id)
                self._arrived.notify_all()

    async def until(self, count: int) -> None:
        async with self._arrived:
            await self._arrived.wait_for(lambda: len(set(self.seen)) >= count)


async def test_a_dropped_socket_is_resumed_and_nothing_repeats(tmp_path: Path) -> None:
    async with (
        hub_ground(tmp_path) as ground,
        Wire(ground.port) as wire,
        ground.join("ada") as ada,
        ground.join("bob", url=wire.url) as bob,
    ):
        states: list[ConnectionState] = []
        bob.on_state(states.append)
        session, inbox = bob.session, bob.inbox()
        await ada.send_many([Draft(to="bob", type=NOTE, payload={"n": n}) for n in range(6)])
        first = await anext(inbox)
        await bob.list_agents()
        assert bob.unconfirmed == 5, "all of them have come; one was handed over"
        wire.cut()
        await bob.until(ConnectionState.RECONNECTING)
        await bob.until(ConnectionState.CONNECTED)
        assert bob.session == session
        assert wire.made == 2
        await bob.list_agents()  # the repeats have come too
        rest = [message.payload["n"] for message in await take_all(bob, 5)]
        assert [first.payload["n"], *rest] == list(range(6))
        assert states == [ConnectionState.RECONNECTING, ConnectionState.CONNECTED]


async def test_what_went_to_another_process_meanwhile_is_not_handed_out_here(tmp_path: Path) -> None:
    """A second process of the agent is started while the first has no connection."""
    async with (
        hub_ground(tmp_path) as ground,
        Wire(ground.port) as wire,
        ground.join("ada") as ada,
        ground.join("bob", url=wire.url) as first,
    ):
        session, inbox = first.session, first.inbox()
        sent = [(await ada.send(to="bob", type=NOTE)).message_id for _ in range(3)]
        assert (await anext(inbox)).message_id == sent[0]
        await first.list_agents()
        assert first.unconfirmed == 2
        wire.whole = False
        wire.cut()
        await first.until(ConnectionState.RECONNECTING)
        async with ground.join("bob") as second:
            assert [message.message_id for message in await take_all(second, 2)] == sent[1:]
            wire.whole = True
            await first.until(ConnectionState.CONNECTED)
            assert (first.session != session, first.unconfirmed) == (True, 0)
            await ada.send(to="bob", type=NOTE, message_id="msg_later_1")
            async with asyncio.TaskGroup() as group:
                later = [group.create_task(take_all(one, 0)) for one in (first, second)]
            assert [one.message_id for task in later for one in task.result()] == ["msg_later_1"]


async def test_sockets_cut_under_load(tmp_path: Path) -> None:
    rounds, per_round = (scaled(6, 40), 500) if SOAK else (6, 100)
    async with (
        hub_ground(tmp_path) as ground,
        Wire(ground.port) as wire,
        ground.join("ada", url=wire.url) as ada,
        ground.join("bob", url=wire.url) as bob,
    ):
        reader, chance = Reader(bob), random.Random(7)
        reading = asyncio.create_task(reader.run())
        sent: list[str] = []
        for _ in range(rounds):
            sending = [asyncio.create_task(ada.send(to="bob", type=NOTE, payload={"n": n})) for n in range(per_round)]
            await asyncio.wait(sending[: chance.randrange(1, per_round)])
            wire.cut()
            sent += [receipt.message_id for receipt in await asyncio.gather(*sending)]
        await reader.until(len(sent))
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        assert sorted(reader.seen) == sorted(sent), "every message once"
        assert wire.made > 2


async def test_a_killed_hub_loses_nothing(tmp_path: Path) -> None:
    rounds, per_round = (scaled(2, 8), 600) if SOAK else (2, 120)
    async with hub_ground(tmp_path) as ground, ground.join("ada") as ada, ground.join("bob") as bob:
        reader = Reader(bob)
        reading = asyncio.create_task(reader.run())
        sent: list[str] = []
        for _ in range(rounds):
            sending = [asyncio.create_task(ada.send(to="bob", type=NOTE, payload={"n": n})) for n in range(per_round)]
            await asyncio.wait(sending[: per_round // 3])
            await restart(ground)
            sent += [receipt.message_id for receipt in await asyncio.gather(*sending)]
        await reader.until(len(sent))
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        assert sorted(reader.seen) == sorted(sent), "every message once"


async def restart(ground: HubGround) -> None:
    await asyncio.to_thread(ground.kill)
    await asyncio.to_thread(ground.start)


async def test_a_request_outlives_the_hub(tmp_path: Path) -> None:
    async with hub_ground(tmp_path) as ground, ground.join("ada") as ada, ground.join("bob") as bob:
        asking = asyncio.create_task(ada.request(to="bob", type=NOTE, payload={"n": 1}))
        question = await anext(bob.inbox())
        await restart(ground)
        await question.reply({"n": 2})
        assert (await asking).payload == {"n": 2}
        assert [message async for message in ada.inbox(timeout_s=0.1)] == []


async def test_a_session_that_another_has_taken_is_not_fought_over(tmp_path: Path) -> None:
    async with hub_ground(tmp_path) as ground, ground.join("ada") as ada:
        session = ada.session
        thief = await WebSocketTransport(ground.url, client_config(), token=ground.token("ada")).dial()
        await thief.send([Hello(id=0, window=0, session=session)])
        await thief.receive()
        await ada.until(ConnectionState.RECONNECTING)
        await ada.until(ConnectionState.CONNECTED)
        assert ada.session != session
        assert (await ada.send(to="ada", type=NOTE)).durability == "flushed"
        await thief.close()


async def test_a_hub_that_is_stopped_in_order_is_found_again(tmp_path: Path) -> None:
    async with hub_ground(tmp_path) as ground, ground.join("ada") as ada:
        assert await asyncio.to_thread(ground.hub.stop) == 0
        await ada.until(ConnectionState.RECONNECTING)
        sending = asyncio.create_task(ada.send(to="ada", type=NOTE))
        await asyncio.to_thread(ground.start)
        assert (await sending).durability == "flushed"


async def test_what_is_not_answered_in_time_is_said_to_be_uncertain(tmp_path: Path) -> None:
    async with hub_ground(tmp_path) as ground, ground.join("ada") as ada:
        await asyncio.to_thread(ground.kill)
        with pytest.raises(NoAnswer, match="E_HUB_005") as caught:
            await ada.send(to="ada", type=NOTE, timeout_s=0.2, message_id="msg_sure_1")
        assert isinstance(caught.value, TimeoutError | HubUnavailable)
        assert caught.value.problem.facts == {"message_id": "msg_sure_1"}
        assert caught.value.retryable
        (outcome,) = await ada.send_many([Draft(to="ada", type=NOTE)], timeout_s=0.2)
        assert isinstance(outcome, NoAnswer)
        await asyncio.to_thread(ground.start)
        receipt = await ada.send(to="ada", type=NOTE, message_id="msg_sure_1")
        assert isinstance(receipt, Receipt)


async def test_a_silent_hub_is_given_up(tmp_path: Path) -> None:
    async with (
        hub_ground(tmp_path, POLICY, QUICK_HEART) as ground,
        Wire(ground.port) as wire,
        ground.join("ada", url=wire.url, config={"silence_max_s": 0.3}) as ada,
    ):
        wire.freeze()
        await ada.until(ConnectionState.RECONNECTING)
        wire.cut()
        wire.thaw()
        await ada.until(ConnectionState.CONNECTED)
        assert (await ada.send(to="ada", type=NOTE)).durability == "flushed"


async def test_heartbeats_keep_a_quiet_agent_attached_and_informed(tmp_path: Path) -> None:
    server = "socket: {heartbeat_s: 0.05, silence_max_s: 0.5, sweep_interval_s: 0.05}\n"
    async with hub_ground(tmp_path, POLICY, server) as ground, ground.join("ada") as ada:
        states: list[ConnectionState] = []
        ada.on_state(states.append)
        async with ground.join("bob") as bob:
            await bob.send(to="ada", type=NOTE, priority="Critical")
        while not ada.waiting["Critical"]:
            await asyncio.sleep(0.01)
        silent = await WebSocketTransport(ground.url, client_config(), token=ground.token("bob")).dial()
        await silent.send([Hello(id=0, window=0)])
        with pytest.raises(LinkLost, match="4408"):
            await received_all(silent)
        assert states == []


async def received_all(link: Link) -> None:
    while True:
        await link.receive()


async def test_a_token_that_ends_fails_the_agent_for_good(tmp_path: Path) -> None:
    async with hub_ground(tmp_path) as ground, ground.join("ada") as ada:
        reading = asyncio.create_task(anext(ada.inbox()))
        await asyncio.sleep(0)
        await asyncio.to_thread(ground.admin.post, "v1", "admin", "tokens", "ada", "revoke")
        await ada.until(ConnectionState.FAILED)
        for call in (reading, ada.send(to="ada", type=NOTE), ada.list_agents()):
            with pytest.raises(NotPermitted, match="E_AUTH_005"):
                await call


async def test_a_wrong_token_is_refused_at_once(tmp_path: Path) -> None:
    async with hub_ground(tmp_path) as ground:
        with pytest.raises(NotPermitted, match="E_AUTH_001"):
            await Agent.connect(ground.url, token="tcs_" + "0" * 16 + "_" + "x" * 43)


async def test_no_hub_at_all(tmp_path: Path) -> None:
    config, before = client_config(connect_timeout_s=0.3, backoff_first_s=0.01), asyncio.all_tasks()
    with pytest.raises(HubUnavailable, match="E_HUB_004"):
        await Agent.connect("http://127.0.0.1:9", agent="ada", config=config)
    assert asyncio.all_tasks() == before


async def test_an_agent_may_give_up(tmp_path: Path) -> None:
    async with hub_ground(tmp_path) as ground, ground.join("ada", config={"reconnect_timeout_s": 0.3}) as ada:
        reading = asyncio.create_task(anext(ada.inbox()))
        await asyncio.to_thread(ground.kill)
        await ada.until(ConnectionState.FAILED)
        with pytest.raises(HubUnavailable, match="E_HUB_004"):
            await reading


async def test_cancelling_while_reconnecting_ends_everything(tmp_path: Path) -> None:
    async with hub_ground(tmp_path) as ground:
        before = asyncio.all_tasks()
        attached, lost = asyncio.Event(), asyncio.Event()

        async def application() -> None:
            async with ground.join("ada") as ada:
                ada.on_state(lambda _: lost.set())
                attached.set()
                async for _ in ada.inbox():
                    pass

        running = asyncio.create_task(application())
        await attached.wait()
        await asyncio.to_thread(ground.kill)
        await lost.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert asyncio.all_tasks() == before


async def test_messages_in_hand_can_be_settled_over_a_new_socket(tmp_path: Path) -> None:
    async with (
        hub_ground(tmp_path) as ground,
        Wire(ground.port) as wire,
        ground.join("ada") as ada,
        ground.join("bob", url=wire.url) as bob,
    ):
        receipt = await ada.send(to="bob", type="CUSTOM_TRIED")
        message: Message = await anext(bob.inbox())
        wire.cut()
        assert (await message.acknowledge("processed")).state == "processed"
        assert (await ada.get_message(receipt.message_id))[0].state == "processed"
