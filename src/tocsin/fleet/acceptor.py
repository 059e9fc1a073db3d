"""Connections of a port that several workers share: each is passed to the worker that serves its project.

Theory of operation. All workers accept from the same listening socket. The one that accepts a connection looks at the
head of its first request without taking it from the socket, finds the token, and by it the project and its worker. If
that is another worker, the open socket is passed to it (`SCM_RIGHTS`), and the other worker reads the request as if it
had accepted the connection itself. `docs/decisions/fleet-handover.md` compares this with a proxy.
"""

import asyncio
import errno
import logging
import os
import socket
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import msgspec

from tocsin.fleet.peers import CONNECTION, QUESTION, Answer, answer_question
from tocsin.fleet.router import FORWARDED_HEADER, PROJECT_HEADER, named_in_query, token_id_of
from tocsin.gateways.http.listening import Listening, begin
from tocsin.gateways.problems import unhandled
from tocsin.journal.errors import JournalError
from tocsin.journal.open_files import OPEN_FILES

__all__ = ["FORWARDED_HEADER", "Acceptor", "Head", "read_head", "refuse"]

_log = logging.getLogger("tocsin.hub")
_PEEK_BYTES = 65_536
#: Interval at which an incomplete head is looked at again, seconds.
_AGAIN_S = 0.005
#: Connections taken from another worker in one turn of the event loop.
_RECEIVE_MAX = 64


class Head(msgspec.Struct, frozen=True):
    """What the head of a request says about its project."""

    token_id: str | None
    #: Project that the request names.
    named: str | None
    #: Whether another hub has passed the connection on.
    forwarded: bool = False


def read_head(data: bytes) -> Head | None:
    """Return what a head says; null if it is incomplete."""
    end = data.find(b"\r\n\r\n")
    if end < 0:
        return None
    headers: list[tuple[bytes, bytes]] = []
    first, *lines = data[:end].split(b"\r\n")
    # Only sockets name a project in their query; another request with this parameter is passed on once more.
    named, forwarded = named_in_query(first.partition(b"?")[2].partition(b" ")[0]), False
    for line in lines:
        name, _, value = line.partition(b":")
        name = name.strip().lower()
        headers.append((name, value.strip()))
        if name == PROJECT_HEADER:
            named = value.strip()[:64].decode("latin-1")
        forwarded = forwarded or name == FORWARDED_HEADER
    return Head(token_id_of(headers), named, forwarded)


def refuse(connection: socket.socket, detail: str) -> None:
    """Answer a connection that cannot be served, and close it."""
    response = unhandled(503, detail, 1.0)
    lines = [b"HTTP/1.1 503 Service Unavailable", b"connection: close"]
    lines += [name + b": " + value for name, value in response.raw_headers]
    try:
        connection.send(b"\r\n".join([*lines, b"", bytes(response.body)]))
    except OSError as unsent:
        _log.debug("the refusal was not sent: %s", unsent)
    connection.close()


class Acceptor:
    """Accepts the connections of a shared port, and takes those that other workers pass on."""

    def __init__(
        self,
        listener: socket.socket,
        received: socket.socket | None,
        others: dict[int, socket.socket],
        worker: int,
        worker_of: Callable[[Head], int],
        *,
        head_timeout_s: float,
        waiting_max: int,
        answer: Answer,
        forward: Callable[[socket.socket, Head], Awaitable[bool]] | None = None,
    ) -> None:
        """`received` brings sockets from other workers, `others` takes sockets for them, by worker.

        `answer` answers the questions of other workers. `forward` takes connections for other hubs, and tells whether
        it did.
        """
        self._listener = listener
        self._received = received
        self._others = others
        self._worker = worker
        self._worker_of = worker_of
        self._head_timeout_s = head_timeout_s
        self._waiting_max = waiting_max
        self._forward = forward
        self._answer = answer
        self._loop = asyncio.get_running_loop()
        self._make: Callable[[], asyncio.Protocol]
        self._listening: Listening
        #: Connections whose head has not arrived, with the time at which they are given up.
        self._waiting: dict[socket.socket, float] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        #: Connections passed to other workers.
        self.passed_on = 0

    async def start(self, make_protocol: Callable[[], asyncio.Protocol]) -> Callable[[], None]:
        """Begin to accept; return how to stop."""
        self._make = make_protocol
        for one in self._others.values():
            one.setblocking(False)
        self._listening = Listening(self._listener, self._accepted)
        if self._received is not None:
            self._received.setblocking(False)
            self._loop.add_reader(self._received.fileno(), self._receive, self._received)
        return self._stop

    def _stop(self) -> None:
        self._listening.close()
        if self._received is not None:
            self._loop.remove_reader(self._received.fileno())
        for connection in list(self._waiting):
            self._forget(connection)
            connection.close()

    def _accepted(self, connection: socket.socket) -> None:
        if len(self._waiting) >= self._waiting_max:
            connection.close()
            return
        self._waiting[connection] = self._loop.time() + self._head_timeout_s
        self._loop.add_reader(connection.fileno(), self._look, connection)

    def _look(self, connection: socket.socket) -> None:
        """Look at what has arrived of a head, and leave it in the socket."""
        self._loop.remove_reader(connection.fileno())
        try:
            data = connection.recv(_PEEK_BYTES, socket.MSG_PEEK)
        except (BlockingIOError, InterruptedError):
            self._loop.add_reader(connection.fileno(), self._look, connection)
            return
        except OSError:
            data = b""
        head = read_head(data)
        if not data or (head is None and self._loop.time() > self._waiting[connection]):
            self._forget(connection)
            connection.close()
        elif head is None and len(data) < _PEEK_BYTES:
            self._loop.call_later(_AGAIN_S, self._look_again, connection)
        else:
            # A head that is too long is refused by whoever serves it.
            self._forget(connection)
            self._give(connection, head or Head(None, None, True))

    def _look_again(self, connection: socket.socket) -> None:
        if connection in self._waiting:
            self._look(connection)

    def _forget(self, connection: socket.socket) -> None:
        if self._waiting.pop(connection, None) is not None:
            self._loop.remove_reader(connection.fileno())

    def _give(self, connection: socket.socket, head: Head) -> None:
        """Pass a connection to another hub, to another worker, or serve it."""
        if self._forward is None or head.forwarded:
            self._give_here(connection, head)
        else:
            self._run(self._forward_or_give(self._forward, connection, head))

    async def _forward_or_give(
        self, forward: Callable[[socket.socket, Head], Awaitable[bool]], connection: socket.socket, head: Head
    ) -> None:
        try:
            taken = await forward(connection, head)
        except JournalError as error:
            refuse(connection, f"the project of this connection cannot be found: {error}")
            return
        if not taken:
            self._give_here(connection, head)

    def _give_here(self, connection: socket.socket, head: Head) -> None:
        worker = self._worker_of(head)
        if worker == self._worker:
            self._serve(connection)
            return
        try:
            socket.send_fds(self._others[worker], [CONNECTION], [connection.fileno()])
            self.passed_on += 1
            connection.close()
        except OSError as error:
            _log.warning("a connection cannot be passed to worker %d: %s", worker, error)
            refuse(connection, "the process that serves this project does not take connections")

    def _receive(self, received: socket.socket) -> None:
        for _ in range(_RECEIVE_MAX):
            try:
                data, fds, flags, _address = socket.recv_fds(received, 1, 1)
            except (BlockingIOError, InterruptedError):
                return
            if not data:
                self._loop.remove_reader(received.fileno())
                return
            if flags & socket.MSG_CTRUNC:
                lost = OSError(errno.EMFILE, os.strerror(errno.EMFILE))
                OPEN_FILES.report("a connection that another worker has passed on is lost", lost)
            for fd in fds:
                connection = socket.socket(fileno=fd)
                connection.setblocking(False)
                if data == QUESTION:
                    self._run(answer_question(connection, self._answer))
                else:
                    self._serve(connection)

    def _serve(self, connection: socket.socket) -> None:
        self._run(begin(connection, self._make))

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
