"""Thousands of authenticated connections: a hub in one process, the agents in another; ten thousand in `make soak`."""

import asyncio
import resource
import subprocess
import sys
import time
from pathlib import Path

import httpx2
import pytest
from websockets.asyncio.client import connect

from tests.cli.processes import RunningHub
from tests.envelopes import envelope
from tests.gateways.websocket.sockets import Client
from tests.patience import PATIENCE_S
from tests.soak import scaled
from tocsin.hub.auth.sqlite_grants import SqliteGrants
from tocsin.hub.auth.tokens import Grant, fresh_secret, hash_of, with_mac

#: More than the open files that systems allow by default, so that the hub has to raise the limit.
SOCKETS, AGENTS = scaled(2000, 10_000), scaled(200, 1000)
#: What the hub, and the crowd, keep open beside the sockets.
OTHER_FILES = 500
BOSS = "boss"


#: However busy this machine is, nobody is sent away for being slow.
SERVER = "socket: {hello_timeout_s: 300, silence_max_s: 600}\nhealth_interval_s: 86400\n"


def prepare(data: Path) -> dict[str, str]:
    """Create a project's directory with a token for every agent, in one commit, before a hub serves it."""
    data.mkdir(mode=0o700)
    (data / "server.yaml").write_text(SERVER)
    roles = {BOSS: "director"} | {f"agent_{number}": "primary" for number in range(AGENTS)}
    secrets = {agent: fresh_secret() for agent in roles}
    grants = [
        with_mac(
            Grant(
                secret.token_id, "default", agent, roles[agent], False, hash_of(secret.secret), time.time_ns() // 1000
            ),
            secret,
        )
        for agent, secret in secrets.items()
    ]
    store = SqliteGrants(data, "default")
    store.write(grants)
    store.close()
    return {agent: secret.spell() for agent, secret in secrets.items()}


def connections(url: str, token: str) -> int:
    text = httpx2.get(url + "/metrics", headers={"Authorization": f"Bearer {token}"}, timeout=60).text
    (line,) = [line for line in text.splitlines() if line.startswith('socket_connections{project="default"} ')]
    return int(float(line.split()[1]))


def memory_kb(process: int) -> int:
    status = Path(f"/proc/{process}/status")
    if not status.exists():
        return 0
    return int(next(line.split()[1] for line in status.read_text().splitlines() if line.startswith("VmRSS")))


async def write_to_all(url: str, token: str) -> None:
    socket = await connect(
        url.replace("http", "ws") + "/v1/socket",
        additional_headers={"Authorization": f"Bearer {token}"},
        subprotocols=["tocsin.v1"],  # type: ignore[list-item]
        compression=None,
    )
    boss = Client(socket)
    await boss.hello(type="Manager")
    for start in range(0, AGENTS, 100):
        operations = [
            {"op": "send_message", "envelope": envelope(number, sender=BOSS, receiver=f"agent_{number}")}
            for number in range(start, min(AGENTS, start + 100))
        ]
        assert all(answer["ok"]["receipt"]["delivered"] for answer in await boss.ask(*operations))
    await boss.ok("bye")
    await boss.closed()


async def test_a_crowd_is_let_in_written_to_and_gone(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = SOCKETS + OTHER_FILES
    if hard != resource.RLIM_INFINITY and hard < wanted:
        pytest.skip(f"this system allows {hard} open files, and {wanted} are needed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    data, list_of_tokens = tmp_path / "data", tmp_path / "tokens"
    tokens = prepare(data)
    boss = tokens.pop(BOSS)
    list_of_tokens.write_text("\n".join(tokens.values()))
    with RunningHub(data) as hub:
        port = hub.url.rsplit(":", 1)[1]
        alone = memory_kb(hub.process.pid)
        started = time.monotonic()
        with subprocess.Popen(  # noqa: S603
            [sys.executable, "-m", "tests.gateways.websocket.crowd", port, str(SOCKETS), str(list_of_tokens)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[3],
        ) as crowd:
            assert crowd.stdout is not None
            assert crowd.stdin is not None
            assert crowd.stdout.readline() == "up\n"
            took_s = time.monotonic() - started
            assert connections(hub.url, boss) == SOCKETS
            each_kb = (memory_kb(hub.process.pid) - alone) / SOCKETS
            await asyncio.wait_for(write_to_all(hub.url, boss), PATIENCE_S)
            assert crowd.stdout.readline() == f"got {AGENTS}\n"
            crowd.stdin.write("\n")
            crowd.stdin.flush()
            assert crowd.wait(PATIENCE_S) == 0
        while connections(hub.url, boss):
            await asyncio.sleep(0.05)
        assert hub.stop() == 0
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert "Traceback" not in hub.log.read_text()
    print(f"{SOCKETS} sockets in {took_s:.1f} s, {each_kb:.1f} KiB each")  # noqa: T201
