"""Handshakes that are refused: the answer is a problem document, and the connection is closed."""

import asyncio
import json
from importlib.metadata import version

import pytest

from tests.gateways.test_transport import line
from tests.gateways.websocket.sockets import SocketTeam
from tocsin.gateways.http.server import QuietServer, listen, server_settings
from tocsin.gateways.http.standby import StandbyApp
from tocsin.hub.config import load_config
from tocsin.hub.ownership import Seen
from tocsin.journal.postgres.ownership import Sighting

KEY = "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
VERSION = "Sec-WebSocket-Version: 13\r\n"
OTHER = Sighting(1, "other", "http://other:7077", 1, 10.0)


def handshake(path: str = "/v1/socket", *more: str, method: str = "GET") -> bytes:
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    return (head + "".join(more) + "\r\n").encode()


def _told(status: int, code: str) -> tuple[int, str]:
    """Return the refusal of a malformed handshake; libraries before 17 do not tell its kinds apart."""
    return (status, code) if int(version("websockets").split(".")[0]) >= 17 else (400, "malformed_request")


@pytest.mark.parametrize(
    ("asked", "refused"),
    [
        (handshake("/nowhere", KEY, VERSION), (404, "no_such_operation")),
        (handshake("/v1/me", KEY, VERSION), (404, "no_such_operation")),
        (handshake("/v1/socket", VERSION), (400, "malformed_request")),
        (handshake("/v1/socket", KEY), (400, "malformed_request")),
        (handshake("/v1/socket", KEY, VERSION, method="POST"), _told(405, "method_not_allowed")),
        (handshake("/v1/socket", KEY, VERSION, f"X: {'x' * 9000}\r\n"), _told(431, "head_too_large")),
        (handshake("/v1/socket", KEY, VERSION, "X: y\r\n" * 200), _told(431, "head_too_large")),
        (handshake(f"/v1/socket?{'x' * 9000}", KEY, VERSION), _told(414, "malformed_request")),
        (handshake("/v1/socket", KEY, VERSION, "Content-Length: 1\r\n"), (400, "malformed_request")),
        (handshake("/v1/socket", KEY, VERSION), (401, "unauthenticated")),
    ],
    ids=["path", "operation", "key", "version", "method", "header", "headers", "long", "body", "token"],
)
async def test_a_handshake_that_leads_nowhere_is_answered_and_closed(
    team: SocketTeam, asked: bytes, refused: tuple[int, str]
) -> None:
    async with line(team, asked) as knocking:
        assert await knocking.problem() == refused


async def test_a_hub_that_stands_by_says_so_to_sockets_too() -> None:
    listener = listen("127.0.0.1", 0)
    server = QuietServer(server_settings(StandbyApp(lambda: Seen(OTHER)), load_config()))
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    reader, writer = await asyncio.open_connection(*listener.getsockname())
    writer.write(handshake("/v1/socket", KEY, VERSION))
    head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    server.stop()
    await serving
    assert b" 503 " in head.splitlines()[0]
    assert json.loads(body)["facts"] == {"owner": "other", "address": "http://other:7077"}
