"""Webhooks: events posted to addresses that the operator configured.

Theory of operation. The queue is the journal itself. Each destination has a sender, a thread that stores its position
in a file, reads on from there, and posts one event at a time; the bus only wakes it. So nothing here delays a commit, a
destination that is down costs no memory, and after a restart a sender continues where it was. Events that the journal
has pruned meanwhile are missed, and the next delivery states how many. Delivery is at least once. The file names an
event before it is posted, so that a delivery that repeats one that may have been received says so, also after a kill.

Deliveries are in order as long as they are accepted. While a destination cannot be reached, its sender waits for it. An
event that a reachable destination refuses delays the others no longer than `hold_s`: it is then deferred and retried
beside them, up to `attempts_max` attempts.
"""

import logging
import threading
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec

from tocsin.core import events as ev
from tocsin.core.errors import refusal
from tocsin.core.events import Event
from tocsin.core.protocol.timestamps import as_datetime
from tocsin.hub.config import Destination, WebhookConfig
from tocsin.hub.webhook_delivery import Address, DeliveryFailure, sign
from tocsin.journal.base import Journal
from tocsin.journal.log import tail

__all__ = ["WebhookSender", "Webhooks", "sign"]

_log = logging.getLogger(__name__)
_EVENTS = {kind.__name__: kind for kind in ev.EVENT_TYPES}
#: Shortest accepted secret, bytes.
_SECRET_MIN = 16
#: Interval at which the position is stored while there is nothing to deliver, seconds.
_SAVE_EVERY_S = 60.0
#: Media type of a CloudEvent in structured mode.
_CLOUD_EVENT = "application/cloudevents+json; charset=utf-8"


def _cloud_event(delivery: str, project: str, event: Event, data: dict[str, Any]) -> dict[str, Any]:
    """Return an event as CloudEvents 1.0 describes it; a repeated delivery has the same source and id."""
    return {
        "specversion": "1.0",
        "id": delivery,
        "source": f"/tocsin/projects/{quote(project, safe='')}",
        "type": f"tocsin.{type(event).__name__}",
        "time": as_datetime(event.at).isoformat(),
        "datacontenttype": "application/json",
        "data": data,
    }


class Webhooks:
    """The webhook senders of one project."""

    def __init__(self, journal: Journal, config: WebhookConfig, data: Path) -> None:
        place = data / "webhooks"
        if config.destinations:
            place.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._senders = [WebhookSender(journal, config, row, data, place) for row in config.destinations]

    def start(self) -> None:
        """Start the senders."""
        for sender in self._senders:
            sender.start()

    def follow(self, first_seq: int, events: list[Event]) -> None:
        """Wake the senders that have something to deliver."""
        for sender in self._senders:
            wanted = any(type(event) in sender.wanted for event in events)
            sender.committed(first_seq + len(events) - 1, wanted=wanted)

    def close(self) -> None:
        """Stop the senders after the deliveries under way; the rest waits in the journal."""
        for sender in self._senders:
            sender.stop()


class _Deferred(msgspec.Struct):
    """A refused event that is retried beside later ones."""

    attempts: int
    #: When it is tried again, by the monotonic clock.
    due_s: float


class WebhookSender:
    """Delivers events to one destination."""

    def __init__(self, journal: Journal, config: WebhookConfig, row: Destination, data: Path, place: Path) -> None:
        self._journal, self._config, self._row = journal, config, row
        self.wanted = frozenset(_kind(row, name) for name in row.events)
        self._address = Address(row.name, row.url, _secret(row, data / row.secret_file), config.timeout_s)
        self._cursor_file = place / f"{row.name}.cursor"
        #: Position: every event up to here was delivered, dropped, deferred or not wanted.
        self._cursor = 0
        self._deferred: dict[int, _Deferred] = {}
        #: The event after that position, with its attempts, if it may have been received.
        self._begun: dict[int, int] = {}
        self._saved = ""
        self._load_position()
        self._missed = 0
        self._failures = 0
        self._wake = threading.Condition()
        self._pending = True
        #: Whether the journal has been read to its end, and up to where no event since then was wanted.
        self._caught_up = False
        self._unwanted = 0
        self._closing = False
        self._thread = threading.Thread(target=self._run, name=f"webhook {row.name}", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def committed(self, last_seq: int, *, wanted: bool) -> None:
        """Note that events were committed, and whether some are to be delivered."""
        with self._wake:
            if wanted:
                self._pending = True
                self._wake.notify()
            elif not self._pending:
                self._unwanted = last_seq

    def stop(self) -> None:
        """End after the delivery under way."""
        with self._wake:
            self._closing = True
            self._wake.notify()
        if self._thread.is_alive():
            self._thread.join()

    def _load_position(self) -> None:
        """Read the stored position; a new destination gets only events committed from now on."""
        if self._cursor_file.exists():
            self._saved = self._cursor_file.read_text(encoding="ascii")
        cursor, *aside = self._saved.split() or [str(self._journal.last_seq())]
        self._cursor = int(cursor)
        for item in aside:
            seq, _, attempts = item.partition(":")
            if int(seq) > self._cursor:
                self._begun[int(seq)] = int(attempts)
            else:
                self._deferred[int(seq)] = _Deferred(int(attempts), 0.0)
        self._save_position()

    def _save_position(self) -> None:
        """Store the position, if it has changed."""
        aside = [f"{seq}:{kept.attempts}" for seq, kept in self._deferred.items()]
        aside += [f"{seq}:{attempts}" for seq, attempts in self._begun.items() if seq > self._cursor]
        text = " ".join([str(self._cursor), *aside])
        if text != self._saved:
            new = self._cursor_file.with_suffix(".new")
            new.write_text(text, encoding="ascii")
            new.replace(self._cursor_file)
            self._saved = text

    def _run(self) -> None:
        while True:
            with self._wake:
                self._wake.wait_for(lambda: self._pending or self._closing, self._rest_s())
                closing = self._closing
                self._pending = False
                if self._caught_up:
                    self._cursor = max(self._cursor, self._unwanted)
            try:
                self._caught_up = not closing and self._deliver_all()
                self._save_position()
                self._failures = 0
            except Exception as error:  # this thread must go on: nothing else delivers to this destination
                waits = self._config.backoff_s
                _log.warning(
                    "webhook %s failed and will be retried: %s: %s", self._row.name, type(error).__name__, error
                )
                self._caught_up = False
                self._pause(waits[min(self._failures, len(waits) - 1)])
                self._failures += 1
                self._pending = True
            if closing:
                return

    def _rest_s(self) -> float:
        """Return the time until the next retry, if nothing is committed before."""
        due_s = min((kept.due_s for kept in self._deferred.values()), default=None)
        return _SAVE_EVERY_S if due_s is None else min(_SAVE_EVERY_S, max(0.0, due_s - time.monotonic()))

    def _deliver_all(self) -> bool:
        """Deliver every event in the journal; return false if the sender is to stop before that is done."""
        pruned = self._journal.pruned_seq()
        if pruned > self._cursor:
            self._missed += pruned - self._cursor
            self._cursor = pruned
        self._retry_deferred()
        for seq, event in tail(self._journal, self._cursor):
            if type(event) not in self.wanted:
                self._cursor = seq
            elif self._deliver(seq, event):
                self._cursor = seq
                self._save_position()
                self._retry_deferred()
            else:
                return False
        return True

    def _deliver(self, seq: int, event: Event) -> bool:
        """Try until the event is accepted, dropped or deferred; return false if the sender is to stop before that."""
        began_s, attempts = time.monotonic(), self._begun.get(seq, 0)
        while (failure := self._begin(seq, event, attempts)) is not None:
            attempts += 1
            wait_s = self._log_failure(seq, attempts, failure)
            if wait_s is None:
                return True
            held_s = time.monotonic() - began_s + wait_s
            if not failure.away and held_s > self._config.hold_s and len(self._deferred) < self._config.aside_max:
                self._deferred[seq] = _Deferred(attempts, time.monotonic() + wait_s)
                return True
            if self._pause(wait_s):
                return False
        return True

    def _begin(self, seq: int, event: Event, attempts: int) -> DeliveryFailure | None:
        """Store that an event is being posted, and post it; return the failure."""
        repeated = seq in self._begun
        self._begun = {seq: attempts + 1}
        self._save_position()
        failure = self._post(seq, event, repeated=repeated)
        if failure is not None and not (failure.arrived or repeated):
            self._begun = {}
            self._save_position()
        return failure

    def _retry_deferred(self) -> None:
        """Retry one deferred event, the one that has been due longest."""
        now_s = time.monotonic()
        due = [seq for seq, kept in self._deferred.items() if kept.due_s <= now_s]
        if not due:
            return
        seq = min(due, key=lambda seq: self._deferred[seq].due_s)
        kept = self._deferred[seq]
        found, event = next(tail(self._journal, seq - 1), (0, None))
        wait_s = None
        if event is None or found != seq:
            self._missed += 1  # pruned meanwhile
        elif (failure := self._post(seq, event, repeated=True)) is not None:
            kept.attempts += 1
            wait_s = self._log_failure(seq, kept.attempts, failure)
        if wait_s is None:
            del self._deferred[seq]
        else:
            kept.due_s = time.monotonic() + wait_s
        self._save_position()

    def _post(self, seq: int, event: Event, *, repeated: bool) -> DeliveryFailure | None:
        """Post one event; return the failure, or null if it was accepted."""
        project, name = self._journal.project, type(event).__name__
        facts = dict(zip(event.__struct_fields__, msgspec.to_builtins(event)[1:], strict=True))
        own = {"project": project, "seq": seq, "event": name}
        own |= {"missed": self._missed, "repeated": repeated, "facts": facts}
        delivery = f"{project}-{seq}"
        if self._row.format == "cloudevents":
            cloud = _cloud_event(delivery, project, event, own)
            failure = self._address.post(name, delivery, msgspec.json.encode(cloud), _CLOUD_EVENT)
        else:
            failure = self._address.post(name, delivery, msgspec.json.encode(own))
        if failure is None:
            self._missed = 0
        return failure

    def _log_failure(self, seq: int, attempts: int, failure: DeliveryFailure) -> float | None:
        """Log a failed attempt, and return the wait before the next one; null if the event is dropped."""
        waits = self._config.backoff_s
        _log.warning(
            "webhook %s did not accept event %d (attempt %d): %s", self._row.name, seq, attempts, failure.detail
        )
        if attempts < self._config.attempts_max:
            return waits[min(attempts, len(waits)) - 1]
        _log.error("webhook %s: event %d is dropped after the last attempt", self._row.name, seq)
        self._missed += 1
        return None

    def _pause(self, seconds: float) -> bool:
        """Wait; return true if the sender is to stop instead."""
        with self._wake:
            return self._wake.wait_for(lambda: self._closing, seconds)


def _kind(row: Destination, name: str) -> type:
    if name not in _EVENTS:
        raise refusal("E_POLICY_001", f"webhook {row.name}: {name!r} is not the name of an event", found=name)
    return _EVENTS[name]


def _secret(row: Destination, path: Path) -> bytes:
    secret = path.read_bytes().strip() if path.is_file() else b""
    if len(secret) < _SECRET_MIN:
        raise refusal(
            "E_POLICY_001", f"webhook {row.name}: {row.secret_file} must hold a secret of {_SECRET_MIN} bytes or more"
        )
    return secret
