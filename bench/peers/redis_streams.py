"""Redis streams: one per mailbox and level, with a consumer group; sends that wait together share a pipeline.

Redis has no priorities. A script checks the streams of a mailbox in order, highest first, and takes from the first that
is not empty; if all are empty, the consumer blocks on all. Handled messages are acknowledged and deleted.
"""

from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import redis.asyncio as redis

from bench.peers.peer import LEVELS, Grouped, Letter
from bench.peers.servers import Server, free_port, locate

__all__ = ["RedisAlways", "RedisEverySecond"]

BLOCK_MS = 1000
FILL = 1000
TAKE = """
for _, key in ipairs(KEYS) do
  local found = redis.call('XREADGROUP', 'GROUP', 'g', 'c', 'COUNT', ARGV[1], 'STREAMS', key, '>')
  if found then return found end
end
return {}
"""


class RedisStreams:
    """A Redis server with an append-only file."""

    appendfsync: ClassVar[str]

    def __init__(self) -> None:
        self._server: Server | None = None
        self._port = 0
        self._lines: list[redis.Redis] = []
        self._grouped: Grouped | None = None
        self._turn = 0

    async def start(self, folder: Path, mailboxes: int) -> None:
        self._port = free_port()
        options = {
            "port": str(self._port),
            "bind": "127.0.0.1",
            "dir": str(folder),
            "save": "",
            "appendonly": "yes",
            "appendfsync": self.appendfsync,
        }
        command = [argument for name, value in options.items() for argument in (f"--{name}", value)]
        self._server = Server([locate("redis-server", "redis-server"), *command], folder)
        await self._server.listening(self._port)
        self._lines = [self._connect() for _ in range(2)]
        for mailbox in range(mailboxes):
            for level in range(LEVELS):
                await self._lines[0].xgroup_create(f"q{mailbox}.{level}", "g", "0", mkstream=True)
        self._grouped = Grouped(self._write, lines=len(self._lines), most=64)

    async def send(self, letter: Letter) -> None:
        if self._grouped is None:
            raise RuntimeError("not started")
        await self._grouped.send(letter)

    async def fill(self, letters: Sequence[Letter]) -> None:
        for begin in range(0, len(letters), FILL):
            await self._write(list(letters[begin : begin + FILL]))

    async def consume(self, mailbox: int, ahead: int) -> AsyncGenerator[str, None]:
        line = self._connect()
        keys = [f"q{mailbox}.{level}" for level in reversed(range(LEVELS))]
        take = line.register_script(TAKE)
        try:
            while True:
                found: Any = await take(keys=keys, args=[ahead])
                if not found:
                    found = await line.xreadgroup("g", "c", dict.fromkeys(keys, ">"), count=ahead, block=BLOCK_MS)
                for key, entries in _pairs(found):
                    for _, fields in entries:
                        yield _body(fields)
                    done = [identity for identity, _ in entries]
                    async with line.pipeline(transaction=False) as pipe:
                        pipe.xack(key, "g", *done)
                        pipe.xdel(key, *done)
                        await pipe.execute()
        finally:
            await line.aclose()

    async def close(self) -> None:
        if self._grouped is not None:
            await self._grouped.close()
        for line in self._lines:
            await line.aclose()
        if self._server is not None:
            await self._server.close()

    def _connect(self) -> redis.Redis:
        return redis.Redis(port=self._port, decode_responses=True, protocol=2)

    async def _write(self, letters: list[Letter]) -> None:
        self._turn += 1
        async with self._lines[self._turn % len(self._lines)].pipeline(transaction=False) as pipe:
            for letter in letters:
                pipe.xadd(f"q{letter.mailbox}.{letter.priority}", {"b": letter.body})
            await pipe.execute()


class RedisAlways(RedisStreams):
    """Every confirmation is on disk."""

    title: ClassVar[str] = "Redis streams, appendfsync always"
    promise: ClassVar[str] = "on disk (fsync before the reply)"
    fsynced: ClassVar[bool] = True
    priorities: ClassVar[str] = "a stream per level"
    appendfsync = "always"


class RedisEverySecond(RedisStreams):
    """A confirmation is on disk within about a second."""

    title: ClassVar[str] = "Redis streams, appendfsync everysec"
    promise: ClassVar[str] = "with the operating system; a power cut takes back up to about a second"
    fsynced: ClassVar[bool] = False
    priorities: ClassVar[str] = "a stream per level"
    appendfsync = "everysec"


def _pairs(found: Any) -> list[tuple[str, list[Any]]]:
    """Return streams with their entries as a list of pairs, for both reply formats."""
    return list(found.items()) if isinstance(found, dict) else [(key, entries) for key, entries in found or []]


def _body(fields: Any) -> str:
    """Return the body field of an entry, for both reply formats."""
    body: str = fields["b"] if isinstance(fields, dict) else fields[1]
    return body
