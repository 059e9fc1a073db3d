"""Limits of HTTP connections before and between requests, over real sockets."""

import asyncio
import http.client
import json
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from tests.envelopes import envelope
from tests.gateways.websocket.sockets import SocketTeam, socket_team
from tocsin.gateways.http.transport import ResponseTransport

HEALTH = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
LAST = b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


class Line:
    """A raw connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def say(self, data: bytes) -> None:
        self.writer.write(data)

    async def answer(self) -> tuple[int, dict[str, str], Any]:
        """Read one answer: status, headers, document."""
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").splitlines()
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
        body = await self.reader.readexactly(int(headers.get("content-length", "0")))
        return int(head[0].split()[1]), headers, json.loads(body)

    async def problem(self) -> tuple[int, str]:
        """Read the last answer, which is a problem, and check that the connection is closed."""
        status, headers, document = await self.answer()
        assert headers["content-type"] == "application/problem+json"
        assert headers["connection"] == "close"
        assert document["status"] == status
        await self.closed()
        return status, document["error_code"]

    async def closed(self) -> None:
        assert await self.reader.read() == b""


@asynccontextmanager
async def line(team: SocketTeam, *said: bytes, deaf: bool = False) -> AsyncIterator[Line]:
    end = socket.socket()
    if deaf:
        end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    end.setblocking(False)
    await asyncio.get_running_loop().sock_connect(end, ("127.0.0.1", team.port))
    reader, writer = await asyncio.open_connection(sock=end, limit=1 << 20)
    if deaf:
        writer.transport.pause_reading()  # type: ignore[attr-defined]
    try:
        for data in said:
            writer.write(data)
        yield Line(reader, writer)
    finally:
        writer.transport.abort()


def asking(team: SocketTeam, agent: str, path: str, method: str = "GET") -> bytes:
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {team.tokens[agent]}\r\n"
    return f"{head}Content-Length: 0\r\n\r\n".encode()


async def alone(team: SocketTeam, *, besides: int = 0) -> None:
    """Wait until the hub has no other connections."""
    await team.client.aclose()
    while len(team.server.server_state.connections) > besides:
        await asyncio.sleep(0.005)


async def test_a_connection_that_says_nothing_is_closed(tmp_path: Path) -> None:
    async with (
        socket_team(tmp_path, head_timeout_s=0.1) as team,
        line(team) as silent,
        line(team, b"\r\n\r\n") as blank,
    ):
        await silent.closed()
        await blank.closed()


async def test_half_a_head_is_given_up(tmp_path: Path) -> None:
    async with (
        socket_team(tmp_path, head_timeout_s=0.1) as team,
        line(team, HEALTH[:-2]) as first,
        line(team, HEALTH) as second,
    ):
        assert await first.problem() == (408, "head_timeout")
        assert (await second.answer())[0] == 200
        second.say(HEALTH[:20])
        assert await second.problem() == (408, "head_timeout")


async def test_an_idle_connection_is_closed_whatever_blank_it_sends(tmp_path: Path) -> None:
    async with socket_team(tmp_path, keep_alive_s=0.2) as team, line(team, HEALTH) as idle:
        assert (await idle.answer())[0] == 200
        idle.say(b"\r\n")
        await idle.closed()


@pytest.mark.parametrize("connection", ["close", "keep-alive"])
@pytest.mark.parametrize("path", ["/v1/messages", "/v1/messages/batch", "/v1/inbox/drain"])
async def test_a_caller_that_sends_too_much_sees_the_answer(tmp_path: Path, path: str, connection: str) -> None:
    """A client that sends its whole body before it reads must not find the connection reset."""

    def post(port: int, token: str) -> tuple[int, str]:
        client = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        headers = {"Authorization": f"Bearer {token}", "Connection": connection}
        try:
            client.request("POST", path, b" " * (20 << 20), headers)
            response = client.getresponse()
            return response.status, json.loads(response.read())["error_code"]
        finally:
            client.close()

    async with socket_team(tmp_path) as team:
        assert await asyncio.to_thread(post, team.port, team.tokens["ada"]) == (413, "too_large")


async def test_a_body_that_nobody_waits_for_has_its_time_too(tmp_path: Path) -> None:
    async with socket_team(tmp_path, body_timeout_s=0.2) as team:
        head = b"POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n"
        async with line(team, head) as endless, line(team, head) as honest:
            for one in (endless, honest):
                assert (await one.answer())[0] == 401
            honest.say(b" " * 9 + HEALTH)
            assert (await honest.answer())[0] == 200
            endless.say(b" ")
            await endless.closed()
            honest.say(LAST)
            assert (await honest.answer())[0] == 200


@pytest.mark.parametrize(
    "head",
    [
        b"GET /health HTTP/1.1\r\nX: " + b"x" * 3000 + b"\r\n\r\n",
        b"GET /health?" + b"x" * 3000 + b" HTTP/1.1\r\n\r\n",
        b"GET /health HTTP/1.1\r\n" + b"a:\r\n" * 80 + b"\r\n",
        b"POST /health HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: " + b"x" * 3000 + b"\r\n\r\n",
    ],
    ids=["header", "path", "many", "trailer"],
)
async def test_a_head_has_its_size(tmp_path: Path, head: bytes) -> None:
    async with socket_team(tmp_path, head_bytes_max=2048) as team:
        async with line(team, head) as large:
            assert await large.problem() == (431, "head_too_large")
        async with line(team, HEALTH) as small:
            assert (await small.answer())[0] == 200


async def test_a_head_without_an_end_is_not_kept(tmp_path: Path) -> None:
    async with (
        socket_team(tmp_path, head_bytes_max=40_000, head_timeout_s=3600) as team,
        line(team, b"GET /health HTTP/1.1\r\nX: " + b"x" * 60_000) as endless,
    ):
        assert await endless.problem() == (431, "head_too_large")


async def test_a_body_is_no_head(tmp_path: Path) -> None:
    async with socket_team(tmp_path, head_bytes_max=2048) as team:
        letter = json.dumps(envelope(1, payload={"text": "x" * 10_000})).encode()
        head = asking(team, "ada", "/v1/messages", "POST").replace(b"Length: 0", b"Length: %d" % len(letter))
        async with line(team, head) as busy:
            for start in range(0, len(letter), 500):
                busy.say(letter[start : start + 500])
                await asyncio.sleep(0)
            assert (await busy.answer())[0] == 200


async def test_a_connection_too_many_takes_the_place_of_the_idlest(tmp_path: Path) -> None:
    async with socket_team(tmp_path, connections_max=2) as team:
        await alone(team)
        async with line(team) as silent, line(team, HEALTH) as idle:
            assert (await idle.answer())[0] == 200
            async with line(team, HEALTH) as newcomer:
                assert (await newcomer.answer())[0] == 200
                await silent.closed()
                idle.say(LAST)
                assert (await idle.answer())[0] == 200


async def test_where_all_connections_are_busy_another_is_refused(tmp_path: Path) -> None:
    async with socket_team(tmp_path, connections_max=1) as team:
        await alone(team)
        half = asking(team, "ada", "/v1/messages", "POST").replace(b"Length: 0", b"Length: 2")
        async with line(team, half) as busy:
            while not team.server.server_state.tasks:
                await asyncio.sleep(0.001)
            async with line(team) as refused:
                assert await refused.problem() == (503, "too_many_connections")
            busy.say(b"{}")
            assert (await busy.answer())[0] == 422
        await alone(team)
        async with line(team, HEALTH) as after:
            assert (await after.answer())[0] == 200


async def test_sockets_are_not_counted_as_connections(tmp_path: Path) -> None:
    async with socket_team(tmp_path, connections_max=1) as team:
        await alone(team)
        sockets = [await team.attach(agent) for agent in ("ada", "bob", "ada")]
        async with line(team, HEALTH) as other:
            assert (await other.answer())[0] == 200
            for one in sockets:
                await one.ok("ping")


async def test_a_reader_that_takes_nothing_is_dropped(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with socket_team(tmp_path, write_timeout_s=0.2) as team:
        await alone(team)
        async with line(team, asking(team, "ada", "/openapi.json") * 200, deaf=True):
            while not team.server.server_state.tasks:
                await asyncio.sleep(0.001)
            await alone(team)
            while team.server.server_state.tasks:
                await asyncio.sleep(0.001)
        assert "connection dropped: the response was not read in time" in caplog.messages
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.parametrize("last", [b"Connection: close\r\n", b""], ids=["closing", "idle"])
async def test_a_connection_that_ends_does_not_wait_for_its_reader(tmp_path: Path, last: bytes) -> None:
    async with socket_team(tmp_path, write_timeout_s=0.2, keep_alive_s=0.1) as team:
        await alone(team)
        for listening in team.server.listening:
            listening.listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        ask = asking(team, "ada", "/metrics")
        answered = team.server.server_state.total_requests
        async with line(team, ask * 3 + ask.replace(b"Host", last + b"Host"), deaf=True):
            while team.server.server_state.total_requests < answered + 4:
                await asyncio.sleep(0.001)
            (held,) = team.server.server_state.connections
            assert 0 < held.transport.get_write_buffer_size() < 65_536, "less than makes the hub stop writing"
            await alone(team)


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01\x00\xa5\x01",
        b"nonsense\r\n\r\n",
        b"GET /health HTTP/9.9\r\n\r\n",
        b"GET /health HTTP/1.1\r\nno colon\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\n\r\n",
        b"POST /v1/messages HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"POST /v1/messages HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ],
    ids=["tls", "words", "version", "header", "path", "lengths", "smuggled"],
)
async def test_what_is_not_http_is_answered_from_the_catalogue(tmp_path: Path, data: bytes) -> None:
    async with socket_team(tmp_path) as team, line(team, data) as wrong:
        assert await wrong.problem() == (400, "malformed_request")


async def test_a_body_that_is_not_http_is_answered_instead_of_its_request(tmp_path: Path) -> None:
    async with socket_team(tmp_path) as team:
        head = asking(team, "ada", "/v1/messages", "POST").replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
        async with line(team, head) as wrong:
            while not team.server.server_state.tasks:
                await asyncio.sleep(0.001)
            wrong.say(b"not a size\r\n")
            assert await wrong.problem() == (400, "malformed_request")


async def test_requests_before_the_one_that_is_wrong_are_answered(tmp_path: Path) -> None:
    async with socket_team(tmp_path) as team, line(team, HEALTH * 3 + b"nonsense\r\n\r\n") as mixed:
        answers = [await mixed.answer() for _ in range(3)]
        assert [status for status, _, _ in answers] == [200] * 3
        assert answers[-1][1]["connection"] == "close"
        await mixed.closed()


async def test_requests_that_wait_for_their_answers_have_a_number(tmp_path: Path) -> None:
    async with socket_team(tmp_path, pipelined_max=4) as team, line(team, HEALTH * 100) as hasty:
        answers = [await hasty.answer() for _ in range(4)]
        assert [status for status, _, _ in answers] == [200] * 4
        assert answers[-1][1]["connection"] == "close"
        await hasty.closed()


async def test_no_socket_is_opened_behind_other_requests(tmp_path: Path) -> None:
    async with socket_team(tmp_path) as team:
        upgrade = b"GET /v1/socket HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
        async with line(team, HEALTH + upgrade) as sly:
            status, headers, _ = await sly.answer()
            assert (status, headers["connection"]) == (200, "close")
            await sly.closed()


async def test_a_caller_that_goes_in_the_middle_of_a_body_is_no_error(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with socket_team(tmp_path) as team:
        await alone(team)
        half = asking(team, "ada", "/v1/messages", "POST").replace(b"Length: 0", b"Length: 2")
        async with line(team, half + b"{"):
            while not team.server.server_state.tasks:
                await asyncio.sleep(0.001)
        while team.server.server_state.tasks:
            await asyncio.sleep(0.001)
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


async def test_a_usual_answer_is_written_as_uvicorn_writes_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    by_uvicorn: list[str] = []
    send = RequestResponseCycle.send

    async def watched(self: RequestResponseCycle, message: Any) -> None:
        by_uvicorn.append(message["type"])
        await send(self, message)

    monkeypatch.setattr(RequestResponseCycle, "send", watched)
    async with socket_team(tmp_path) as team, line(team, asking(team, "ada", "/v1/agents")) as caller:
        usual = await caller.answer()
        assert by_uvicorn == []
        caller.say(asking(team, "ada", "/v1/agents").replace(b"Host", b"Connection: close\r\nHost"))
        last = await caller.answer()
        assert by_uvicorn == ["http.response.start", "http.response.body"]
        assert last[1].pop("connection") == "close"
        usual[1]["date"] = last[1]["date"]
        assert usual == last
        await caller.closed()


async def test_a_body_that_has_arrived_needs_no_timer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    timed: list[float] = []
    timeout = asyncio.timeout

    def watched(delay_s: float) -> asyncio.Timeout:
        if delay_s == body_timeout_s:  # The server's own timers go on.
            timed.append(delay_s)
        return timeout(delay_s)

    async with socket_team(tmp_path) as team, line(team) as caller:
        body_timeout_s = team.hub.config.body_timeout_s
        body = json.dumps(envelope(1)).encode()
        head = asking(team, "ada", "/v1/messages", "POST").replace(b"Length: 0", b"Length: %d" % len(body))
        monkeypatch.setattr(asyncio, "timeout", watched)
        caller.say(head + body)
        assert (await caller.answer())[0] == 200
        assert timed == []
        caller.say(head)
        await asyncio.sleep(0.05)
        caller.say(body)
        assert (await caller.answer())[0] == 200
        assert timed == [body_timeout_s]


async def test_a_caller_can_wait_until_it_may_send_the_body(tmp_path: Path) -> None:
    async with socket_team(tmp_path) as team, line(team) as caller:
        body = json.dumps(envelope(1)).encode()
        head = asking(team, "ada", "/v1/messages", "POST").replace(b"Length: 0", b"Length: %d" % len(body))
        caller.say(head.replace(b"Host", b"Expect: 100-continue\r\nHost"))
        assert (await caller.reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 100")
        caller.say(body)
        assert (await caller.answer())[0] == 200


class Written:
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []

    def write(self, data: bytes) -> None:
        self.pieces.append(data)

    def close(self) -> None:
        self.pieces.append(b"closed")


def response_on(written: Written) -> ResponseTransport:
    return ResponseTransport(cast("asyncio.Transport", written), asyncio.get_running_loop())


async def test_a_head_is_written_with_the_body_that_follows_at_once() -> None:
    written = Written()
    response = response_on(written)
    for data in (b"head ", b"body ", b"more"):
        response.write(data)
    await asyncio.sleep(0)
    assert written.pieces == [b"head body ", b"more"]


async def test_a_head_does_not_wait_for_a_body_that_follows_later() -> None:
    written = Written()
    response = response_on(written)
    response.write(b"head")
    assert written.pieces == []
    await asyncio.sleep(0)
    assert written.pieces == [b"head"]
    response.write(b"body")
    assert written.pieces == [b"head", b"body"]


async def test_a_head_without_a_body_is_written_before_the_connection_is_closed() -> None:
    written = Written()
    response = response_on(written)
    response.write(b"head")
    response.close()
    await asyncio.sleep(0)
    assert written.pieces == [b"head", b"closed"]


async def test_a_large_body_is_not_copied() -> None:
    written, body = Written(), b"x" * 100_000
    response = response_on(written)
    response.write(b"head")
    response.write(body)
    assert written.pieces[0] == b"head"
    assert written.pieces[1] is body


async def test_an_answer_without_a_body_is_complete_before_the_next_one(tmp_path: Path) -> None:
    async with socket_team(tmp_path) as team, line(team, asking(team, "ada", "/v1/agents", "HEAD"), HEALTH) as caller:
        head = await caller.reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200")
        assert (await caller.answer())[0] == 200
