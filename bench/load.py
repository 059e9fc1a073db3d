"""Load process of `bench.hub`: reads its task as JSON and writes its measurements as JSON."""

import asyncio
import contextlib
import itertools
import json
import secrets
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import uvloop
from websockets.asyncio.client import ClientConnection, connect

from bench.report import percentile
from tocsin.core.protocol.timestamps import iso

MESSAGE_BYTES = 600
RUN = secrets.token_hex(4)
#: Time between two Critical messages, seconds.
CRITICAL_EVERY_S = 0.025
WARM_UP_S = 0.5
#: Messages before the floor is measured.
FLOOR_WARM_UP = 1000

clock = time.perf_counter


class Envelope(msgspec.Struct, rename="camel"):
    """The fields of an envelope that a recipient reads."""

    message_id: str


class Deliver(msgspec.Struct):
    """A pushed message."""

    signal_id: str
    envelope: Envelope


class Item(msgspec.Struct):
    """Any item from the hub."""

    re: int | None = None
    ok: msgspec.Raw = msgspec.Raw()
    problem: msgspec.Raw = msgspec.Raw()
    deliver: Deliver | None = None
    bye: msgspec.Raw = msgspec.Raw()


class Batch(msgspec.Struct):
    """The answer to a drain."""

    deliveries: list[Deliver]
    cursor: str


ITEMS = msgspec.json.Decoder(list[Item])
BATCHES = msgspec.json.Decoder(Batch)


def template(message_type: str = "TaskAssigned", priority: str = "Info") -> str:
    """Return an envelope of 600 bytes with placeholders for ids and names."""
    document = {
        "version": "1.1.0",
        "messageId": "msg_" + RUN + "_%d_%d",
        "timestamp": iso(time.time_ns() // 1000),
        "sender": {"agentId": "agent%d", "type": "Manager"},
        "receiver": {"agentId": "agent%d", "type": "*"},
        "messageType": message_type,
        "priority": priority,
        "payload": {"text": ""},
    }
    document["payload"] = {
        "text": ("lorem ipsum dolor sit amet " * 30)[: MESSAGE_BYTES - len(json.dumps(document)) - 12]
    }
    return json.dumps(document)


class Figures:
    """Measurements after a warm-up."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.begin = self.end = float("inf")
        self.confirmed = 0
        self.messages = 0
        self.sends: list[float] = []
        self.ends: list[float] = []
        #: When each message whose arrival is measured was sent, and when it arrived.
        self.stamps: dict[str, tuple[float, float]] = {}
        #: Scheduling delays of this process, milliseconds, which are part of its figures.
        self.late: list[float] = []

    def start(self) -> None:
        """Start the warm-up, when everything is connected."""
        self.begin = clock() + WARM_UP_S
        self.end = self.begin + self._seconds

    def sent(self, count: int, started: float) -> None:
        now = clock()
        self.messages += count
        if self.begin <= now <= self.end:
            self.confirmed += count
            self.sends.append((now - started) * 1e3)

    def arrived(self, started: float, message_id: str = "") -> None:
        now = clock()
        if self.begin <= now <= self.end:
            self.ends.append((now - started) * 1e3)
            if message_id:
                self.stamps[message_id] = (started, now)

    def result(self) -> dict[str, float]:
        found = {"per_s": self.confirmed / (self.end - self.begin), "messages": float(self.messages)}
        for name, values in (("send", self.sends), ("end", self.ends), ("late", self.late)):
            found[f"{name}_p50_ms"] = percentile(values, 50) if values else 0.0
            found[f"{name}_p99_ms"] = percentile(values, 99) if values else 0.0
        return found


class Socket:
    """One agent on one WebSocket connection."""

    #: Send times of messages whose arrival is measured, by messageId.
    started: ClassVar[dict[str, float]] = {}

    def __init__(self, number: int, line: ClientConnection, figures: Figures, *, timed: bool) -> None:
        self.number = number
        self._line = line
        self._figures = figures
        self._timed = timed
        #: Numbers of the last operation and of its message.
        self._last = 1
        self._frames: dict[int, asyncio.Future[None]] = {}
        self._reader = asyncio.create_task(self._read())

    @classmethod
    async def open(
        cls, task: dict[str, Any], number: int, figures: Figures, *, window: int, timed: bool = False
    ) -> "Socket":
        line = await connect(
            task["url"].replace("http", "ws") + "/v1/socket",
            subprotocols=["tocsin.v1"],  # type: ignore[list-item]
            additional_headers={"Authorization": f"Bearer {task['tokens'][number]}"},
            compression=None,
            max_size=None,
        )
        hello = {"op": "hello", "id": 1, "window": window, "type": "Manager"}
        await line.send(json.dumps([hello]))
        (answer,) = ITEMS.decode(await line.recv())
        if bytes(answer.problem):
            sys.exit(f"hello was refused: {bytes(answer.problem).decode()}")
        return cls(number, line, figures, timed=timed)

    async def pause(self) -> None:
        """Set the window to 0, so that messages to this agent wait."""
        await self._line.send('[{"op":"credit","window":0}]')

    async def send(self, envelope: str, receiver: int, count: int) -> None:
        """Send a frame and wait until all its operations are confirmed."""
        operations = []
        started = clock()
        for number in range(self._last + 1, self._last + count + 1):
            if self._timed:
                Socket.started[f"msg_{RUN}_{self.number}_{number}"] = started
            body = envelope % (self.number, number, self.number, receiver)
            operations.append(f'{{"op":"send_message","id":{number},"envelope":{body}}}')
        self._last += count
        # Replies come in the order of the operations: the reply to the last one means that all are confirmed.
        done = self._frames[self._last] = asyncio.get_running_loop().create_future()
        await self._line.send("[" + ",".join(operations) + "]")
        await done
        self._figures.sent(count, started)

    async def close(self) -> None:
        self._reader.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._reader
        await self._line.close()

    async def _read(self) -> None:
        async for frame in self._line:
            arrived = []
            for item in ITEMS.decode(frame):
                if item.deliver is not None:
                    arrived.append(item.deliver.signal_id)
                    message_id = item.deliver.envelope.message_id
                    started = Socket.started.pop(message_id, None)
                    if started is not None:
                        self._figures.arrived(started, message_id)
                elif trouble := bytes(item.problem) or bytes(item.bye):
                    sys.exit(f"refused: {trouble.decode()}")
                elif item.re is not None and item.re in self._frames:
                    self._frames.pop(item.re).set_result(None)
            if arrived:
                await self._line.send(json.dumps([{"op": "confirm_messages", "message_ids": arrived}]))


async def over_websocket(task: dict[str, Any]) -> dict[str, float]:
    """Let every connection send to the next; each waits for its confirmation before the next send."""
    connections, batch, deliver = task["connections"], task["batch"], task.get("deliver", False)
    figures = Figures(task["seconds"])
    sockets = [
        await Socket.open(task, number, figures, window=256, timed=deliver)
        for number in range(max(2, connections) if deliver else connections)
    ]
    if not deliver:
        for socket in sockets:
            await socket.pause()
    figures.start()
    envelope = template()

    async def send(socket: Socket) -> None:
        receiver = (socket.number + 1) % len(sockets) if deliver or connections > 1 else connections
        while clock() < figures.end:
            await socket.send(envelope, receiver, batch)

    senders = [send(socket) for socket in sockets[:connections] for _ in range(task.get("window", 1))]
    await asyncio.gather(*senders)
    for socket in sockets:
        await socket.close()
    return figures.result()


async def ring(task: dict[str, Any]) -> dict[str, Any]:
    """Measure the time of a Critical message to its recipient, at intervals; `stamps` has the times of each."""
    figures = Figures(task["seconds"])
    sender = await Socket.open(task, task["connections"], figures, window=256, timed=True)
    receiver = await Socket.open(task, task["connections"] + 1, figures, window=256)
    figures.start()
    critical = template(priority="Critical")
    while clock() < figures.end:
        await sender.send(critical, receiver.number, 1)
        asleep = clock()
        await asyncio.sleep(CRITICAL_EVERY_S)
        figures.late.append((clock() - asleep - CRITICAL_EVERY_S) * 1e3)
    for socket in (sender, receiver):
        await socket.close()
    return figures.result() | {"stamps": figures.stamps}


class Caller:
    """A persistent HTTP connection of one agent on a plain socket, so that no client library is measured."""

    def __init__(self, host: str, token: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._head = f"HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n"
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, task: dict[str, Any], number: int) -> "Caller":
        host, _, port = task["url"].removeprefix("http://").partition(":")
        return cls(host, task["tokens"][number], *await asyncio.open_connection(host, int(port)))

    async def post(self, path: str, content: str) -> bytes:
        """Send a POST request and return the response."""
        body = content.encode()
        self._writer.write(f"POST {path} {self._head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        answer = await self._reader.readuntil(b"\r\n\r\n")
        length = int(answer.lower().partition(b"content-length:")[2].split(b"\r\n", 1)[0])
        result = await self._reader.readexactly(length)
        if not answer.startswith(b"HTTP/1.1 200"):
            sys.exit(f"refused: {result.decode()}")
        return result

    def close(self) -> None:
        self._writer.close()


async def over_http(task: dict[str, Any]) -> dict[str, float]:
    """Send, each connection waiting for its reply; with `deliver`, the recipient then drains the message.

    Each drain confirms the one before. Otherwise the hub would hand out `limits.drain_max` messages and keep the rest
    queued until `delivery.receipt_timeout_s` has passed.
    """
    figures = Figures(task["seconds"])
    envelope, agents = template(), len(task["tokens"])

    async def send(number: int) -> None:
        sender, receiver = await Caller.open(task, number), (number + 1) % agents
        recipient = await Caller.open(task, receiver) if task.get("deliver") else None
        cursor = ""
        for count in itertools.count(1):
            started = clock()
            if started >= figures.end:
                break
            await sender.post("/v1/messages", envelope % (number, count, number, receiver))
            figures.sent(1, started)
            if recipient is not None:
                batch = BATCHES.decode(await recipient.post("/v1/inbox/drain", f'{{"receipt":"{cursor}"}}'))
                if f"msg_{RUN}_{number}_{count}" not in [item.envelope.message_id for item in batch.deliveries]:
                    sys.exit(f"message {count} did not come")
                figures.arrived(started)
                cursor = batch.cursor
        sender.close()
        if recipient is not None:
            recipient.close()

    figures.start()
    await asyncio.gather(*[send(number) for number in range(task["connections"])])
    return figures.result()


async def over_mcp(task: dict[str, Any]) -> dict[str, float]:
    """Send with the official MCP client, one call after another; with `deliver`, the recipient fetches each message."""
    from bench.mcp_load import connect_agent  # A slow import.

    figures = Figures(task["seconds"])
    async with (
        connect_agent(task["url"], task["tokens"][0]) as sender,
        connect_agent(task["url"], task["tokens"][1]) as recipient,
    ):
        figures.start()
        while (started := clock()) < figures.end:
            sent = await sender.send("agent1", {"text": "lorem ipsum " * 30})
            figures.sent(1, started)
            if task.get("deliver"):
                if sent not in await recipient.fetch():
                    sys.exit(f"{sent} did not come")
                figures.arrived(started)
    return figures.result()


async def floor(task: dict[str, Any]) -> dict[str, float]:
    """Send to a bare file with one `fdatasync` per group, with many senders or one; everything is consumed."""
    from bench.peers import work
    from bench.peers.floor_file import File

    file = File()
    with tempfile.TemporaryDirectory(dir=task["folder"]) as folder:
        await file.start(Path(folder), work.MAILBOXES + 1)
        try:
            await work.crowd(file, work.Letters(0), FLOOR_WARM_UP)
            file.commits_ms.clear()
            ends: list[float] = []
            if task["connections"] > 1:
                done = await work.crowd(file, work.Letters(1), task["messages"])
                per_s, sends = done.per_s, done.waits_ms
            else:
                sends, ends = await work.alone(file, work.Letters(1), task["messages"])
                per_s = 1e3 / statistics.fmean(sends)
        finally:
            await file.close()
    found = {"per_s": per_s, "messages": float(len(sends)), "hub_cpu_us": 0.0}
    for name, values in (("send", sends), ("end", ends), ("commit", file.commits_ms)):
        found[f"{name}_p50_ms"] = percentile(values, 50) if values else 0.0
        found[f"{name}_p99_ms"] = percentile(values, 99) if values else 0.0
    return found


KINDS = {"floor": floor, "ws": over_websocket, "ring": ring, "http": over_http, "mcp": over_mcp}


def main() -> None:
    task = json.loads(sys.stdin.read())
    print(json.dumps(uvloop.run(KINDS[task["kind"]](task))))


if __name__ == "__main__":
    main()
