"""Invalid input over a socket: the hub keeps serving, answers with a code of the catalogue and keeps no state."""

import asyncio
import contextlib
import gc
import json
import logging
import random
import resource
import struct
import tracemalloc
from collections.abc import Awaitable, Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.envelopes import envelope
from tests.gateways.websocket.sockets import Client, SocketTeam, socket_team
from tests.soak import scaled
from tocsin.core.errors import CATALOGUE
from tocsin.wire.socket import OPERATION_NAMES, Fault, read_frame

ROUNDS = scaled(60, 2000)

NAMES = [*OPERATION_NAMES, "fly", "", "HELLO"]
FIELDS = ["id", "window", "session", "message_id", "message_ids", "envelope", "reason", "status", "operation"]
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False),
    st.text(max_size=20),
    st.sampled_from(["msg_1_x", "ada", "bob", "received", "get_me", "list_agents", "get_policy", "*", "ses_1"]),
)
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
)
ENVELOPES = st.builds(
    lambda changes, gone: {key: value for key, value in (envelope(1) | changes).items() if key not in gone},
    st.dictionaries(st.sampled_from([*envelope(1), "qos", "metadata", "correlationId"]), VALUES, max_size=3),
    st.sets(st.sampled_from(list(envelope(1))), max_size=2),
)
OPERATIONS = st.builds(
    lambda name, fields, letter: {"op": name, **fields} | ({"envelope": letter} if name == "send_message" else {}),
    st.sampled_from(NAMES),
    st.dictionaries(st.sampled_from([*FIELDS, "type", "versions", "capabilities", "arguments"]), VALUES),
    ENVELOPES,
)
FRAMES = st.one_of(
    st.lists(st.one_of(OPERATIONS, VALUES), max_size=6).map(json.dumps), VALUES.map(json.dumps), st.text()
)


@settings(max_examples=scaled(80, 2000), deadline=None)
@given(FRAMES)
def test_any_text_is_operations_and_faults(text: str) -> None:
    for part in read_frame(text, 100):
        if isinstance(part, Fault):
            assert part.problem.code in CATALOGUE
            assert part.problem.detail


async def shout(client: Client, frame: str | bytes) -> None:
    """Send a frame, and ignore a closed connection."""
    with contextlib.suppress(ConnectionError):
        await client.raw(frame)


async def reopened(team: SocketTeam, client: Client | None) -> Client:
    """Return the client if it is still connected, or a new one with a session."""
    if client is not None and client.socket.close_code is None:
        return client
    return await team.attach("ada")


def broken(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the exceptions in the log, except those of uvicorn about invalid UTF-8."""
    errors = [record for record in caplog.records if record.levelno >= logging.ERROR]
    return [record.getMessage() for record in errors if "Invalid UTF-8" not in record.getMessage()]


def check_answers(client: Client) -> None:
    for item in (item for frame in client.frames for item in frame):
        if "problem" in item:
            assert item["problem"]["code"] in CATALOGUE, item
        else:
            assert item.keys() in ({"re", "ok"}, {"deliver"}, {"bye"}), item
    client.frames.clear()


async def test_a_hub_answers_garbage_from_the_catalogue(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with socket_team(tmp_path, socket={"faults_max": 1000}) as team:
        loop, client = asyncio.get_running_loop(), await team.attach("ada")
        frames: list[str] = []

        @settings(
            max_examples=scaled(60, 1500),
            deadline=None,
            phases=[Phase.generate],
            database=None,
            suppress_health_check=list(HealthCheck),
        )
        @given(FRAMES)
        def collect(frame: str) -> None:
            frames.append(frame)

        await loop.run_in_executor(None, collect)
        for frame in frames:
            client = await reopened(team, client)
            await shout(client, frame)
            await shout(client, '[{"op": "ping", "id": 4503599627370496}]')
            done = asyncio.create_task(client.closed())
            while not done.done():
                answer = asyncio.create_task(client.loose.get())
                await asyncio.wait({answer, done}, return_when=asyncio.FIRST_COMPLETED)
                if not answer.done():
                    answer.cancel()
                elif answer.result()["re"] == 4503599627370496:
                    break
            done.cancel()
            check_answers(client)
        assert (await team.get("ada", "/v1/me")).status_code == 200
        assert team.hub.host.condition == "serving"
    assert not broken(caplog)


def garbage(rng: random.Random) -> bytes:
    """Return bytes that resemble WebSocket frames, or are random."""
    body = rng.randbytes(rng.choice((0, 1, 7, 125, 126, 300, 5000)))
    kind = rng.random()
    if kind < 0.3:
        return body
    head = bytes([rng.choice((0x81, 0x82, 0x80, 0x88, 0x89, 0x8A, 0x01, 0xC1, rng.randrange(256)))])
    mask = rng.choice((0x80, 0x80, 0x80, 0))
    length = rng.choice((len(body), len(body), len(body) + 5, 2**40))
    if length < 126:
        size = bytes([mask | length])
    elif length < 65536:
        size = bytes([mask | 126]) + struct.pack("!H", length)
    else:
        size = bytes([mask | 127]) + struct.pack("!Q", length)
    text = json.dumps([{"op": rng.choice(NAMES), "id": rng.randrange(9)}]).encode()
    return head + size + (b"\0\0\0\0" if mask else b"") + (body if rng.random() < 0.7 else text)


async def upgrade(team: SocketTeam) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Open a WebSocket over a raw connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", team.port)
    lines = [
        "GET /v1/socket HTTP/1.1",
        "Host: localhost",
        "Upgrade: websocket",
        "Connection: Upgrade",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Protocol: tocsin.v1",
        f"Authorization: Bearer {team.tokens['ada']}",
    ]
    writer.write(("\r\n".join(lines) + "\r\n\r\n").encode())
    assert b" 101 " in await reader.readuntil(b"\r\n\r\n")
    return reader, writer


async def one_round(team: SocketTeam, rng: random.Random) -> None:
    """Send garbage over a raw connection until the hub closes it or all is sent."""
    reader, writer = await upgrade(team)
    try:
        for _ in range(rng.randint(1, 12)):
            writer.write(garbage(rng))
            await writer.drain()
        if rng.random() < 0.5:
            writer.write_eof()
        else:
            writer.transport.abort()
        while await reader.read(65536):
            pass
    except ConnectionError:
        pass
    finally:
        writer.close()


def memory() -> int:
    """Return the bytes that Tocsin has allocated."""
    gc.collect()
    own = tracemalloc.take_snapshot().filter_traces([tracemalloc.Filter(True, "*/tocsin/*")])
    return sum(trace.size for trace in own.traces)


async def least_growth(work: Callable[[], Awaitable[None]]) -> int:
    """Return by how many bytes Tocsin's memory grows when some work is repeated.

    What the work leaves behind is there after each repetition. Other hubs of the process, in threads of earlier tests,
    allocate too, but not each time: so the least of several repetitions counts.
    """
    tracemalloc.start()
    try:
        await work()
        sizes = [memory()]
        for _ in range(3):
            await work()
            sizes.append(memory())
    finally:
        tracemalloc.stop()
    return min(after - before for before, after in pairwise(sizes))


async def test_random_bytes_leave_nothing_behind(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with socket_team(tmp_path, socket={"hello_timeout_s": 0.5, "close_timeout_s": 0.2}) as team:
        rng = random.Random(7)
        # The most that this process has ever had; other tests of the worker may have taken much more.
        resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

        async def many() -> None:
            for _ in range(ROUNDS):
                await one_round(team, rng)
            while team.metric("socket_connections"):
                await asyncio.sleep(0.005)

        await many()
        grown = await least_growth(many)
        assert grown < 150_000, f"{grown} bytes are still there after {ROUNDS} more connections"
        limit = team.hub.config.socket.connections_per_agent_max
        for _ in range(limit - 1):
            await team.open("ada")
        ada, bob = await team.attach("ada"), await team.attach("bob")
        await ada.send(1)
        assert await bob.take() == ["msg_1_x"]
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < resident + 1_000_000
    assert not broken(caplog)


async def test_operations_that_are_refused_leave_nothing_behind(team: SocketTeam) -> None:
    ada = await team.attach("ada")
    bad: list[dict[str, Any]] = [
        {"op": "send_message", "envelope": envelope(1, receiver="nobody" + "x" * 30)},
        {"op": "send_message", "envelope": {"payload": "x" * 1000}},
        {"op": "acknowledge_message", "message_id": "msg_0_x"},
        {"op": "call", "operation": "nothing"},
        {"op": "call", "operation": "get_agent", "arguments": {"agent": "nobody"}},
        {"op": "credit", "window": -1},
        {"op": "hello"},
    ]

    async def many() -> None:
        for _ in range(ROUNDS):
            await ada.ask(*[dict(operation) for operation in bad])
            ada.frames.clear()

    grown = await least_growth(many)
    assert grown < 100_000, f"{grown} bytes are still there after {ROUNDS} more frames"
