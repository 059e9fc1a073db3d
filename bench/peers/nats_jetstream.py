"""NATS JetStream: a file stream, a subject and a push consumer per mailbox and level, explicit acknowledgements.

JetStream has no priorities: a consumer of a mailbox holds some messages of every level, takes the highest, and waits
for a higher one that is being delivered before it takes a lower one. By default it calls fsync every two minutes;
servers since 2.10 can be configured to do so before every confirmation.
"""

import asyncio
import heapq
import subprocess
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import nats
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy, StorageType

from bench.peers.peer import LEVELS, Letter
from bench.peers.servers import Missing, Server, free_port, locate

__all__ = ["Nats", "NatsAlways"]

CONNECTIONS = 2
FILL = 1000
CONFIG = """
listen: "127.0.0.1:{port}"
jetstream {{ store_dir: "{folder}/store"{sync} }}
"""


class Nats:
    """A NATS server with JetStream, with its default configuration."""

    title: ClassVar[str] = "NATS JetStream, as it comes"
    promise: ClassVar[str] = "with the operating system; fsynced every two minutes"
    fsynced: ClassVar[bool] = False
    priorities: ClassVar[str] = "a subject per level"
    sync: ClassVar[str] = ""

    def __init__(self) -> None:
        self._server: Server | None = None
        self._url = ""
        self._lines: list[Any] = []
        self._turn = 0

    async def start(self, folder: Path, mailboxes: int) -> None:
        port = free_port()
        config = folder / "nats.conf"
        config.write_text(CONFIG.format(port=port, folder=folder, sync=self.sync), encoding="utf-8")
        program = locate("nats-server", "nats-server")
        if (await _asked(program, "-t", "-c", str(config))).returncode:
            version = (await _asked(program, "--version")).stdout.strip()
            raise Missing(f"{version} cannot fsync before it confirms; 2.10 and newer can")
        self._server = Server([program, "-c", config], folder)
        await self._server.listening(port)
        self._url = f"nats://127.0.0.1:{port}"
        for _ in range(CONNECTIONS):
            connection = await nats.connect(self._url)
            self._lines.append((connection, connection.jetstream()))
        stream = self._lines[0][1]
        await stream.add_stream(name="work", subjects=["q.*.*"], storage=StorageType.FILE, retention="workqueue")

    async def send(self, letter: Letter) -> None:
        self._turn = (self._turn + 1) % CONNECTIONS
        await self._lines[self._turn][1].publish(f"q.{letter.mailbox}.{letter.priority}", letter.body.encode())

    async def fill(self, letters: Sequence[Letter]) -> None:
        for begin in range(0, len(letters), FILL):
            await asyncio.gather(*(self.send(letter) for letter in letters[begin : begin + FILL]))

    async def consume(self, mailbox: int, ahead: int) -> AsyncGenerator[str, None]:
        connection = await nats.connect(self._url)
        held: list[tuple[int, int, Any]] = []
        more = [0] * LEVELS  # Messages that the server has not delivered yet, by level.
        arrived = asyncio.Event()

        async def take(message: Any) -> None:
            level = int(message.subject.rpartition(".")[2])
            more[level] = message.metadata.num_pending
            heapq.heappush(held, (-level, message.metadata.sequence.stream, message))
            arrived.set()

        try:
            for level in reversed(range(LEVELS)):
                line = await connection.jetstream().subscribe(
                    f"q.{mailbox}.{level}",
                    stream="work",
                    cb=take,
                    manual_ack=True,
                    config=ConsumerConfig(
                        durable_name=f"c{mailbox}-{level}",
                        deliver_policy=DeliverPolicy.ALL,
                        ack_policy=AckPolicy.EXPLICIT,
                        max_ack_pending=ahead,
                    ),
                )
                told = await line.consumer_info()
                if not any(held_level == -level for held_level, _, _ in held):
                    more[level] = told.num_pending + told.num_ack_pending
            while True:
                while not held or any(more[1 - held[0][0] :]):  # A message of a higher level is being delivered.
                    arrived.clear()
                    await arrived.wait()
                message = heapq.heappop(held)[2]
                yield message.data.decode()
                await message.ack()
        finally:
            await connection.close()

    async def close(self) -> None:
        for connection, _ in self._lines:
            await connection.close()
        if self._server is not None:
            await self._server.close()


class NatsAlways(Nats):
    """The same with an fsync before every confirmation."""

    title: ClassVar[str] = "NATS JetStream, sync always"
    promise: ClassVar[str] = "on disk (fsync before the reply)"
    fsynced: ClassVar[bool] = True
    sync: ClassVar[str] = ", sync_interval: always"


async def _asked(program: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [str(program), *arguments]
    return await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=False)
