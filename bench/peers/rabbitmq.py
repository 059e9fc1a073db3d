"""RabbitMQ: a durable priority queue per mailbox, persistent messages, publisher confirms, several channels."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import aiormq

from bench.peers.peer import LEVELS, Letter
from bench.peers.servers import STORE, Server, free_port, locate, unpacked

__all__ = ["RabbitMq"]

CHANNELS = 8
FILL = 2000
_ERLANG = "/usr/lib/erlang"


class RabbitMq:
    """A RabbitMQ node with its own Erlang port mapper."""

    title: ClassVar[str] = "RabbitMQ, durable priority queue, confirms"
    promise: ClassVar[str] = "on disk (persistent, confirmed after the message store's fsync)"
    fsynced: ClassVar[bool] = True
    priorities: ClassVar[str] = "its own (x-max-priority)"

    def __init__(self) -> None:
        self._servers: list[Server] = []
        self._url = ""
        self._connections: list[Any] = []
        self._channels: list[Any] = []
        self._turn = 0

    async def start(self, folder: Path, mailboxes: int) -> None:
        port, mapper_port = free_port(), free_port()
        program, paths = _programs()
        environment = {
            **paths,
            "HOME": str(folder),
            "ERL_EPMD_PORT": str(mapper_port),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": "peer@localhost",
            "RABBITMQ_NODE_PORT": str(port),
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_DIST_PORT": str(free_port()),
            "RABBITMQ_MNESIA_BASE": str(folder / "mnesia"),
            "RABBITMQ_LOG_BASE": str(folder / "log"),
            "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq"),
            "RABBITMQ_CONF_ENV_FILE": str(folder / "none"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
        }
        (folder / "plugins").write_text("[].\n", encoding="utf-8")
        (folder / "rabbitmq.conf").write_text("log.console = true\n", encoding="utf-8")
        mapper = Server([locate("epmd", "rabbitmq-server"), "-port", str(mapper_port)], folder, environment)
        self._servers.append(mapper)
        await mapper.listening(mapper_port)
        broker = Server([program], folder, environment)
        self._servers.insert(0, broker)
        await broker.listening(port)
        self._url = f"amqp://guest:guest@127.0.0.1:{port}/"
        for number in range(CHANNELS):
            if number % 4 == 0:
                self._connections.append(await aiormq.connect(self._url))
            self._channels.append(await self._connections[-1].channel(publisher_confirms=True))
        for mailbox in range(mailboxes):
            await self._channels[0].queue_declare(f"q{mailbox}", durable=True, arguments={"x-max-priority": LEVELS - 1})

    async def send(self, letter: Letter) -> None:
        self._turn = (self._turn + 1) % CHANNELS
        properties = aiormq.spec.Basic.Properties(delivery_mode=2, priority=letter.priority)
        confirmed = await self._channels[self._turn].basic_publish(
            letter.body.encode(), routing_key=f"q{letter.mailbox}", properties=properties
        )
        if not isinstance(confirmed, aiormq.spec.Basic.Ack):
            raise RuntimeError(f"not confirmed: {confirmed}")

    async def fill(self, letters: Sequence[Letter]) -> None:
        for begin in range(0, len(letters), FILL):
            await asyncio.gather(*(self.send(letter) for letter in letters[begin : begin + FILL]))

    async def consume(self, mailbox: int, ahead: int) -> AsyncGenerator[str, None]:
        connection = await aiormq.connect(self._url)
        try:
            channel = await connection.channel(publisher_confirms=False)
            await channel.basic_qos(prefetch_count=ahead)
            arrived: asyncio.Queue[Any] = asyncio.Queue()
            await channel.basic_consume(f"q{mailbox}", arrived.put)
            while True:
                message = await arrived.get()
                yield message.body.decode()
                await channel.basic_ack(message.delivery.delivery_tag, wait=False)
        finally:
            await connection.close()

    async def close(self) -> None:
        for connection in self._connections:
            await connection.close()
        for server in self._servers:
            await server.close()


def _programs() -> tuple[Path, dict[str, str]]:
    """Return the broker's path, and the environment in which its scripts find an unpacked Erlang."""
    program = locate("rabbitmq-server", "rabbitmq-server")
    if STORE not in program.parents:
        return program, {}
    root = unpacked("rabbitmq-server")
    erl = root / "usr/lib/erlang/bin/erl"
    text = erl.read_text(encoding="utf-8")
    if f"ROOTDIR={_ERLANG}\n" in text:  # The script expects its installed location.
        erl.write_text(text.replace(f"ROOTDIR={_ERLANG}\n", f"ROOTDIR={root}{_ERLANG}\n"), encoding="utf-8")
    return root / "usr/lib/rabbitmq/bin/rabbitmq-server", {"PATH": f"{root}/usr/bin:/usr/bin:/bin"}
