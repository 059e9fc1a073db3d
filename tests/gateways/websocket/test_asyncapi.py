"""The AsyncAPI document is true: real frames, both ways, fit its schemas; and it needs a token like everything else."""

import asyncio
import json
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest

from tests.gateways.websocket.sockets import Client, SocketTeam, envelope, with_sockets
from tocsin.gateways.websocket import protocol as wire
from tocsin.gateways.websocket.asyncapi import document


def validator(described: Any, name: str) -> jsonschema.Draft202012Validator:
    schema = {"$ref": f"#/components/schemas/{name}", "components": described["components"]}
    return jsonschema.Draft202012Validator(schema)


class Witness(Client):
    """A client that remembers what it asked, and how."""

    def __init__(self, client: Client) -> None:
        self.__dict__ = client.__dict__
        self.asked: list[list[Any]] = []

    async def raw(self, data: str | bytes) -> None:
        self.asked.append(json.loads(data))
        await Client.raw(self, data)


def test_real_frames_fit_the_document(tmp_path: Path) -> None:
    async def test(team: SocketTeam) -> None:
        described = (await team.get("ada", "/asyncapi.json")).json()
        ada, bob = Witness(await team.open("ada")), Witness(await team.open("bob"))
        await ada.hello(window=4, agent_type="Manager", capabilities=[])
        await bob.hello()
        await ada.send(1)
        await ada.ok("send", envelope=envelope(2, receiver="*", metadata={"ttl": 60}, qos={"importance": 3}))
        await ada.refused("send", envelope=envelope(3, receiver="nobody"))
        await bob.take(2)
        await bob.confirm("msg_1_x")
        await bob.ok("ack", message_id="msg_1_x", notes="yes")
        await bob.ok("nack", message_id="msg_2_x:bob", reason="no", can_retry=True)
        await bob.ok("processed", message_id="msg_1_x")
        await ada.ok("recall", message_id="msg_1_x")
        await bob.ok("credit", window=0)
        await bob.ok("ping")
        await bob.ok("call", operation="agent", path={"agent": "ada"}, query={}, body={})
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

    with_sockets(tmp_path, test)


@pytest.mark.parametrize(
    ("name", "frame"),
    [
        ("Operations", {"op": "ping", "id": 1}),
        ("Operations", [{"op": "fly", "id": 1}]),
        ("Operations", [{"op": "ping"}]),
        ("Operations", [{"op": "send", "id": 1, "envelope": {"version": "1.1.0"}}]),
        ("Items", [{"re": 1}]),
        ("Items", [{"bye": {"reason": "x"}}]),
        ("Items", [{"deliver": {"signal_id": "x", "offer": 1, "session": "s", "envelope": []}}]),
    ],
    ids=str,
)
def test_what_is_no_frame_does_not_fit(name: str, frame: Any) -> None:
    with pytest.raises(jsonschema.ValidationError):
        validator(document("1"), name).validate(frame)


def test_every_reference_leads_somewhere() -> None:
    described = document("1")

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


def test_the_document_needs_a_token(tmp_path: Path) -> None:
    async def test(team: SocketTeam) -> None:
        answer = await team.get(None, "/asyncapi.json")
        assert (answer.status_code, answer.json()["code"]) == (401, "E_AUTH_001")

    with_sockets(tmp_path, test)
