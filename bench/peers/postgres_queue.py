"""PostgreSQL as a queue: SKIP LOCKED, an index in delivery order, and grouped inserts.

Sends that wait together are one INSERT and one commit. A consumer deletes a message in its own transaction and commits
when it has handled it: that is the acknowledgement, and messages of a failed consumer are available again. These
commits need not wait for the disk (`synchronous_commit = off`): if one is lost, a message is delivered twice, not lost.
NOTIFY wakes consumers.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import asyncpg
from tests.postgres import Server

from bench.peers.peer import Grouped, Letter

__all__ = ["PostgresQueue"]

FILL = 1000
TABLE = """
CREATE TABLE queue (
    id bigint GENERATED ALWAYS AS IDENTITY,
    mailbox integer NOT NULL,
    priority integer NOT NULL,
    body text NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000);
CREATE INDEX queue_order ON queue (mailbox, priority DESC, id);
"""
PUT = "INSERT INTO queue (mailbox, priority, body) SELECT * FROM unnest($1::int[], $2::int[], $3::text[])"
TAKE = """
WITH next AS (
    SELECT ctid FROM queue WHERE mailbox = $1 ORDER BY priority DESC, id LIMIT $2 FOR UPDATE SKIP LOCKED
), taken AS (
    DELETE FROM queue USING next WHERE queue.ctid = next.ctid RETURNING queue.id, queue.priority, queue.body
)
SELECT body FROM taken ORDER BY priority DESC, id
"""


class PostgresQueue:
    """A PostgreSQL server with one table."""

    title: ClassVar[str] = "PostgreSQL, SKIP LOCKED, grouped inserts"
    promise: ClassVar[str] = "on disk (commit with fsync)"
    fsynced: ClassVar[bool] = True
    priorities: ClassVar[str] = "ORDER BY"

    def __init__(self) -> None:
        self._server: Server | None = None
        self._lines: list[Any] = []
        self._free: asyncio.Queue[Any] = asyncio.Queue()
        self._grouped: Grouped | None = None
        self._wake: dict[int, asyncio.Event] = {}

    async def start(self, folder: Path, mailboxes: int) -> None:
        self._server = await asyncio.to_thread(lambda: Server(fsync=True, name="queue").create())
        for _ in range(3):
            self._lines.append(await self._connect())
        await self._lines[0].execute(TABLE)
        for line in self._lines[:2]:
            self._free.put_nowait(line)
        self._wake = {mailbox: asyncio.Event() for mailbox in range(mailboxes)}
        await self._lines[2].add_listener("queue", self._told)
        self._grouped = Grouped(self._write, lines=2, most=256)

    async def send(self, letter: Letter) -> None:
        if self._grouped is None:
            raise RuntimeError("not started")
        await self._grouped.send(letter)

    async def fill(self, letters: Sequence[Letter]) -> None:
        for begin in range(0, len(letters), FILL):
            await self._write(list(letters[begin : begin + FILL]))

    async def consume(self, mailbox: int, ahead: int) -> AsyncGenerator[str, None]:
        line = await self._connect()
        wake = self._wake[mailbox]
        try:
            await line.execute("SET synchronous_commit = off")
            take = await line.prepare(TAKE)
            while True:
                wake.clear()
                work = line.transaction()
                await work.start()
                rows = await take.fetch(mailbox, ahead)
                for row in rows:
                    yield row["body"]
                await work.commit()
                if not rows:
                    await wake.wait()
        finally:
            await line.close()

    async def close(self) -> None:
        if self._grouped is not None:
            await self._grouped.close()
        for line in self._lines:
            await line.close()
        if self._server is not None:
            await asyncio.to_thread(self._server.remove)

    async def _connect(self) -> Any:
        if self._server is None:
            raise RuntimeError("not started")
        return await asyncpg.connect(host=str(self._server.folder), user="tocsin", database="postgres")

    async def _write(self, letters: list[Letter]) -> None:
        line = await self._free.get()
        try:
            mailboxes, priorities, texts = zip(*letters, strict=True)
            async with line.transaction():
                await line.execute(PUT, mailboxes, priorities, texts)
                await line.execute("SELECT pg_notify('queue', $1)", " ".join(map(str, set(mailboxes))))
        finally:
            self._free.put_nowait(line)

    def _told(self, connection: Any, process: int, channel: str, mailboxes: str) -> None:
        for mailbox in mailboxes.split():
            self._wake[int(mailbox)].set()
