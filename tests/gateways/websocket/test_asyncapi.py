"""The AsyncAPI document: real frames of both directions match its schemas, and reading it needs a token."""

import asyncio
import json
from collections.abc import MutableMapping
from math import isinf
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import msgspec
import pytest
from hypothesis import assume, given, settings
from starlette.websockets import WebSocket
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from tests.core.test_events import events_of
from tests.envelopes import envelope
from tests.gateways.websocket.sockets import Client, SocketTeam, socket_team
from tocsin.core.events import EVENT_TYPES, PolicyAdopted
from tocsin.gateways.websocket.asyncapi import document
from tocsin.journal.records import record_of
from tocsin.wire import socket as wire

DESCRIBED = document("1")


def validator(described: Any, name: str) -> jsonschema.Draft202012Validator:
    schema = {"$ref": f"#/components/schemas/{name}", "components": described["components"]}
    return jsonschema.Draft202012Validator(schema)


class Witness(Client):
    """A client that records the frames that it sends."""

    def __init__(self, client: Client) -> None:
        self.__dict__ = client.__dict__
        self.asked: list[list[Any]] = []

    async def raw(self, data: str | bytes) -> None:
        self.asked.append(json.loads(data))
        await Client.raw(self, data)


async def test_real_frames_fit_the_document(team: SocketTeam) -> None:
    described = (await team.get("ada", "/asyncapi.json")).json()
    ada, bob = Witness(await team.open("ada")), Witness(await team.open("bob"))
    await ada.hello(window=4, type="Manager", capabilities=[])
    await bob.hello()
    await ada.send(1)
    await ada.ok("send_message", envelope=envelope(2, receiver="*", metadata={"ttl": 60}, qos={"importance": 3}))
    await ada.refused("send_message", envelope=envelope(3, receiver="nobody"))
    await bob.take(2)
    await bob.confirm("msg_1_x")
    await bob.ok("acknowledge_message", message_id="msg_1_x", notes="yes")
    await bob.ok("reject_message", message_id="msg_2_x:bob", reason="no", can_retry=True)
    await bob.ok("mark_processed", message_id="msg_1_x")
    await ada.ok("recall_message", message_id="msg_1_x")
    await bob.ok("credit", window=0)
    await bob.ok("ping")
    await bob.ok("call", operation="get_agent", arguments={"agent": "ada"})
    await bob.ok("bye")
    team.hub.authority.revoke("ada")
    await asyncio.gather(ada.closed(), bob.closed())
    assert ada.bye
    asked = {operation["op"]: operation for client in (ada, bob) for frame in client.asked for operation in frame}
    assert asked.keys() == wire.OPERATION_NAMES.keys()
    for client in (ada, bob):
        for frame in client.asked:
            validator(described, "Operations").validate(frame)
        for frame in client.frames:
            validator(described, "Items").validate(frame)
    for client in (ada, bob):
        names = {operation["id"]: operation["op"] for frame in client.asked for operation in frame}
        for item in (item for frame in client.frames for item in frame if "ok" in item):
            shape = wire.OPERATION_NAMES[names[item["re"]]].__name__
            answer = described["components"]["schemas"][shape]["x-answer"]
            if answer:
                validator(described, answer["$ref"].rsplit("/", 1)[1]).validate(item["ok"])


FEED = {"watchers_max": 2, "frames_max": 4, "records_max": 3, "check_interval_s": 0.02}


async def test_real_frames_of_the_feed_fit_the_document(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a watcher read too slowly and revoke its token, so that every kind of item is sent."""
    taking, send = asyncio.Event(), WebSocket.send

    async def send_in_time(socket: WebSocket, message: MutableMapping[str, Any]) -> None:
        if '"event"' in message.get("text", ""):
            await taking.wait()
        await send(socket, message)

    monkeypatch.setattr(WebSocket, "send", send_in_time)
    async with socket_team(tmp_path, feed=FEED) as team:
        taking.set()
        described = (await team.get("ada", "/asyncapi.json")).json()
        channel = described["channels"]["feed"]
        headers = {"Authorization": f"Bearer {team.tokens['boss']}"}
        address = f"ws://127.0.0.1:{team.port}{channel['address']}"
        frames: list[list[Any]] = []

        def seen() -> set[str]:
            return {name for frame in frames for item in frame for name in item}

        async with connect(address, additional_headers=headers) as watcher:
            frames.append(json.loads(await watcher.recv()))
            ada, bob = await team.attach("ada"), await team.attach("bob")
            await ada.send(1)
            await bob.take()
            await bob.ok("acknowledge_message", message_id="msg_1_x")
            await ada.ok("send_message", envelope=envelope(2, receiver="*"))
            await ada.refused("send_message", envelope=envelope(3, receiver="nobody"))
            taking.clear()
            for number in range(4, 14):
                await ada.send(number)
            taking.set()
            await ada.send(14)
            while "gap" not in seen():
                frames.append(json.loads(await watcher.recv()))
            team.hub.authority.revoke("boss")
            while "bye" not in seen():
                frames.append(json.loads(await watcher.recv()))
            with pytest.raises(ConnectionClosed):
                await watcher.recv()
            assert str(watcher.close_code) in channel["x-close-codes"]
        for frame in frames:
            validator(described, "Feed").validate(frame)
        kinds = {item["event"]["kind"] for frame in frames for item in frame if "event" in item}
        assert {"SessionOpened", "MessageAccepted", "BroadcastAccepted", "SendRefused"} <= kinds
        assert seen() == {"hello", "event", "gap", "bye"}


@pytest.mark.parametrize("kind", EVENT_TYPES, ids=lambda kind: kind.__name__)
def test_every_kind_of_event_fits_the_document(kind: type) -> None:
    check = validator(DESCRIBED, f"{kind.__name__}Record")

    @settings(max_examples=5)
    @given(events_of(kind))
    def fits(event: Any) -> None:
        assume(not any(isinstance(value, float) and isinf(value) for value in msgspec.structs.astuple(event)))
        if isinstance(event, PolicyAdopted):
            event = msgspec.structs.replace(event, policy=b'{"limits": {}}')
        check.validate(json.loads(msgspec.json.encode(record_of("team", 1, event, payloads=False))))

    fits()


@pytest.mark.parametrize(
    ("name", "frame"),
    [
        ("Operations", {"op": "ping", "id": 1}),
        ("Operations", [{"op": "fly", "id": 1}]),
        ("Operations", [{"op": "ping"}]),
        ("Operations", [{"op": "send_message", "id": 1, "envelope": {"version": "1.1.0"}}]),
        ("Items", [{"re": 1}]),
        ("Items", [{"bye": {"reason": "x"}}]),
        ("Items", [{"deliver": {"signal_id": "x", "offer": 1, "session": "s", "envelope": []}}]),
        ("Feed", [{"hello": {"project": "team"}}]),
        ("Feed", [{"event": {"kind": "MessageRecalled", "project": "team", "seq": 1}}]),
        ("Feed", [{"event": {"kind": "Nonsense", "project": "team", "seq": 1, "at": 1}}]),
        ("Feed", [{"gap": {"first_seq": 1}}]),
        ("Feed", [{"bye": {}}]),
    ],
    ids=str,
)
def test_what_is_no_frame_does_not_fit(name: str, frame: Any) -> None:
    with pytest.raises(jsonschema.ValidationError):
        validator(DESCRIBED, name).validate(frame)


def test_every_reference_leads_somewhere() -> None:
    described = DESCRIBED

    def walk(value: Any) -> None:
        if isinstance(value, dict):
            if "$ref" in value:
                found: Any = described
                for part in value["$ref"].removeprefix("#/").split("/"):
                    found = found[part]
            for inner in value.values():
                walk(inner)
        elif isinstance(value, list):
            for inner in value:
                walk(inner)

    walk(described)
    assert described["asyncapi"] == "3.0.0"


async def test_the_document_needs_a_token(team: SocketTeam) -> None:
    answer = await team.get(None, "/asyncapi.json")
    assert (answer.status_code, answer.json()["code"]) == (401, "E_AUTH_001")
