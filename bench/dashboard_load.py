"""Load processes of `bench.dashboard`: each reads its task as a line of JSON and writes its result as JSON.

`steady` sends at a fixed rate until its standard input closes. `viewers` acts like open dashboards without drawing:
each signs in, listens to live updates, and repeats the requests of the overview at the same intervals.
"""

import asyncio
import contextlib
import json
import sys
from typing import Any

import httpx2
import uvloop
from websockets.asyncio.client import connect

from bench.load import Figures, Socket, clock, template

CONNECTIONS = 8
#: Requests of the overview: path, and shortest interval in seconds.
POLLS = (("/v1/overview", 5.0), ("/v1/pending", 2.0))


async def _stop_requested() -> None:
    """Wait until standard input is closed."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    await reader.read()


def _ready() -> None:
    print("ready", flush=True)


async def steady(task: dict[str, Any]) -> dict[str, float]:
    """Send messages at a fixed rate, each pushed to its recipient and confirmed."""
    figures = Figures(1e9)
    sockets = [await Socket.open(task, number, figures, window=256) for number in range(CONNECTIONS)]
    figures.start()
    envelope, batch = template(), task["batch"]
    pause = batch * CONNECTIONS / task["per_s"]
    late = 0.0

    async def send(socket: Socket) -> None:
        nonlocal late
        due = clock() + pause * socket.number / CONNECTIONS
        while True:
            await asyncio.sleep(max(0.0, due - clock()))
            late = max(late, clock() - due)
            await socket.send(envelope, (socket.number + 1) % CONNECTIONS, batch)
            due = max(due + pause, clock() - 1.0)  # Delays of more than a second are not caught up.

    senders = asyncio.gather(*[send(socket) for socket in sockets])
    _ready()
    await _stop_requested()
    senders.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await senders
    return {"messages": float(figures.messages), "late_max_s": round(late, 3)}


async def viewers(task: dict[str, Any]) -> dict[str, float]:
    """Simulate open dashboards."""
    heard = {"frames": 0.0, "bytes": 0.0, "answers": 0.0}
    url = task["url"]

    async def watch(opened: asyncio.Event) -> None:
        async with httpx2.AsyncClient(base_url=url, headers={"Tocsin-Dashboard": "1"}, timeout=60) as client:
            signed = await client.post("/sign-in", json={"token": task["token"]}, headers={"Origin": url})
            signed.raise_for_status()
            cookie = "; ".join(f"{name}={value}" for name, value in client.cookies.items())

            async def poll(path: str, every_s: float) -> None:
                while True:
                    (await client.get(path)).raise_for_status()
                    heard["answers"] += 1
                    await asyncio.sleep(every_s)

            polls = [asyncio.create_task(poll(path, every_s)) for path, every_s in POLLS]
            live = url.replace("http", "ws") + "/v1/live"
            headers = {"Cookie": cookie}
            async with connect(live, origin=url, additional_headers=headers, compression=None, max_size=None) as socket:
                opened.set()
                try:
                    async for frame in socket:
                        heard["frames"] += 1
                        heard["bytes"] += len(frame)
                finally:
                    for each in polls:
                        each.cancel()
                    await asyncio.gather(*polls, return_exceptions=True)

    async def until(events: list[asyncio.Event]) -> None:
        for event in events:
            await event.wait()

    events = [asyncio.Event() for _ in range(task["viewers"])]
    watching = [asyncio.create_task(watch(event)) for event in events]
    for awaited, said in ((until(events), _ready), (_stop_requested(), None)):
        meanwhile = asyncio.create_task(awaited)
        done, _ = await asyncio.wait([meanwhile, *watching], return_when=asyncio.FIRST_COMPLETED)
        if meanwhile not in done:
            sys.exit(f"a dashboard was refused or closed: {done.pop().exception()!r}")
        if said is not None:
            said()
    for each in watching:
        each.cancel()
    await asyncio.gather(*watching, return_exceptions=True)
    return heard


KINDS = {"steady": steady, "viewers": viewers}


def main() -> None:
    task = json.loads(sys.stdin.readline())
    print(json.dumps(uvloop.run(KINDS[task["kind"]](task))))


if __name__ == "__main__":
    main()
