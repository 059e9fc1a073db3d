"""One delivery of a webhook: signing, posting, and the result.

It goes only to the configured address: redirects are not followed, and proxies of the environment are not used. The
time limit covers the whole delivery, also when the other side sends its answer byte by byte.
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

__all__ = ["Address", "DeliveryFailure", "sign"]

#: Status codes that mean that the destination is unavailable, not that it refuses this delivery.
_UNAVAILABLE = frozenset({429, 502, 503, 504})


class DeliveryFailure(msgspec.Struct, frozen=True):
    """Why a delivery was not accepted."""

    detail: str
    #: Whether the destination is unavailable; otherwise it may accept another delivery.
    away: bool
    #: Whether the destination may have received it; false only if there was no connection.
    arrived: bool


def sign(secret: bytes, timestamp: str, body: bytes) -> str:
    """Return the signature of a delivery."""
    return "v1=" + hmac.new(secret, timestamp.encode() + b"." + body, "sha256").hexdigest()


class Address:
    """One destination's URL and secret."""

    def __init__(self, name: str, url: str, secret: bytes, timeout_s: float) -> None:
        self._parts = urlsplit(url)
        if self._parts.scheme not in ("http", "https") or not self._parts.hostname:
            raise refusal("E_POLICY_001", f"webhook {name}: {url!r} is not an http or https URL")
        self._secret = secret
        self._timeout_s = timeout_s

    def post(self, event: str, delivery: str, body: bytes, media: str = "application/json") -> DeliveryFailure | None:
        """Post one delivery; return the failure, or null if it was accepted."""
        timestamp = str(int(time.time()))
        headers = {
            "Content-Type": media,
            "User-Agent": "tocsin",
            "Tocsin-Event": event,
            "Tocsin-Delivery": delivery,
            "Tocsin-Timestamp": timestamp,
            "Tocsin-Signature": sign(self._secret, timestamp, body),
        }
        parts = self._parts
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        connection = kind(parts.hostname or "", parts.port, timeout=self._timeout_s)
        is_connected = False
        over = threading.Timer(self._timeout_s, _cut, (connection,))
        over.start()
        try:
            connection.connect()
            is_connected = True
            target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
            connection.request("POST", target, body, headers)
            status = connection.getresponse().status
        except (OSError, http.client.HTTPException, ValueError) as error:
            return DeliveryFailure(str(error) or type(error).__name__, not is_connected, is_connected)
        finally:
            over.cancel()
            connection.close()
        return None if 200 <= status < 300 else DeliveryFailure(f"HTTP {status}", status in _UNAVAILABLE, arrived=True)


def _cut(connection: http.client.HTTPConnection) -> None:
    """Shut down a connection at the time limit: the socket's own timeout starts again with every byte."""
    if connection.sock is not None:
        with contextlib.suppress(OSError):
            connection.sock.shutdown(socket.SHUT_RDWR)
