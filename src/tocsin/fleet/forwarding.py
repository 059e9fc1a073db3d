"""Connections that a hub passes on to the hub of their project (`--proxy`): HTTP and WebSockets alike, byte for byte.

Theory of operation. A hub that proxies looks at the head of a connection's first request, as workers do (`acceptor`).
If the project is another hub's, it connects to that hub and copies bytes in both directions until one side ends. It
adds the header `Tocsin-Forwarded` to the first request; a hub passes nothing on that has this header, so that two hubs
that disagree for a moment do not send a connection in circles. When the shares change, connections of projects that
have moved are closed, and their callers connect anew.
"""

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from urllib.parse import urlsplit

from tocsin.fleet.acceptor import FORWARDED_HEADER, Head, refuse

__all__ = ["Forwarder"]

_log = logging.getLogger("tocsin.fleet")
_CHUNK_BYTES = 65_536


class Forwarder:
    """Passes connections on to other hubs."""

    def __init__(
        self,
        project_of: Callable[[Head], Awaitable[str]],
        elsewhere: Callable[[str], str | None],
        *,
        connect_timeout_s: float,
        connections_max: int,
    ) -> None:
        """`elsewhere` returns the address of another hub that serves a project; null if it is this one."""
        self._project_of = project_of
        self._elsewhere = elsewhere
        self._connect_timeout_s = connect_timeout_s
        self._connections_max = connections_max
        #: Connections that are passed on, with their project and the hub that they go to.
        self._running: dict[asyncio.Task[None], tuple[str, str]] = {}

    async def take(self, connection: socket.socket, head: Head) -> bool:
        """Pass a connection on if its project is another hub's; tell whether it was taken."""
        if head.forwarded:
            return False
        project = await self._project_of(head)
        address = self._elsewhere(project)
        if address is None:
            return False
        if len(self._running) >= self._connections_max:
            refuse(connection, "the hub passes on as many connections as it may")
            return True
        task = asyncio.get_running_loop().create_task(self._run(connection, address), name=f"to {address}")
        self._running[task] = (project, address)
        task.add_done_callback(lambda ended: self._running.pop(ended, None))
        return True

    def reshare(self) -> None:
        """Close the connections of projects that have moved."""
        for task, (project, address) in list(self._running.items()):
            if self._elsewhere(project) != address:
                task.cancel()

    async def close(self) -> None:
        """Close all connections."""
        running = list(self._running)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    async def _run(self, connection: socket.socket, address: str) -> None:
        parts = urlsplit(address)
        secure = parts.scheme == "https"
        try:
            async with asyncio.timeout(self._connect_timeout_s):
                answers, requests = await asyncio.open_connection(
                    parts.hostname, parts.port or (443 if secure else 80), ssl=secure or None
                )
        except (OSError, TimeoutError) as error:
            _log.warning("the hub at %s cannot be reached: %s", address, error)
            refuse(connection, "the hub that serves this project cannot be reached")
            return
        try:
            asked, answered = await asyncio.open_connection(sock=connection)
        except OSError:
            connection.close()
            requests.close()
            return
        try:
            await self._copy_both(asked, answered, answers, requests)
        finally:
            answered.close()
            requests.close()

    async def _copy_both(
        self,
        asked: asyncio.StreamReader,
        answered: asyncio.StreamWriter,
        answers: asyncio.StreamReader,
        requests: asyncio.StreamWriter,
    ) -> None:
        async def there() -> None:
            with suppress(OSError, EOFError, asyncio.LimitOverrunError):
                first = await asked.readuntil(b"\r\n")
                requests.write(first + FORWARDED_HEADER + b": 1\r\n")
                await _copied(asked, requests)
            _end(requests)

        async def back() -> None:
            with suppress(OSError):
                await _copied(answers, answered)
            _end(answered)

        asking = asyncio.ensure_future(there())
        try:
            await back()  # The other hub ends the connection, also one that its caller has left.
        finally:
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)


async def _copied(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    """Copy until the source ends."""
    while data := await source.read(_CHUNK_BYTES):
        sink.write(data)
        await sink.drain()


def _end(sink: asyncio.StreamWriter) -> None:
    """Tell a reader that nothing follows."""
    with suppress(OSError, RuntimeError):
        if sink.can_write_eof():
            sink.write_eof()
