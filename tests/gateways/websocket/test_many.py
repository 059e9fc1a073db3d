"""Many connections: a real hub in one process, the crowd in another. Ten thousand with TOCSIN_SOAK=1."""

import asyncio
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import httpx2
from websockets.asyncio.client import connect

from tests.cli.processes import RunningHub
from tests.gateways.websocket.sockets import Client, envelope

SOAK = bool(os.environ.get("TOCSIN_SOAK"))
SOCKETS, AGENTS = (10_000, 1000) if SOAK else (300, 30)
DIRECTOR = {"Tocsin-Agent": "boss", "Tocsin-Role": "director"}


def connections(url: str) -> int:
    text = httpx2.get(url + "/metrics", headers=DIRECTOR, timeout=60).text
    (line,) = [line for line in text.splitlines() if line.startswith("socket_connections ")]
    return int(float(line.split()[1]))


def memory_kb(process: int) -> int:
    status = Path(f"/proc/{process}/status")
    if not status.exists():
        return 0
    return int(next(line.split()[1] for line in status.read_text().splitlines() if line.startswith("VmRSS")))


async def write_to_all(url: str) -> None:
    socket = await connect(
        url.replace("http", "ws") + "/v1/socket",
        additional_headers=DIRECTOR,
        subprotocols=["tocsin.v1"],  # type: ignore[list-item]
        compression=None,
    )
    boss = Client(socket)
    await boss.hello(agent_type="Manager")
    for start in range(0, AGENTS, 100):
        operations = [
            {"op": "send", "envelope": envelope(number, sender="boss", receiver=f"agent_{number}")}
            for number in range(start, min(AGENTS, start + 100))
        ]
        assert all(answer["ok"]["receipt"]["delivered"] for answer in await boss.ask(*operations))
    await boss.ok("bye")
    await boss.closed()


def test_a_crowd_is_let_in_written_to_and_gone(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert hard == resource.RLIM_INFINITY or hard > SOCKETS + 500, "this system allows too few open files"
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, SOCKETS + 500)), hard))
    with RunningHub(tmp_path / "data", "--insecure-loopback") as hub:
        port = hub.url.rsplit(":", 1)[1]
        alone = memory_kb(hub.process.pid)
        started = time.monotonic()
        with subprocess.Popen(  # noqa: S603
            [sys.executable, "-m", "tests.gateways.websocket.crowd", port, str(SOCKETS), str(AGENTS)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[3],
        ) as crowd:
            assert crowd.stdout is not None
            assert crowd.stdin is not None
            assert crowd.stdout.readline() == "up\n"
            took_s = time.monotonic() - started
            assert connections(hub.url) == SOCKETS
            each_kb = (memory_kb(hub.process.pid) - alone) / SOCKETS
            asyncio.run(asyncio.wait_for(write_to_all(hub.url), 120))
            assert crowd.stdout.readline() == f"got {AGENTS}\n"
            crowd.stdin.write("\n")
            crowd.stdin.flush()
            assert crowd.wait(60) == 0
        while connections(hub.url):
            time.sleep(0.05)
        assert hub.stop() == 0
    assert "Traceback" not in hub.log.read_text()
    print(f"{SOCKETS} sockets in {took_s:.1f} s, {each_kb:.1f} KiB each")  # noqa: T201
