"""MCP over standard input and output: messages of JSON-RPC, one per line.

Theory of operation. Coding agents start a turn without the servers that have not answered the handshake, so the answer
must not wait for imports. The MCP library alone needs four times the time that there is; therefore the handshake is
answered here, from `gateways.mcp.protocol`, and everything else by `serve`, which may import what it needs.

The first request decides the version for the connection: one whose `_meta` names a version is of a modern one, without
a handshake, anything else of one with. Only with a handshake may a server send notifications that nobody asked for, so
a server with a channel refuses `server/discover` like a server that does not know it, and the client falls back.

Messages are read in their order, and each is passed on before the next is read: a cancellation never overtakes its
call, nor a call the cancellation before it.
"""

import asyncio
import json
import logging
import os
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from threading import Thread
from typing import Any, BinaryIO, NamedTuple, Protocol

from tocsin.gateways.mcp.protocol import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    MethodError,
    discovered,
    initialized,
    names_version,
    stamped,
    supported_version,
)

__all__ = ["Request", "Service", "StdioServer"]

#: Longest message, bytes: the hub takes no payload that is nearly as large.
_MESSAGE_BYTES_MAX = 32 << 20
#: Requests that are answered at the same time.
_RUNNING_MAX = 100
_log = logging.getLogger("tocsin.mcp")


class Request(NamedTuple):
    """A request of the client, which is to be answered."""

    #: As the client wrote it: a number, or a text.
    id: int | str
    method: str
    params: Mapping[str, Any]

    @property
    def key(self) -> str:
        """Return the id as text: clients cancel by either form."""
        return str(self.id)


class Service(Protocol):
    """What serves the requests of a connection."""

    #: Whether modern versions of the protocol may be negotiated.
    modern: bool
    #: Experimental capabilities of the handshake.
    experimental: dict[str, Any]

    async def serve(self, request: Request) -> Coroutine[Any, Any, dict[str, Any]]:
        """Begin a request, and return what answers it; the next message is read when it has begun."""

    def cancelled(self, request: str) -> None:
        """Note that the client has cancelled a request."""

    def answered(self, request: str, *, received: bool) -> None:
        """Note that an answer has left: a result, or an error."""

    def notified(self, method: str, params: Mapping[str, Any]) -> None:
        """Take a notification of the client."""


class StdioServer:
    """One connection, until standard input ends."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._incoming, self._outgoing = _streams()
        self._queue: asyncio.Queue[tuple[dict[str, Any], str]] = asyncio.Queue()
        self._running: dict[str, asyncio.Task[None]] = {}
        #: Whether the version is a modern one; null before the first request.
        self._modern: bool | None = None
        self._initialized = False

    async def run(self) -> None:
        """Answer requests until standard input ends; those that are under way then are given up."""
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[None] = loop.create_future()
        Thread(target=self._read, args=(loop, ended), daemon=True).start()
        writing = asyncio.create_task(self._write())
        try:
            await asyncio.wait({writing, ended}, return_when=asyncio.FIRST_COMPLETED)
            if ended.done():
                ended.result()
                answered = asyncio.create_task(self._queue.join())
                await asyncio.wait({writing, answered}, return_when=asyncio.FIRST_COMPLETED)
                answered.cancel()
        finally:
            given_up = [writing, *self._running.values()]
            for task in given_up:
                task.cancel()
            await asyncio.gather(*given_up, return_exceptions=True)

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Send a notification to the client."""
        self._queue.put_nowait(({"jsonrpc": "2.0", "method": method, "params": params}, ""))

    def _read(self, loop: asyncio.AbstractEventLoop, ended: "asyncio.Future[None]") -> None:
        """Read lines in a thread of its own: standard input may be a file, a pipe or a terminal."""
        failure: BaseException | None = None
        try:
            while line := self._incoming.readline(_MESSAGE_BYTES_MAX + 1):
                if len(line) > _MESSAGE_BYTES_MAX:
                    _log.error("a message is longer than %d bytes", _MESSAGE_BYTES_MAX)
                    break
                asyncio.run_coroutine_threadsafe(self._take(line), loop).result()
        except Exception as error:
            failure = error
        with suppress(RuntimeError):  # The loop has ended before its input.
            loop.call_soon_threadsafe(_end, ended, failure)

    async def _take(self, line: bytes) -> None:
        """Take a message: begin a request, or pass on a notification."""
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            _log.warning("a line is not JSON")
            return
        method = message.get("method") if isinstance(message, dict) else None
        if not isinstance(method, str):
            _log.debug("neither a request nor a notification")
            return
        params = message.get("params")
        params = params if isinstance(params, dict) else {}
        asked = message.get("id")
        if asked is None:
            self._notified(method, params)
        elif isinstance(asked, int | str) and not isinstance(asked, bool):
            await self._begin(Request(asked, method, params))

    def _notified(self, method: str, params: Mapping[str, Any]) -> None:
        if method != "notifications/cancelled":
            self._service.notified(method, params)
            return
        request = str(params.get("requestId"))
        self._service.cancelled(request)
        task = self._running.get(request)
        if task is not None:
            task.cancel()

    async def _begin(self, request: Request) -> None:
        """Answer a request in a task of its own; the handshake at once."""
        try:
            result = self._handshake(request)
            if result is not None:
                self._answer(request, result)
                return
            if len(self._running) >= _RUNNING_MAX:
                raise MethodError(INTERNAL_ERROR, f"{_RUNNING_MAX} requests are being answered; wait for one")
            answer = await self._service.serve(request)
        except MethodError as error:
            self._refuse(request, error)
            return
        task = asyncio.create_task(self._perform(request, answer))
        self._running[request.key] = task
        task.add_done_callback(lambda _: self._running.pop(request.key, None))

    def _handshake(self, request: Request) -> dict[str, Any] | None:
        """Check the version of a request, and answer those that are about it; null if it is not."""
        method, meta = request.method, request.params.get("_meta")
        if self._modern is None:
            self._modern = self._service.modern and method != "initialize" and names_version(meta)
        if self._modern:
            supported_version(meta)
            return discovered() if method == "server/discover" else None
        if method == "initialize":
            result = initialized(request.params, self._service.experimental)
            self._initialized = True
            return result
        if method == "ping":
            return {}
        if method == "server/discover":
            raise MethodError(METHOD_NOT_FOUND, "Method not found", method)
        if names_version(meta):
            raise MethodError(INVALID_REQUEST, "this connection is of a version with a handshake: send initialize")
        if not self._initialized:
            raise MethodError(INVALID_PARAMS, "send initialize first")
        return None

    async def _perform(self, request: Request, answer: Coroutine[Any, Any, dict[str, Any]]) -> None:
        try:
            self._answer(request, await answer)
        except MethodError as error:
            self._refuse(request, error)
        except Exception:
            _log.exception("%s failed", request.method)
            self._refuse(request, MethodError(INTERNAL_ERROR, "the server failed to answer; its log has the reason"))

    def _answer(self, request: Request, result: dict[str, Any]) -> None:
        if self._modern:
            result = stamped(request.method, result)
        self._queue.put_nowait(({"jsonrpc": "2.0", "id": request.id, "result": result}, request.key))

    def _refuse(self, request: Request, error: MethodError) -> None:
        answer = {"code": error.code, "message": error.message}
        answer |= {"data": error.data} if error.data is not None else {}
        self._queue.put_nowait(({"jsonrpc": "2.0", "id": request.id, "error": answer}, request.key))

    async def _write(self) -> None:
        """Write messages one after the other, and tell when an answer has left."""
        while True:
            message, request = await self._queue.get()
            text = json.dumps(message, ensure_ascii=False, separators=(",", ":"))
            try:
                await asyncio.to_thread(_write_line, self._outgoing, text.encode("utf-8", "replace"))
            except OSError as error:
                _log.debug("the client has gone: %s", error)
                return
            if request:
                self._service.answered(request, received="result" in message)
            self._queue.task_done()


def _end(ended: "asyncio.Future[None]", failure: BaseException | None) -> None:
    if ended.done():
        return
    if failure is None:
        ended.set_result(None)
    else:
        ended.set_exception(failure)


def _streams() -> tuple[BinaryIO, BinaryIO]:
    """Return the streams of the protocol; what is printed otherwise goes to standard error."""
    incoming, outgoing = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    try:
        os.dup2(2, 1)
    except OSError:
        os.dup2(nothing, 1)
    os.close(nothing)
    return incoming, outgoing


def _write_line(stream: BinaryIO, text: bytes) -> None:
    stream.write(text + b"\n")
    stream.flush()
