"""Webhooks against a real server on loopback: signed, retried, in order, resumed, never redirected."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tests.cli.processes import RunningHub
from tests.envelopes import envelope
from tests.gateways.hubs import QUICK, team_at
from tests.hub.outside import SECRET, Outside
from tests.patience import PATIENCE_S
from tocsin.cli.remote import Remote
from tocsin.core.errors import TocsinError


@pytest.fixture
def outside() -> Iterator[Outside]:
    somebody = Outside()
    yield somebody
    somebody.close()


def hooks(outside: Outside, tmp_path: Path, **more: Any) -> dict[str, Any]:
    data = tmp_path / "data"
    data.mkdir(exist_ok=True)
    (data / "hook.secret").write_bytes(SECRET)
    row = {"name": "pager", "url": outside.url, "secret_file": "hook.secret", "events": ["ApprovalRequested"]} | more
    return {"destinations": [row], "backoff_s": [0.01], "attempts_max": 3}


@asynccontextmanager
async def planning(tmp_path: Path, webhooks: dict[str, Any], *plans: int) -> AsyncIterator[None]:
    """Serve a hub and have some plans held."""
    async with team_at(tmp_path, QUICK, webhooks=webhooks) as team:
        await team.register("ada")
        await team.register("bob")
        for number in plans:
            answer = await team.post("ada", "/v1/messages", envelope(number, messageType="CUSTOM_PLAN"))
            assert answer.status_code == 200
        yield


async def test_events_are_posted_signed_and_in_order(tmp_path: Path, outside: Outside) -> None:
    async with team_at(tmp_path, QUICK, webhooks=hooks(outside, tmp_path)) as team:
        await team.register("ada")
        await team.register("bob")
        for number in (1, 2):
            await team.post("ada", "/v1/messages", envelope(number, messageType="CUSTOM_PLAN"))
            headers, body = await asyncio.to_thread(outside.take)
            assert headers["path"] == "/hook?team=a"
            assert headers["Tocsin-Event"] == body["event"] == "ApprovalRequested"
            assert body["facts"]["subject"] == f"msg_{number}_x"
            assert headers["Tocsin-Delivery"] == f"team-{body['seq']}"


async def test_events_are_posted_as_cloud_events(tmp_path: Path, outside: Outside) -> None:
    async with planning(tmp_path, hooks(outside, tmp_path, format="cloudevents"), 1):
        headers, body = await asyncio.to_thread(outside.take)
        assert headers["Content-Type"].startswith("application/cloudevents+json")
        assert (body["specversion"], body["type"]) == ("1.0", "tocsin.ApprovalRequested")
        assert (body["source"], body["id"]) == ("/tocsin/projects/team", headers["Tocsin-Delivery"])
        assert datetime.fromisoformat(body["time"]).tzinfo is not None
        assert body["datacontenttype"] == "application/json"
        assert body["data"]["facts"]["subject"] == "msg_1_x"
        assert set(body) == {"specversion", "id", "source", "type", "time", "datacontenttype", "data"}


async def test_what_fails_is_tried_again_and_given_up_in_the_end(tmp_path: Path, outside: Outside) -> None:
    outside.statuses = [500, 302, 503, 429]
    async with planning(tmp_path, hooks(outside, tmp_path), 1, 2):
        came = [await asyncio.to_thread(outside.take) for _ in range(5)]
    assert [body["facts"]["subject"] for _, body in came] == ["msg_1_x"] * 3 + ["msg_2_x"] * 2
    assert {headers["path"] for headers, _ in came} == {"/hook?team=a"}, "no redirect is followed"
    assert came[-1][1]["missed"] == 1, "the one that was given up is owned up to"


async def test_a_restart_goes_on_where_it_was(tmp_path: Path, outside: Outside) -> None:
    outside.statuses = [500] * 1000
    stubborn = hooks(outside, tmp_path) | {"attempts_max": 1000, "backoff_s": [0.05]}
    async with planning(tmp_path, stubborn, 1):
        pass
    outside.statuses = []
    while not outside.came.empty():
        outside.came.get()
    assert await next_subject(tmp_path, stubborn, outside) == "msg_1_x"


def test_the_notices_of_an_escalation_that_are_repeated_after_a_kill_say_so(tmp_path: Path, outside: Outside) -> None:
    """The hub is killed while a webhook is being posted, and before a director has confirmed the message about it."""
    data = tmp_path / "data"
    webhooks = hooks(outside, tmp_path, events=["EscalationMoved"])
    (data / "server.yaml").write_text(json.dumps({"webhooks": webhooks}))
    (data / "tocsin.yaml").write_text("delivery: {receipt_timeout_s: {push: 30, piggyback: 0.1, daemon: 30}}")
    outside.answer = lambda body: None
    with RunningHub(data) as hub:
        admin = Remote(hub.url, (data / "admin.token").read_text().strip())
        tokens = {}
        for agent, role in (("boss", "director"), ("ada", "primary"), ("bob", "primary")):
            body = {"agent": agent, "role": role, "type": "AdHoc"}
            tokens[agent] = admin.post("v1", "admin", "tokens", body=body)["token"]
        question = envelope(1, sender_type="AdHoc", correlationId="req_1", messageType="CUSTOM_QUESTION")
        asked = Remote(hub.url, tokens["ada"])
        asked.call("POST", ("v1", "requests"), question, {"timeout_s": 0.05})
        first, told = outside.take()
        notices = _drained(hub, tokens["boss"])
        assert (told["repeated"], [notice["repeated"] for notice in notices]) == (False, [False])
        hub.process.kill()
        hub.process.wait(PATIENCE_S)
    outside.answer = lambda body: 204
    with RunningHub(data) as hub:
        again, repeated = outside.take()
        assert again["Tocsin-Delivery"] == first["Tocsin-Delivery"]
        assert repeated == told | {"repeated": True}
        (notice,) = _drained(hub, tokens["boss"])
        assert (notice["signal_id"], notice["repeated"]) == (notices[0]["signal_id"], True)
        assert notice["envelope"]["payload"]["context"]["escalation"] == told["facts"]["escalation"]


def _drained(hub: RunningHub, token: str) -> list[Any]:
    while not (deliveries := Remote(hub.url, token).post("v1", "inbox", "drain", body={})["deliveries"]):
        pass
    return list(deliveries)


async def next_subject(tmp_path: Path, webhooks: dict[str, Any], outside: Outside) -> Any:
    """Serve the hub again, and return the subject of what it posts first."""
    async with team_at(tmp_path, QUICK, webhooks=webhooks):
        _, body = await asyncio.to_thread(outside.take)
        return body["facts"]["subject"]


async def test_a_destination_that_is_down_is_in_nobodys_way(tmp_path: Path, outside: Outside) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        nobody = f"http://127.0.0.1:{unused.getsockname()[1]}/"
        down = hooks(outside, tmp_path, url=nobody) | {"backoff_s": [1000.0], "attempts_max": 1000}
        async with planning(tmp_path, down, 1, 2, 3):
            pass


@pytest.mark.parametrize("answer", [None, 500, 404])
async def test_an_event_that_is_not_taken_holds_up_no_other(
    tmp_path: Path, outside: Outside, answer: int | None
) -> None:
    """Not even one that is never answered, whose bytes trickle so that no timeout of a socket ends it."""

    def stumbles(body: Any) -> int | None:
        return answer if body["facts"]["subject"] == "msg_1_x" else 204

    outside.answer = stumbles
    slow = hooks(outside, tmp_path) | {"timeout_s": 0.1, "hold_s": 0.1, "backoff_s": [0.05, 1000.0]}
    async with planning(tmp_path, slow | {"attempts_max": 1000}, 1, 2, 3):
        while (body := (await asyncio.to_thread(outside.take))[1])["facts"]["subject"] == "msg_1_x":
            pass
        assert body["facts"]["subject"] == "msg_2_x"
        _, body = await asyncio.to_thread(outside.take)
        assert (body["facts"]["subject"], body["missed"]) == ("msg_3_x", 0)
    outside.answer = lambda body: 204
    assert await next_subject(tmp_path, hooks(outside, tmp_path), outside) == "msg_1_x"


@pytest.mark.parametrize(
    "change",
    [{"url": "ftp://somewhere"}, {"url": "nowhere"}, {"events": ["NoSuchEvent"]}, {"secret_file": "missing"}],
)
async def test_what_cannot_be_is_said_at_the_start(tmp_path: Path, outside: Outside, change: dict[str, Any]) -> None:
    with pytest.raises(TocsinError, match="webhook pager"):
        await planning(tmp_path, hooks(outside, tmp_path, **change)).__aenter__()
