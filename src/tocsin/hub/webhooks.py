"""Webhooks: what people outside should hear of, told to addresses that the operator configured.

Theory of operation. The queue is the journal itself. Each destination has a courier, a thread that remembers in a file
how far it has come, reads on from there, and posts one event at a time; the bus only wakes it. So nothing here ever
holds up a commit, a destination that is down costs no memory, and a restart goes on where it was. What the journal has
pruned meanwhile is missed, and said so with the next delivery. Delivery is at least once, in order.

A delivery is signed: `Tocsin-Signature: v1=<hex>` is the HMAC-SHA256 of `<Tocsin-Timestamp>.<body>` with the secret of
the destination. Redirects are not followed and proxies of the environment are not used: it goes where the operator
said, or nowhere.
"""

import hmac
import http.client
import logging
import threading
import time
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from tocsin.core import events as ev
from tocsin.core.errors import refusal
from tocsin.core.events import Event
from tocsin.hub.config import Destination, WebhookConfig
from tocsin.journal.base import Journal
from tocsin.journal.errors import JournalError
from tocsin.journal.log import tail

__all__ = ["Courier", "Webhooks", "sign"]

_log = logging.getLogger(__name__)
_EVENTS = {kind.__name__: kind for kind in ev.EVENT_TYPES}
#: A secret of fewer bytes is no secret.
_SECRET_MIN = 16


def sign(secret: bytes, timestamp: str, body: bytes) -> str:
    """Return the signature of a delivery."""
    return "v1=" + hmac.new(secret, timestamp.encode() + b"." + body, "sha256").hexdigest()


class Webhooks:
    """The couriers of one project."""

    def __init__(self, journal: Journal, config: WebhookConfig, data: Path) -> None:
        place = data / "webhooks"
        if config.destinations:
            place.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._couriers = [Courier(journal, config, row, data, place) for row in config.destinations]

    def start(self) -> None:
        """Let the couriers go."""
        for courier in self._couriers:
            courier.start()

    def follow(self, first_seq: int, events: list[Event]) -> None:
        """Wake whoever has something to tell."""
        for courier in self._couriers:
            if any(type(event) in courier.wanted for event in events):
                courier.wake()

    def close(self) -> None:
        """Let the couriers end what they are at; what is left waits in the journal."""
        for courier in self._couriers:
            courier.stop()


class Courier:
    """Brings events to one destination."""

    def __init__(self, journal: Journal, config: WebhookConfig, row: Destination, data: Path, place: Path) -> None:
        self._journal, self._config, self._row = journal, config, row
        self.wanted = frozenset(_kind(row, name) for name in row.events)
        self._secret = _secret(row, data / row.secret_file)
        self._parts = urlsplit(row.url)
        if self._parts.scheme not in ("http", "https") or not self._parts.hostname:
            raise refusal("E_POLICY_001", f"webhook {row.name}: {row.url!r} is no http or https address")
        self._cursor_file = place / f"{row.name}.cursor"
        self._cursor = self._recalled()
        self._missed = 0
        self._wake = threading.Condition()
        self._news = True
        self._closing = False
        self._thread = threading.Thread(target=self._run, name=f"webhook {row.name}", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def wake(self) -> None:
        """Say that there is something to bring."""
        with self._wake:
            self._news = True
            self._wake.notify()

    def stop(self) -> None:
        """End after the delivery under way."""
        with self._wake:
            self._closing = True
            self._wake.notify()
        if self._thread.is_alive():
            self._thread.join()

    def _recalled(self) -> int:
        """Return how far it had come; a new destination hears only of what comes after now."""
        if not self._cursor_file.exists():
            self._remember(self._journal.last_seq())
        return int(self._cursor_file.read_text(encoding="ascii") or 0)

    def _remember(self, seq: int) -> None:
        aside = self._cursor_file.with_suffix(".new")
        aside.write_text(str(seq), encoding="ascii")
        aside.replace(self._cursor_file)
        self._cursor = seq

    def _run(self) -> None:
        while True:
            with self._wake:
                self._wake.wait_for(lambda: self._news or self._closing)
                if self._closing:
                    return
                self._news = False
            try:
                self._bring()
            except JournalError as error:
                _log.warning("webhook %s cannot read the journal: %s", self._row.name, error)
                self._pause(self._config.backoff_s[-1])
                self.wake()

    def _bring(self) -> None:
        """Bring everything that is there."""
        pruned = self._journal.pruned_seq()
        if pruned > self._cursor:
            self._missed += pruned - self._cursor
            self._remember(pruned)
        for seq, event in tail(self._journal, self._cursor):
            if type(event) in self.wanted and not self._deliver(seq, event):
                return
            if type(event) in self.wanted:
                self._remember(seq)

    def _deliver(self, seq: int, event: Event) -> bool:
        """Try until it is taken or has been tried often enough; say whether to go on."""
        waits = self._config.backoff_s
        body = msgspec.json.encode(
            {
                "project": self._journal.project,
                "seq": seq,
                "event": type(event).__name__,
                "missed": self._missed,
                "facts": dict(zip(event.__struct_fields__, msgspec.to_builtins(event)[1:], strict=True)),
            }
        )
        for attempt in range(self._config.attempts_max):
            problem = self._post(seq, event, body)
            if problem is None:
                self._missed = 0
                return True
            _log.warning("webhook %s did not take event %d (%d): %s", self._row.name, seq, attempt + 1, problem)
            if self._pause(waits[min(attempt, len(waits) - 1)]):
                return False
        _log.error("webhook %s: event %d is given up", self._row.name, seq)
        self._missed += 1
        return True

    def _pause(self, seconds: float) -> bool:
        """Wait; say whether the courier is to end instead."""
        with self._wake:
            return self._wake.wait_for(lambda: self._closing, seconds)

    def _post(self, seq: int, event: Event, body: bytes) -> str | None:
        """Post one delivery; return what went wrong, if anything did."""
        timestamp = str(int(time.time()))
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "tocsin",
            "Tocsin-Event": type(event).__name__,
            "Tocsin-Delivery": f"{self._journal.project}-{seq}",
            "Tocsin-Timestamp": timestamp,
            "Tocsin-Signature": sign(self._secret, timestamp, body),
        }
        parts = self._parts
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        connection = kind(parts.hostname or "", parts.port, timeout=self._config.timeout_s)
        try:
            target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
            connection.request("POST", target, body, headers)
            status = connection.getresponse().status
        except (OSError, http.client.HTTPException) as error:
            return str(error) or type(error).__name__
        finally:
            connection.close()
        return None if 200 <= status < 300 else f"HTTP {status}"


def _kind(row: Destination, name: str) -> type:
    if name not in _EVENTS:
        raise refusal("E_POLICY_001", f"webhook {row.name}: {name!r} is no event", found=name)
    return _EVENTS[name]


def _secret(row: Destination, path: Path) -> bytes:
    secret = path.read_bytes().strip() if path.is_file() else b""
    if len(secret) < _SECRET_MIN:
        raise refusal(
            "E_POLICY_001", f"webhook {row.name}: {row.secret_file} must hold a secret of {_SECRET_MIN} bytes or more"
        )
    return secret
