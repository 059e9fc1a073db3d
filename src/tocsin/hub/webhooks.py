"""Webhooks: what people outside should hear of, told to addresses that the operator configured.

Theory of operation. The queue is the journal itself. Each destination has a courier, a thread that remembers in a file
how far it has looked, reads on from there, and posts one event at a time; the bus only wakes it. So nothing here ever
holds up a commit, a destination that is down costs no memory, and a restart goes on where it was. What the journal has
pruned meanwhile is missed, and said so with the next delivery. Delivery is at least once.

Deliveries are in order as long as they are taken. While a destination is not there at all, its courier waits for it.
One that is there and does not take an event holds the others up no longer than `hold_s`: the event is put aside and
tried again beside them, until it has been tried often enough.
"""

import logging
import threading
import time
from pathlib import Path

import msgspec

from tocsin.core import events as ev
from tocsin.core.errors import refusal
from tocsin.core.events import Event
from tocsin.hub.config import Destination, WebhookConfig
from tocsin.hub.webhook_delivery import Address, Trouble, sign
from tocsin.journal.base import Journal
from tocsin.journal.log import tail

__all__ = ["WebhookSender", "Webhooks", "sign"]

_log = logging.getLogger(__name__)
_EVENTS = {kind.__name__: kind for kind in ev.EVENT_TYPES}
#: A secret of fewer bytes is no secret.
_SECRET_MIN = 16
#: How far it has looked is written down at least this often while nothing is to be brought, seconds.
_NOTE_EVERY_S = 60.0


class Webhooks:
    """The couriers of one project."""

    def __init__(self, journal: Journal, config: WebhookConfig, data: Path) -> None:
        place = data / "webhooks"
        if config.destinations:
            place.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._couriers = [WebhookSender(journal, config, row, data, place) for row in config.destinations]

    def start(self) -> None:
        """Let the couriers go."""
        for courier in self._couriers:
            courier.start()

    def follow(self, first_seq: int, events: list[Event]) -> None:
        """Wake whoever has something to tell."""
        for courier in self._couriers:
            wanted = any(type(event) in courier.wanted for event in events)
            courier.heard(first_seq + len(events) - 1, wanted=wanted)

    def close(self) -> None:
        """Let the couriers end what they are at; what is left waits in the journal."""
        for courier in self._couriers:
            courier.stop()


class _Aside(msgspec.Struct):
    """An event that others have overtaken."""

    attempts: int
    #: When it is tried again, by the monotonic clock.
    due_s: float


class WebhookSender:
    """Brings events to one destination."""

    def __init__(self, journal: Journal, config: WebhookConfig, row: Destination, data: Path, place: Path) -> None:
        self._journal, self._config, self._row = journal, config, row
        self.wanted = frozenset(_kind(row, name) for name in row.events)
        self._address = Address(row.name, row.url, _secret(row, data / row.secret_file), config.timeout_s)
        self._cursor_file = place / f"{row.name}.cursor"
        #: Up to here every event was brought, given up, put aside, or not wanted.
        self._cursor = 0
        self._aside: dict[int, _Aside] = {}
        self._noted = ""
        self._recall()
        self._missed = 0
        self._troubles = 0
        self._wake = threading.Condition()
        self._news = True
        #: Whether everything that was there has been looked at, and how far nothing was wanted of what came since.
        self._caught_up = False
        self._unwanted = 0
        self._closing = False
        self._thread = threading.Thread(target=self._run, name=f"webhook {row.name}", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def heard(self, last_seq: int, *, wanted: bool) -> None:
        """Say what has been committed, and whether there is something to bring among it."""
        with self._wake:
            if wanted:
                self._news = True
                self._wake.notify()
            elif not self._news:
                self._unwanted = last_seq

    def stop(self) -> None:
        """End after the delivery under way."""
        with self._wake:
            self._closing = True
            self._wake.notify()
        if self._thread.is_alive():
            self._thread.join()

    def _recall(self) -> None:
        """Take up where it had come; a new destination hears only of what comes after now."""
        if self._cursor_file.exists():
            self._noted = self._cursor_file.read_text(encoding="ascii")
        cursor, *aside = self._noted.split() or [str(self._journal.last_seq())]
        self._cursor = int(cursor)
        for item in aside:
            seq, _, attempts = item.partition(":")
            self._aside[int(seq)] = _Aside(int(attempts), 0.0)
        self._note()

    def _note(self) -> None:
        """Write down how far it has come, if that is news."""
        aside = [f"{seq}:{kept.attempts}" for seq, kept in self._aside.items()]
        text = " ".join([str(self._cursor), *aside])
        if text != self._noted:
            new = self._cursor_file.with_suffix(".new")
            new.write_text(text, encoding="ascii")
            new.replace(self._cursor_file)
            self._noted = text

    def _run(self) -> None:
        while True:
            with self._wake:
                self._wake.wait_for(lambda: self._news or self._closing, self._rest_s())
                closing = self._closing
                self._news = False
                if self._caught_up:
                    self._cursor = max(self._cursor, self._unwanted)
            try:
                self._caught_up = not closing and self._bring()
                self._note()
                self._troubles = 0
            except Exception as error:  # whatever it is, this thread is all that brings anything here
                waits = self._config.backoff_s
                _log.warning("webhook %s cannot go on: %s: %s", self._row.name, type(error).__name__, error)
                self._caught_up = False
                self._pause(waits[min(self._troubles, len(waits) - 1)])
                self._troubles += 1
                self._news = True
            if closing:
                return

    def _rest_s(self) -> float:
        """Return how long there is nothing to do, unless something is committed."""
        due_s = min((kept.due_s for kept in self._aside.values()), default=None)
        return _NOTE_EVERY_S if due_s is None else min(_NOTE_EVERY_S, max(0.0, due_s - time.monotonic()))

    def _bring(self) -> bool:
        """Bring everything that is there; say whether that was done, or the courier is to end instead."""
        pruned = self._journal.pruned_seq()
        if pruned > self._cursor:
            self._missed += pruned - self._cursor
            self._cursor = pruned
        self._bring_aside()
        for seq, event in tail(self._journal, self._cursor):
            if type(event) not in self.wanted:
                self._cursor = seq
            elif self._deliver(seq, event):
                self._cursor = seq
                self._note()
                self._bring_aside()
            else:
                return False
        return True

    def _deliver(self, seq: int, event: Event) -> bool:
        """Try until it is taken, has been tried often enough, or holds the others up; say whether to go on."""
        began_s, attempts = time.monotonic(), 0
        while (trouble := self._post(seq, event)) is not None:
            attempts += 1
            wait_s = self._told(seq, attempts, trouble)
            if wait_s is None:
                return True
            held_s = time.monotonic() - began_s + wait_s
            if not trouble.away and held_s > self._config.hold_s and len(self._aside) < self._config.aside_max:
                self._aside[seq] = _Aside(attempts, time.monotonic() + wait_s)
                return True
            if self._pause(wait_s):
                return False
        return True

    def _bring_aside(self) -> None:
        """Try one of those put aside again, the one whose time came first."""
        now_s = time.monotonic()
        due = [seq for seq, kept in self._aside.items() if kept.due_s <= now_s]
        if not due:
            return
        seq = min(due, key=lambda seq: self._aside[seq].due_s)
        kept = self._aside[seq]
        found, event = next(tail(self._journal, seq - 1), (0, None))
        wait_s = None
        if event is None or found != seq:
            self._missed += 1  # pruned meanwhile
        elif (trouble := self._post(seq, event)) is not None:
            kept.attempts += 1
            wait_s = self._told(seq, kept.attempts, trouble)
        if wait_s is None:
            del self._aside[seq]
        else:
            kept.due_s = time.monotonic() + wait_s
        self._note()

    def _post(self, seq: int, event: Event) -> Trouble | None:
        """Post one event; return what went wrong, if anything did."""
        body = msgspec.json.encode(
            {
                "project": self._journal.project,
                "seq": seq,
                "event": type(event).__name__,
                "missed": self._missed,
                "facts": dict(zip(event.__struct_fields__, msgspec.to_builtins(event)[1:], strict=True)),
            }
        )
        trouble = self._address.post(type(event).__name__, f"{self._journal.project}-{seq}", body)
        if trouble is None:
            self._missed = 0
        return trouble

    def _told(self, seq: int, attempts: int, trouble: Trouble) -> float | None:
        """Say what went wrong, and return the wait before the next try; nothing where it is given up."""
        waits = self._config.backoff_s
        _log.warning("webhook %s did not take event %d (%d): %s", self._row.name, seq, attempts, trouble.detail)
        if attempts < self._config.attempts_max:
            return waits[min(attempts, len(waits)) - 1]
        _log.error("webhook %s: event %d is given up", self._row.name, seq)
        self._missed += 1
        return None

    def _pause(self, seconds: float) -> bool:
        """Wait; say whether the courier is to end instead."""
        with self._wake:
            return self._wake.wait_for(lambda: self._closing, seconds)


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
