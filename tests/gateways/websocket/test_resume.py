"""Sessions of dropped, resumed, replaced and expired sockets, without loss of messages."""

import asyncio
import json
import random
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import connect

from tests.cli.processes import RunningHub
from tests.envelopes import envelope
from tests.gateways.websocket.sockets import Client, SocketTeam, socket_team
from tests.soak import scaled

SEEDS = range(scaled(2, 40))


async def until(condition: Any) -> None:
    """Wait until a condition holds in the hub."""
    while not condition():
        await asyncio.sleep(0.005)


async def test_a_dropped_session_is_resumed_with_what_was_not_confirmed(team: SocketTeam) -> None:
    ada, bob = await team.attach("ada"), await team.attach("bob", window=8)
    for number in range(4):
        await ada.send(number)
    await bob.take(4)
    await bob.confirm("msg_1_x")
    session = bob.welcome["session"]
    bob.cut()
    sessions = team.hub.host.exchange.state.sessions
    await until(lambda: sessions[session].window == 0)
    assert (await ada.send(4))["queued"], "nothing is offered to a session without a socket"
    again = await team.attach("bob", session=session, window=4)
    assert (again.welcome["resumed"], again.welcome["session"], again.welcome["window"]) == (True, session, 4)
    pushes = [await again.pushes.get() for _ in range(4)]
    assert [(push["signal_id"], push["offer"]) for push in pushes] == [
        (f"msg_{number}_x", 1) for number in (0, 2, 3, 4)
    ]
    assert "re" in again.frames[0][0], "the answer to hello comes first"


async def test_a_sync_message_to_a_dropped_socket_fails_fast(team: SocketTeam) -> None:
    """A socket that dropped without `bye` counted as available for the time in which it could be resumed."""
    ada, bob = await team.attach("ada"), await team.attach("bob")
    assert (await ada.send(1, qos={"deliveryClass": "sync"}))["publish_path"] == "pushed_to_ws"
    session = bob.welcome["session"]
    bob.cut()
    await until(lambda: team.hub.host.exchange.state.sessions[session].window == 0)
    refused = await ada.refused("send_message", envelope=envelope(2, qos={"deliveryClass": "sync"}))
    assert (refused["error_code"], refused["retryable"]) == ("recipient_not_available", True)
    assert (await ada.send(3))["publish_path"] == "queued_offline"


async def test_a_session_is_given_up_when_nobody_comes_back(tmp_path: Path) -> None:
    async with socket_team(tmp_path, socket={"resume_grace_s": 0.01}) as team:
        ada, bob = await team.attach("ada"), await team.attach("bob")
        await ada.send(1)
        await bob.take()
        session = bob.welcome["session"]
        bob.cut()
        await until(lambda: session not in team.hub.host.exchange.state.sessions)
        again = await team.attach("bob", session=session)
        assert not again.welcome["resumed"]
        push = await again.pushes.get()
        assert (push["signal_id"], push["offer"]) == ("msg_1_x", 2)


async def test_a_new_process_gets_at_once_what_its_former_one_had_not_confirmed(team: SocketTeam) -> None:
    """A killed process that was started again got nothing of that until the time to resume was over, 30 s."""
    ada, bob = await team.attach("ada"), await team.attach("bob")
    await ada.send(1, priority="Critical")
    await bob.take()
    session, sessions = bob.welcome["session"], team.hub.host.exchange.state.sessions
    bob.cut()
    await until(lambda: sessions[session].window == 0)
    again = await team.attach("bob")
    assert session not in sessions
    push = await again.pushes.get()
    assert (push["signal_id"], push["offer"]) == ("msg_1_x", 2)
    assert not (await team.attach("bob", session=session)).welcome["resumed"]


async def test_only_a_session_whose_socket_is_gone_is_replaced(team: SocketTeam) -> None:
    """Several processes may be one agent, and its listener is apart from them."""
    ada, first = await team.attach("ada"), await team.attach("bob", window=1)
    daemon = await team.attach("bob", daemon=True, window=1)
    for number in (1, 2):
        await ada.send(number)
    sessions = team.hub.host.exchange.state.sessions
    await until(lambda: all(sessions[one.welcome["session"]].in_flight for one in (first, daemon)))
    daemon.cut()
    await until(lambda: sessions[daemon.welcome["session"]].window == 0)
    second = await team.attach("bob")
    assert {one.welcome["session"] for one in (first, daemon, second)} <= sessions.keys()
    assert sessions[daemon.welcome["session"]].in_flight


async def test_a_client_that_asks_for_its_session_in_vain_replaces_none(team: SocketTeam) -> None:
    """Of two processes that lose their connections at once, one comes back later than the other."""
    first, second = await team.attach("bob"), await team.attach("bob")
    sessions = team.hub.host.exchange.state.sessions
    second.cut()
    await until(lambda: sessions[second.welcome["session"]].window == 0)
    assert not (await team.attach("bob", session="ses_unknown")).welcome["resumed"]
    assert (await team.attach("bob", session=second.welcome["session"])).welcome["resumed"]
    assert first.welcome["session"] in sessions


async def test_a_session_of_somebody_else_is_not_resumed(team: SocketTeam) -> None:
    ada, bob = await team.attach("ada"), await team.attach("bob")
    thief = await team.attach("boss", session=bob.welcome["session"])
    assert not thief.welcome["resumed"]
    assert thief.welcome["session"] != bob.welcome["session"]
    await ada.send(1)
    assert await bob.take() == ["msg_1_x"]
    drained = (await team.post("bob", "/v1/inbox/drain", {})).json()
    assert drained["deliveries"] == []
    poller = next(
        session.session
        for session in team.hub.host.exchange.state.agents["bob"].sessions.values()
        if session.kind == "piggyback"
    )
    assert not (await team.attach("bob", session=poller)).welcome["resumed"], "only a socket's session"


async def test_the_socket_that_resumed_last_has_the_session(team: SocketTeam) -> None:
    ada, first = await team.attach("ada"), await team.attach("bob")
    session = first.welcome["session"]
    rivals = [await team.open("bob") for _ in range(4)]
    answers = await asyncio.gather(*[rival.one("hello", session=session) for rival in rivals])
    assert await first.closed() == 4409
    assert first.bye == {"reason": "another socket has resumed this session", "resume": False}
    await until(lambda: sum(rival.bye is not None for rival in rivals) == 3)
    for rival, answer in zip(rivals, answers, strict=True):
        if rival.bye is None:
            winner = rival
            assert answer["ok"]["resumed"]
        else:
            assert await rival.closed() == 4409
            assert "ok" in answer or answer["problem"]["code"] == "E_STATE_003"
    await ada.send(1)
    assert await winner.take() == ["msg_1_x"]


async def test_two_sockets_of_one_agent_share_its_mail(team: SocketTeam) -> None:
    ada = await team.attach("ada")
    first, second = await team.attach("bob", window=2), await team.attach("bob", window=2)
    for number in range(4):
        await ada.send(number)
    got = await first.take(2) + await second.take(2)
    assert sorted(got) == [f"msg_{number}_x" for number in range(4)]
    second.cut()
    await first.confirm(*got)
    for number in range(4, 6):
        await ada.send(number)
    assert await first.take(2) == ["msg_4_x", "msg_5_x"]


async def test_an_agent_that_always_comes_anew_does_not_run_out_of_sessions(team: SocketTeam) -> None:
    for _ in range(20):
        (await team.attach("bob")).cut()
        await until(lambda: not team.metric("socket_connections"))
    assert len(team.hub.host.exchange.state.agents["bob"].sessions) <= 16
    ada, bob = await team.attach("ada"), await team.attach("bob")
    await ada.send(1)
    assert await bob.take() == ["msg_1_x"]


async def test_a_retired_agents_socket_is_told(team: SocketTeam) -> None:
    bob = await team.attach("bob")
    assert (await team.call("DELETE", "boss", "/v1/agents/bob")).status_code == 200
    assert await bob.closed() == 4409
    assert bob.bye == {"reason": "the session has ended: it has lapsed, or its agent was retired", "resume": False}


class WebhookSender:
    """A sender that resends what was not answered, over connections that keep breaking."""

    def __init__(self, team: SocketTeam, rng: random.Random, numbers: range) -> None:
        self.team = team
        self.rng = rng
        self.left = {number: envelope(number) for number in numbers}

    async def run(self) -> None:
        while self.left:
            client = await self.team.attach("ada")
            breaking = asyncio.create_task(self._break(client))
            try:
                while self.left:
                    batch = list(self.left.items())[:16]
                    answers = await client.ask(*[{"op": "send_message", "envelope": letter} for _, letter in batch])
                    for (number, _), answer in zip(batch, answers, strict=True):
                        assert "ok" in answer, answer
                        del self.left[number]
            except ConnectionError:
                pass
            breaking.cancel()

    async def _break(self, client: Client) -> None:
        await asyncio.sleep(self.rng.random() * 0.03)
        client.cut()


class Reader:
    """A recipient over connections that keep breaking: resumes, drops repeats by signal id, confirms."""

    def __init__(self, team: SocketTeam, rng: random.Random) -> None:
        self.team = team
        self.rng = rng
        self.seen: dict[str, int] = {}
        self.repeats = self.resumed = 0

    async def run(self, count: int) -> None:
        session: str | None = None
        while len(self.seen) < count:
            client = await self.team.open("bob")
            fields = {} if session is None else {"session": session}
            try:
                await client.hello(window=24, **fields)
            except ConnectionError:
                continue
            session, self.resumed = client.welcome["session"], self.resumed + client.welcome["resumed"]
            breaking = asyncio.create_task(self._break(client))
            unconfirmed: list[str] = []
            while len(self.seen) < count:
                got = await self._next(client)
                if got is None:
                    break
                self.repeats += got["signal_id"] in self.seen
                self.seen[got["signal_id"]] = got["offer"]
                unconfirmed.append(got["signal_id"])
                if len(self.seen) == 1 and not self.repeats:
                    client.cut()  # At least this one is not confirmed, whatever the breaks hit.
                if client.pushes.empty() or self.rng.random() < 0.2:
                    try:
                        await client.raw(json.dumps([{"op": "confirm_messages", "message_ids": unconfirmed}]))
                    except ConnectionError:
                        break
                    unconfirmed = []
            breaking.cancel()

    async def _next(self, client: Client) -> Any:
        push, closed = asyncio.create_task(client.pushes.get()), asyncio.create_task(client.closed())
        await asyncio.wait({push, closed}, return_when=asyncio.FIRST_COMPLETED)
        closed.cancel()
        if push.done():
            return push.result()
        push.cancel()
        return None

    async def _break(self, client: Client) -> None:
        await asyncio.sleep(self.rng.random() * 0.04)
        client.cut()


@pytest.mark.parametrize("seed", SEEDS)
async def test_nothing_is_lost_over_connections_that_keep_breaking(team: SocketTeam, seed: int) -> None:
    rng, numbers = random.Random(seed), range(400)
    courier, reader = WebhookSender(team, rng, numbers), Reader(team, rng)
    await asyncio.gather(courier.run(), reader.run(len(numbers)))
    assert reader.seen.keys() == {f"msg_{number}_x" for number in numbers}
    assert reader.resumed, "it came back for its session at least once"
    assert reader.repeats, "what it had not confirmed came again"
    states = {message.state for message in team.hub.host.exchange.state.messages.values()}
    assert states <= {"delivered", "offered"}


async def test_a_restarted_hub_gives_a_new_session_and_the_offer_again(tmp_path: Path) -> None:
    with RunningHub(tmp_path / "data") as hub:
        hub.run("agents", "add", "ada", "--save")
        hub.run("agents", "add", "bob", "--save")
        session = await _first_life(hub)
    with RunningHub(tmp_path / "data") as hub:
        await _second_life(hub, session)


async def _client(hub: RunningHub, agent: str) -> Client:
    token = next(hub.data.rglob(f"{agent}.token")).read_text().strip()
    socket = await connect(
        hub.url.replace("http", "ws") + "/v1/socket",
        additional_headers={"Authorization": f"Bearer {token}"},
        subprotocols=["tocsin.v1"],  # type: ignore[list-item]
        compression=None,
    )
    return Client(socket)


async def _first_life(hub: RunningHub) -> str:
    ada, bob = await _client(hub, "ada"), await _client(hub, "bob")
    await ada.hello()
    await bob.hello()
    await ada.send(1)
    assert await bob.take() == ["msg_1_x"]
    hub.process.terminate()
    assert (await ada.closed(), await bob.closed()) == (1001, 1001)
    assert bob.bye == {"reason": "the hub is shutting down", "resume": True}
    return str(bob.welcome["session"])


async def _second_life(hub: RunningHub, session: str) -> None:
    bob = await _client(hub, "bob")
    await bob.hello(session=session)
    assert not bob.welcome["resumed"]
    push = await bob.pushes.get()
    assert (push["signal_id"], push["offer"]) == ("msg_1_x", 2)
    await bob.confirm("msg_1_x")
    await bob.ok("bye")
    await bob.closed()
