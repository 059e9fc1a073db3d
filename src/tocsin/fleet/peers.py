"""Calls between the workers of a hub: questions to all of them, and requests that reached the wrong one.

Theory of operation. A worker opens a pair of connected sockets and passes one end to another worker, over the same
channel that carries accepted connections. For a request the other end is an ordinary connection, served and
authenticated like any other. For a question it is marked as such, so only a worker can ask one: the asking worker has
checked its caller.
"""

import asyncio
import contextlib
import logging
import socket
from collections.abc import Awaitable, Callable

import h11
from starlette.types import Receive, Scope, Send

from tocsin.gateways.problems import unhandled

__all__ = ["CONNECTION", "QUESTION", "RELAYED", "Answer", "Peers", "answer_question"]

_log = logging.getLogger("tocsin.hub")

#: Mark of a passed socket that is a caller's connection.
CONNECTION = b"c"
#: Mark of a passed socket that brings a question of another worker.
QUESTION = b"q"
#: Header of a request that another worker has passed on; it is not passed on again.
RELAYED = b"tocsin-relayed"

#: Answers a question of another worker.
Answer = Callable[[str], Awaitable[bytes]]
_QUESTION_BYTES_MAX = 256
_CHUNK_BYTES = 65_536
#: Headers of one connection, which are not passed on.
_HOP = frozenset({b"connection", b"keep-alive", b"proxy-connection", b"te", b"trailer", b"upgrade", b"expect"})
#: The server that sends the response decides on its own how to delimit its body.
_NOT_RETURNED = _HOP | {b"transfer-encoding"}


class Peers:
    """The other workers of a hub, as one worker reaches them."""

    def __init__(
        self, others: dict[int, socket.socket], worker_of: Callable[[str | None], int], timeout_s: float
    ) -> None:
        """`others` takes sockets for other workers; `worker_of` finds the worker of a project, null the home project.

        `timeout_s` is the time for a worker to answer a question.
        """
        self._others = others
        self._worker_of = worker_of
        self._timeout_s = timeout_s

    async def ask(self, question: str) -> dict[int, bytes | None]:
        """Ask all other workers; the answer of one that does not answer in time is null."""
        answers = await asyncio.gather(*(self._ask(worker, question) for worker in self._others))
        return dict(zip(self._others, answers, strict=True))

    async def _ask(self, worker: int, question: str) -> bytes | None:
        try:
            async with asyncio.timeout(self._timeout_s):
                reader, writer = await self._connected(worker, QUESTION)
                try:
                    writer.write(question.encode() + b"\n")
                    # An answer ends with its connection, and a connection that was lost has no last byte.
                    answer = await reader.read()
                finally:
                    writer.close()
        except (OSError, TimeoutError) as error:
            _log.warning("worker %d does not answer: %s", worker, str(error) or type(error).__name__)
            return None
        return answer[:-1] if answer.endswith(b"\n") else None

    async def relay(self, project: str | None, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on to the worker of a project, and its response back."""
        begun = False

        async def begin(head: h11.Response) -> None:
            nonlocal begun
            begun = True
            headers = [(name, value) for name, value in head.headers if name not in _NOT_RETURNED]
            await send({"type": "http.response.start", "status": head.status_code, "headers": headers})

        try:
            reader, writer = await self._connected(self._worker_of(project), CONNECTION)
            try:
                exchange = h11.Connection(h11.CLIENT)
                await _send_request(exchange, writer, scope, receive)
                await _return_response(exchange, reader, begin, send)
            finally:
                writer.close()
        except (OSError, h11.ProtocolError) as error:
            _log.warning("a request cannot be passed to another worker: %s", error)
            if begun:
                raise  # The caller sees that the response is incomplete.
            detail = "the process that serves this project does not answer"
            await unhandled(503, detail, 1.0)(scope, receive, send)

    async def _connected(self, worker: int, mark: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        mine, theirs = socket.socketpair()
        with theirs:
            try:
                socket.send_fds(self._others[worker], [mark], [theirs.fileno()])
            except OSError:
                mine.close()
                raise
        return await asyncio.open_unix_connection(sock=mine)


async def _send_request(exchange: h11.Connection, writer: asyncio.StreamWriter, scope: Scope, receive: Receive) -> None:
    """Send a request with its body; a worker that has answered already may not read it to its end."""
    target = scope["raw_path"] + (b"?" + scope["query_string"] if scope["query_string"] else b"")
    headers = [(name, value) for name, value in scope["headers"] if name not in _HOP]
    headers += [(RELAYED, b"1"), (b"connection", b"close")]
    _write(exchange, writer, h11.Request(method=scope["method"], target=target, headers=headers))
    more = True
    with contextlib.suppress(ConnectionError):
        while more:
            event = await receive()
            if event["type"] == "http.disconnect":
                raise ConnectionAbortedError("the caller has gone")
            if event.get("body"):
                _write(exchange, writer, h11.Data(data=event["body"]))
                await writer.drain()
            more = event.get("more_body", False)
        _write(exchange, writer, h11.EndOfMessage())
        await writer.drain()


def _write(exchange: h11.Connection, writer: asyncio.StreamWriter, event: h11.Event) -> None:
    writer.write(exchange.send(event) or b"")


async def _return_response(
    exchange: h11.Connection,
    reader: asyncio.StreamReader,
    begin: Callable[[h11.Response], Awaitable[None]],
    send: Send,
) -> None:
    while True:
        event = exchange.next_event()
        if event is h11.NEED_DATA:
            exchange.receive_data(await reader.read(_CHUNK_BYTES))
        elif isinstance(event, h11.Response):
            await begin(event)
        elif isinstance(event, h11.Data):
            await send({"type": "http.response.body", "body": bytes(event.data), "more_body": True})
        elif isinstance(event, h11.EndOfMessage):
            await send({"type": "http.response.body", "body": b""})
            return
        elif isinstance(event, h11.ConnectionClosed):
            raise ConnectionResetError("the connection to the worker was lost")


async def answer_question(connection: socket.socket, answer: Answer) -> None:
    """Answer the question that a socket of another worker brings."""
    reader, writer = await asyncio.open_unix_connection(sock=connection, limit=_QUESTION_BYTES_MAX)
    try:
        question = await reader.readline()
        writer.write(await answer(question.decode().strip()) + b"\n")
        await writer.drain()
    except (OSError, ValueError) as error:
        _log.warning("a question of another worker was not answered: %s", error)
    finally:
        writer.close()
