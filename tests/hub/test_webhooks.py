"""Webhooks against a real server on loopback: signed, retried, in order, resumed, never redirected."""

import asyncio
import json
import queue
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.gateways.hubs import QUICK, envelope, team_at
from tocsin.core.errors import TocsinError
from tocsin.hub.webhooks import sign

SECRET = b"a secret of some length"
WAIT_S = 30


class Outside:
    """Somebody outside: answers as told, and keeps what came."""

    def __init__(self) -> None:
        self.came: queue.Queue[tuple[dict[str, str], bytes]] = queue.Queue()
        self.statuses: list[int] = []
        outside = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                status = outside.statuses.pop(0) if outside.statuses else 204
                self.send_response(status)
                if status == 302:
                    self.send_header("Location", "/elsewhere")
                self.send_header("Content-Length", "0")
                self.end_headers()
                outside.came.put((dict(self.headers) | {"path": self.path}, body))

            def log_message(self, *args: Any) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/hook?team=a"
        self._thread = threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def take(self) -> tuple[dict[str, str], Any]:
        headers, body = self.came.get(timeout=WAIT_S)
        assert headers["Tocsin-Signature"] == sign(SECRET, headers["Tocsin-Timestamp"], body)
        return headers, json.loads(body)

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self._thread.join()


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


def run(tmp_path: Path, webhooks: dict[str, Any], *plans: int) -> None:
    """Serve a hub for as long as it takes to have some plans held."""

    async def story() -> None:
        async with team_at(tmp_path, QUICK, webhooks=webhooks) as team:
            await team.register("ada")
            await team.register("bob")
            for number in plans:
                answer = await team.post("ada", "/v1/messages", envelope(number, messageType="CUSTOM_PLAN"))
                assert answer.status_code == 200

    asyncio.run(asyncio.wait_for(story(), 60))


def test_events_are_posted_signed_and_in_order(tmp_path: Path, outside: Outside) -> None:
    async def story() -> None:
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

    asyncio.run(asyncio.wait_for(story(), 60))


def test_what_fails_is_tried_again_and_given_up_in_the_end(tmp_path: Path, outside: Outside) -> None:
    async def story() -> None:
        outside.statuses = [500, 302, 503, 429]
        async with team_at(tmp_path, QUICK, webhooks=hooks(outside, tmp_path)) as team:
            await team.register("ada")
            await team.register("bob")
            for number in (1, 2):
                await team.post("ada", "/v1/messages", envelope(number, messageType="CUSTOM_PLAN"))
            came = [await asyncio.to_thread(outside.take) for _ in range(5)]
        assert [body["facts"]["subject"] for _, body in came] == ["msg_1_x"] * 3 + ["msg_2_x"] * 2
        assert {headers["path"] for headers, _ in came} == {"/hook?team=a"}, "no redirect is followed"
        assert came[-1][1]["missed"] == 1, "the one that was given up is owned up to"

    asyncio.run(asyncio.wait_for(story(), 60))


def test_a_restart_goes_on_where_it_was(tmp_path: Path, outside: Outside) -> None:
    outside.statuses = [500] * 1000
    stubborn = hooks(outside, tmp_path) | {"attempts_max": 1000, "backoff_s": [0.05]}
    run(tmp_path, stubborn, 1)
    outside.statuses = []
    while not outside.came.empty():
        outside.came.get()
    run_until_taken(tmp_path, stubborn, outside, "msg_1_x")


def run_until_taken(tmp_path: Path, webhooks: dict[str, Any], outside: Outside, subject: str) -> None:
    async def story() -> None:
        async with team_at(tmp_path, QUICK, webhooks=webhooks):
            _, body = await asyncio.to_thread(outside.take)
            assert body["facts"]["subject"] == subject

    asyncio.run(asyncio.wait_for(story(), 60))


def test_a_destination_that_is_down_is_in_nobodys_way(tmp_path: Path, outside: Outside) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        nobody = f"http://127.0.0.1:{unused.getsockname()[1]}/"
    run(tmp_path, hooks(outside, tmp_path, url=nobody) | {"backoff_s": [1000.0], "attempts_max": 1000}, 1, 2, 3)


@pytest.mark.parametrize(
    "change",
    [{"url": "ftp://somewhere"}, {"url": "nowhere"}, {"events": ["NoSuchEvent"]}, {"secret_file": "missing"}],
)
def test_what_cannot_be_is_said_at_the_start(tmp_path: Path, outside: Outside, change: dict[str, Any]) -> None:
    with pytest.raises(TocsinError, match="webhook pager"):
        run(tmp_path, hooks(outside, tmp_path, **change))
