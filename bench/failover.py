"""Benchmark of takeover: the time from the loss of the owner to the first commit of the standby.

Two real hubs run on one PostgreSQL server. The owner is killed (`SIGKILL`), or stopped (`SIGSTOP`) so that its lease
has to end first. Meanwhile callers in another process send requests to the standby, each a pause after the last answer.
"""

import asyncio
import contextlib
import json
import multiprocessing
import signal
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.cli.processes import RunningHub
from tests.envelopes import envelope
from tests.postgres import Server

from bench.report import Run, options, table
from tocsin.cli.remote import Remote
from tocsin.hub.config import load_config

CALLERS = 300
MESSAGES = 5_000
BATCH = 100
#: Pause of a caller after each answer, seconds.
PAUSE_S = 0.1
FAULTS = {"killed": signal.SIGKILL, "stopped": signal.SIGSTOP}


async def call(url: str, token: str, number: int, pause_s: float) -> None:
    """Send requests to a hub on many connections, and reconnect when they are closed; never return."""
    parts = urlsplit(url)
    head = f"GET /v1/me HTTP/1.1\r\nHost: hub\r\nAuthorization: Bearer {token}\r\n\r\n".encode()

    async def caller() -> None:
        while True:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
                try:
                    while True:
                        writer.write(head)
                        answer = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
                        await reader.readexactly(int(answer.partition("content-length:")[2].split("\r\n")[0]))
                        await asyncio.sleep(pause_s)
                finally:
                    writer.close()
            await asyncio.sleep(pause_s)

    await asyncio.gather(*(caller() for _ in range(number)))


def call_forever(url: str, token: str, number: int, pause_s: float) -> None:
    """Run the callers in a process of their own, so that they do not delay the measurement."""
    asyncio.run(call(url, token, number, pause_s))


def fill(hub: RunningHub, admin: Remote, messages: int) -> str:
    """Send messages, so that the standby has a state to load; return the token of an agent."""
    tokens = [admin.post("v1", "admin", "tokens", body={"agent": name})["token"] for name in ("ada", "bob")]
    ada = Remote(hub.url, tokens[0])
    for first in range(0, messages, BATCH):
        replies = ada.post("v1", "messages", "batch", body=[envelope(first + number) for number in range(BATCH)])
        if "refused" in json.dumps(replies):
            raise SystemExit(f"the fill was refused: {replies}")
    return str(tokens[0])


def is_ready(url: str) -> bool:
    """Tell whether a hub serves: a commit has just worked."""
    try:
        with urllib.request.urlopen(f"{url}/ready", timeout=60) as reply:  # noqa: S310
            return bool(reply.status == 200)
    except (urllib.error.URLError, ConnectionError):
        return False


def measure(server: Server, folder: Path, fault: str, callers: int, messages: int, pause_s: float) -> Any:
    """Lose the owner once; return the seconds until the standby serves."""
    name = f"failover_{fault}_{callers}"
    server.database(name)
    store = f"postgresql://tocsin@/{name}?host={server.folder}"
    policy = "bucket: {capacity: 1000000}\nlimits: {mailbox_depth_max: 1000000}\n"
    for place in ("one", "two"):
        (folder / name / place).mkdir(parents=True)
        (folder / name / place / "tocsin.yaml").write_text(policy)
    with RunningHub(folder / name / "one", "--store", store, "--log-level", "warning") as owner:
        admin = Remote(owner.url, (folder / name / "one" / "admin.token").read_text().strip())
        token = fill(owner, admin, messages)
        standby = RunningHub(folder / name / "two", "--store", store, "--standby", "--log-level", "warning")
        try:
            line = standby.process.stdout.readline()  # type: ignore[union-attr]
            standby.url = line.split()[-1]
            crowd = multiprocessing.Process(target=call_forever, args=(standby.url, token, callers, pause_s))
            crowd.start()
            time.sleep(2)
            owner.process.send_signal(FAULTS[fault])
            lost_at = time.perf_counter()
            while not is_ready(standby.url):
                time.sleep(0.02)
            took_s = time.perf_counter() - lost_at
        finally:
            crowd.kill()
            crowd.join()
            standby.stop()
            owner.process.kill()
    return {"fault": fault, "callers": callers, "takeover_s": round(took_s, 3)}


def main() -> None:
    """Print the figures."""
    parser = options("bench-failover", __doc__, rounds=1)
    parser.add_argument("--callers", type=int, default=CALLERS)
    parser.add_argument("--messages", type=int, default=MESSAGES)
    parser.add_argument("--pause", type=float, default=PAUSE_S, help="pause of a caller after an answer, seconds")
    chosen = parser.parse_args()
    with Run("bench-failover", chosen, rounds=1, rounds_min=1) as run, tempfile.TemporaryDirectory() as folder:
        server = Server(fsync=True)
        try:
            server.create()
            rows = [
                measure(server, Path(folder), fault, callers, chosen.messages, chosen.pause)
                for fault in FAULTS
                for callers in (0, chosen.callers)
            ]
        finally:
            server.remove()
    cells = [[row["fault"], str(row["callers"]), f"{row['takeover_s']:.2f}"] for row in rows]
    lease_s = load_config().ownership.lease_s
    figures = {"messages": chosen.messages, "pause_s": chosen.pause, "lease_s": lease_s, "runs": rows}
    run.finish(table(["owner", "callers", "takeover s"], cells), figures)


if __name__ == "__main__":
    main()
