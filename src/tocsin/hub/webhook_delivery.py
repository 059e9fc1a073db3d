"""One delivery of a webhook: signed, posted, and what came of it.

It goes where the operator said, or nowhere: no redirect is followed, no proxy of the environment is used. It takes no
longer than it may, however slowly the other side speaks.
"""

import contextlib
import hmac
import http.client
import socket
import threading
import time
from urllib.parse import urlsplit

import msgspec

from tocsin.core.errors import refusal

__all__ = ["Address", "Trouble", "sign"]

#: What says that nobody is there to take anything, rather than that this delivery is not taken.
_AWAY = frozenset({429, 502, 503, 504})


class Trouble(msgspec.Struct, frozen=True):
    """Why a delivery was not taken."""

    detail: str
    #: Whether the destination was not there at all; otherwise it may take another delivery.
    away: bool


def sign(secret: bytes, timestamp: str, body: bytes) -> str:
    """Return the signature of a delivery."""
    return "v1=" + hmac.new(secret, timestamp.encode() + b"." + body, "sha256").hexdigest()


class Address:
    """Where deliveries go, signed with its secret."""

    def __init__(self, name: str, url: str, secret: bytes, timeout_s: float) -> None:
        self._parts = urlsplit(url)
        if self._parts.scheme not in ("http", "https") or not self._parts.hostname:
            raise refusal("E_POLICY_001", f"webhook {name}: {url!r} is no http or https address")
        self._secret = secret
        self._timeout_s = timeout_s

    def post(self, event: str, delivery: str, body: bytes) -> Trouble | None:
        """Post one delivery; return what went wrong, if anything did."""
        timestamp = str(int(time.time()))
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "tocsin",
            "Tocsin-Event": event,
            "Tocsin-Delivery": delivery,
            "Tocsin-Timestamp": timestamp,
            "Tocsin-Signature": sign(self._secret, timestamp, body),
        }
        parts = self._parts
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        connection = kind(parts.hostname or "", parts.port, timeout=self._timeout_s)
        away = True
        over = threading.Timer(self._timeout_s, _cut, (connection,))
        over.start()
        try:
            connection.connect()
            away = False
            target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
            connection.request("POST", target, body, headers)
            status = connection.getresponse().status
        except (OSError, http.client.HTTPException, ValueError) as error:
            return Trouble(str(error) or type(error).__name__, away)
        finally:
            over.cancel()
            connection.close()
        return None if 200 <= status < 300 else Trouble(f"HTTP {status}", status in _AWAY)


def _cut(connection: http.client.HTTPConnection) -> None:
    """End a connection whose time is over: a timeout of the socket counts from the last byte, and bytes may trickle."""
    if connection.sock is not None:
        with contextlib.suppress(OSError):
            connection.sock.shutdown(socket.SHUT_RDWR)
