"""Construction of picows' WebSocket protocol, for the hub's side and the client's side of a socket.

picows' public functions open connections of their own: a server on a port of its own, a client whose connection cannot
be closed while its handshake is unanswered. Both sides of Tocsin have a connection already, and construct the protocol
that those functions use (`docs/decisions/websocket-library.md`).
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any

from picows import WSAutoPingStrategy, WSListener
from picows.picows import WSProtocol  # type: ignore[attr-defined]

__all__ = ["client_protocol", "server_protocol"]

#: First size of the read buffer, bytes; it grows to the largest frame.
_READ_BYTES = 4096
_Logger = logging.Logger | logging.LoggerAdapter[logging.Logger]


def server_protocol(listener: WSListener, bytes_max: int, logger: _Logger) -> Any:
    """Return a protocol that waits for the handshake of a client."""
    return _protocol(None, None, lambda request: listener, bytes_max, logger, None)


def client_protocol(
    listener: WSListener, host: str, path: str, headers: Mapping[str, str], bytes_max: int, logger: _Logger
) -> Any:
    """Return a protocol that begins with a handshake."""
    return _protocol(host, path, lambda request, response: listener, bytes_max, logger, headers)


def _protocol(
    host: str | None,
    path: str | None,
    listener: Callable[..., WSListener],
    bytes_max: int,
    logger: _Logger,
    headers: Mapping[str, str] | None,
) -> asyncio.BufferedProtocol:
    protocol: asyncio.BufferedProtocol = WSProtocol(
        host,
        path,
        host is not None,  # whether it is the client's side
        listener,
        logger,
        True,  # end the connection after an exception of the listener
        None,  # handshake timeout: the owners have their own
        False,  # send no pings
        1,  # their interval
        1,  # their timeout
        WSAutoPingStrategy.PING_WHEN_IDLE,
        True,  # answer pings
        bytes_max,
        headers,
        _READ_BYTES,
    )
    return protocol
