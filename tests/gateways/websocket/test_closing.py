"""Shutdown of the hub: sockets are notified, operations are answered, and answered operations are durable."""

import asyncio
import signal
import threading
from pathlib import Path
from typing import Any

from websockets.asyncio.client import connect

from tests.cli.processes import RunningHub
from tests.envelopes import envelope
from tests.gateways.websocket.sockets import Client, SocketTeam
from tests.patience import PATIENCE_S


def hold_commits(team: SocketTeam) -> tuple[threading.Event, threading.Event]:
    """Let commits wait; return an event that is set when one has begun, and the event that it waits for."""
    journal, taken, gate = team.hub.host.journal, threading.Event(), threading.Event()
    append = journal.append

    def held(group: Any) -> Any:
        taken.set()
        assert gate.wait(PATIENCE_S)
        return append(group)

    journal.append = held  # type: ignore[method-assign]
    return taken, gate


async def test_what_was_taken_in_is_answered_before_the_goodbye(team: SocketTeam) -> None:
    ada, bob = await team.attach("ada"), await team.attach("bob")
    taken, gate = hold_commits(team)
    text, futures = ada.numbered(*[{"op": "send_message", "envelope": envelope(number)} for number in range(8)])
    await ada.raw(text)
    assert await asyncio.to_thread(taken.wait, PATIENCE_S)
    team.hub.closing.set()
    assert await bob.closed() == 1001
    assert bob.bye == {"reason": "the hub is shutting down", "resume": True}
    assert not any(future.done() for future in futures)
    assert ada.bye is None
    gate.set()
    answers = await asyncio.gather(*futures)
    assert all(answer["ok"]["receipt"]["durability"] == "flushed" for answer in answers)
    assert await ada.closed() == 1001


async def test_a_hello_that_the_end_of_the_hub_overtakes_is_refused_for_now(team: SocketTeam) -> None:
    """It failed for good, so that a client which came back during a rolling restart gave up."""
    client, bob = await team.open("ada"), await team.attach("bob")
    taken, gate = hold_commits(team)
    greeted = asyncio.create_task(client.refused("hello"))
    assert await asyncio.to_thread(taken.wait, PATIENCE_S)
    team.hub.closing.set()
    assert await bob.closed() == 1001
    gate.set()
    refused = await greeted
    assert (refused["code"], refused["retryable"]) == ("E_HUB_003", True)
    assert await client.closed() == 1001


async def test_nobody_new_is_let_in(team: SocketTeam) -> None:
    team.hub.closing.set()
    status, problem = await team.refused("ada")
    assert (status, problem["code"], problem["retryable"]) == (503, "E_HUB_003", True)


async def test_every_answered_send_outlives_the_hub(tmp_path: Path) -> None:
    """Send SIGTERM during a stream of messages; all answered messages exist after the restart."""
    with RunningHub(tmp_path / "data", "--insecure-loopback") as hub:
        answered = await _stream(hub)
        assert hub.process.wait(PATIENCE_S) == 0
    assert answered
    with RunningHub(tmp_path / "data", "--insecure-loopback") as hub:
        found = await _look(hub, sorted(answered))
    assert found == answered
    assert "Traceback" not in hub.log.read_text()


async def _open(hub: RunningHub) -> Client:
    socket = await connect(
        hub.url.replace("http", "ws") + "/v1/socket",
        additional_headers={"Tocsin-Agent": "ada", "Tocsin-Role": "director"},
        subprotocols=["tocsin.v1"],  # type: ignore[list-item]
        compression=None,
    )
    client = Client(socket)
    await client.hello(type="Manager")
    return client


async def _stream(hub: RunningHub) -> set[str]:
    client, answered, number = await _open(hub), set(), 0
    try:
        while True:
            letters = [envelope(number + index, receiver="ada") for index in range(16)]
            text, futures = client.numbered(*[{"op": "send_message", "envelope": letter} for letter in letters])
            await client.raw(text)
            number += 16
            if number == 64:
                hub.process.send_signal(signal.SIGTERM)
            for answer in await asyncio.gather(*futures):
                answered.add(answer["ok"]["receipt"]["message_id"])
    except ConnectionError:
        pass
    assert await client.closed() == 1001
    assert client.bye is not None
    # Include answers that arrived just before the close.
    answers = [item for frame in client.frames for item in frame if "ok" in item and "receipt" in item["ok"]]
    return answered | {item["ok"]["receipt"]["message_id"] for item in answers}


async def _look(hub: RunningHub, message_ids: list[str]) -> set[str]:
    client = await _open(hub)
    found: set[str] = set()
    for message_id in message_ids:
        for view in await client.ok("call", operation="get_message", arguments={"message_id": message_id}):
            found.add(view["message_id"])
    await client.ok("bye")
    await client.closed()
    return found


async def test_a_socket_that_never_answers_the_close_does_not_hold_the_hub_up(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    (data / "server.yaml").write_text("socket: {close_timeout_s: 0.2}\n")
    with RunningHub(data, "--insecure-loopback") as hub:
        client = await _open(hub)
        client.socket.transport.pause_reading()
        hub.process.terminate()
        await asyncio.to_thread(hub.process.wait, PATIENCE_S)
        client.cut()
        await client.closed()
        assert hub.process.returncode == 0
