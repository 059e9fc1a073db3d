"""A listening socket whose connections are accepted one after the other, also when open files run out.

The event loops do not agree on what happens then: asyncio's stops accepting for a second, uvloop's closes the
connections that arrive without a word, and closes the listener if another thread takes the one descriptor that it has
in reserve. Here connections wait in the queue of the system, which is looked at again after a pause.
"""

import asyncio
import logging
import socket
from collections.abc import Callable

from tocsin.journal.open_files import OPEN_FILES, ran_out

__all__ = ["Listening", "begin"]

_log = logging.getLogger("tocsin.hub")
#: Connections accepted in one turn of the event loop.
_ACCEPT_MAX = 64
#: Time until connections are accepted again after that has failed, seconds.
_PAUSE_S = 0.1


class Listening:
    """Accepts the connections of a listening socket until it is closed."""

    def __init__(self, listener: socket.socket, accepted: Callable[[socket.socket], None]) -> None:
        """Begin to accept; `accepted` takes each connection, which does not block."""
        self.listener = listener
        self._accepted = accepted
        self._loop = asyncio.get_running_loop()
        self._pause: asyncio.TimerHandle | None = None
        listener.setblocking(False)
        self._resume()

    def close(self) -> None:
        """Accept no more connections; the socket stays open."""
        if self._pause is not None:
            self._pause.cancel()
        if self.listener.fileno() >= 0:
            self._loop.remove_reader(self.listener.fileno())

    def _resume(self) -> None:
        self._loop.add_reader(self.listener.fileno(), self._accept)

    def _accept(self) -> None:
        for _ in range(_ACCEPT_MAX):
            try:
                connection, _address = self.listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return  # There is none, another process was faster, or the caller has gone.
            except OSError as error:
                self._failed(error)
                return
            connection.setblocking(False)
            self._accepted(connection)

    def _failed(self, error: OSError) -> None:
        """Accept nothing for a while: the socket is readable as long as callers wait."""
        if ran_out(error):
            OPEN_FILES.report("connections wait until some are closed", error)
        else:
            _log.warning("a connection cannot be accepted: %s", error)
        self._loop.remove_reader(self.listener.fileno())
        self._pause = self._loop.call_later(_PAUSE_S, self._resume)


async def begin(connection: socket.socket, make: Callable[[], asyncio.Protocol]) -> None:
    """Serve a connection that was accepted."""
    try:
        await asyncio.get_running_loop().connect_accepted_socket(make, connection)
    except OSError as error:
        _log.debug("a connection was lost before it was served: %s", error)
        connection.close()
