"""A courier over a real journal: what it passes over, what stops it, and what does not."""

import logging
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.hub.outside import SECRET, Outside
from tests.patience import PATIENCE_S
from tocsin.core import events as ev
from tocsin.hub.config import Destination, WebhookConfig
from tocsin.hub.webhooks import Webhooks
from tocsin.journal.errors import JournalUnavailable
from tocsin.journal.log import EventLog
from tocsin.journal.sqlite import SqliteJournal

LATER = 1 << 60


class Round:
    """A journal, and the courier that brings from it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        (path / "hook.secret").write_bytes(SECRET)
        self.outside = Outside()
        self.journal = SqliteJournal(path, "team", checkpoint_bytes=1 << 20)
        self.log = EventLog(self.journal)
        self.webhooks = self.begin()

    def begin(self) -> Webhooks:
        row = Destination("pager", self.outside.url, "hook.secret", events=("AlertCleared",))
        config = WebhookConfig([row], timeout_s=5, attempts_max=3, backoff_s=[0.01], hold_s=10, aside_max=10)
        self.webhooks = Webhooks(self.journal, config, self._path)
        self.webhooks.start()
        return self.webhooks

    def commit(self, *events: ev.Event) -> None:
        first = self.journal.last_seq() + 1
        self.log.append(list(events))
        self.webhooks.follow(first, list(events))

    def take(self) -> Any:
        return self.outside.take()[1]

    def prune(self) -> None:
        assert self.journal.prune(self.journal.last_seq(), LATER, 1000)

    def close(self) -> None:
        self.webhooks.close()
        self.journal.close()
        self.outside.close()


@pytest.fixture
def around(tmp_path: Path) -> Iterator[Round]:
    brought = Round(tmp_path)
    yield brought
    brought.close()


def cleared(at: int) -> ev.Event:
    return ev.AlertCleared(at, "depth", 1.0, 1)


def beats(count: int) -> list[ev.Event]:
    return [ev.SessionHeartbeat(1, "s") for _ in range(count)]


@pytest.mark.parametrize("restarts", [False, True])
def test_what_nobody_wanted_is_not_missed_when_it_is_pruned(around: Round, restarts: bool) -> None:
    around.commit(cleared(1))
    around.take()
    for _ in range(20):
        around.commit(*beats(10))
    around.commit(cleared(2), *beats(10))
    around.take()
    around.commit(*beats(10))
    if restarts:
        around.webhooks.close()
        around.begin()
    around.prune()
    around.commit(cleared(3))
    assert around.take()["missed"] == 0


def test_what_was_pruned_before_it_was_looked_at_is_missed(around: Round) -> None:
    around.commit(cleared(1))
    around.take()
    around.webhooks.close()
    around.log.append(beats(7))
    around.prune()
    around.begin()
    around.commit(cleared(2))
    assert around.take()["missed"] == 7


@pytest.mark.parametrize(
    "error", [JournalUnavailable("journal.db", "away"), OSError(28, "No space left on device"), ValueError("?")]
)
def test_nothing_ends_a_courier_but_its_hub(around: Round, error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    errors = [error, error]
    pruned_seq = around.journal.pruned_seq

    def failing() -> int:
        if errors:
            raise errors.pop()
        return pruned_seq()

    monkeypatch.setattr(around.journal, "pruned_seq", failing)
    # The courier may have begun to look for the first one before there were errors.
    for number in (1, 2):
        around.commit(cleared(number))
        assert around.take()["facts"]["at"] == number
    assert not errors


def test_a_delivery_that_may_have_been_received_before_says_so(around: Round) -> None:
    around.outside.statuses = [500]
    around.commit(cleared(1), cleared(2))
    assert [(body["facts"]["at"], body["repeated"]) for body in (around.take() for _ in range(3))] == [
        (1, False),
        (1, True),
        (2, False),
    ]


def test_a_delivery_that_found_nobody_is_no_repeat(around: Round) -> None:
    """Nor is it one after a restart: the destination cannot have received it."""
    address, around.outside.url = around.outside.url, "http://127.0.0.1:9/"
    around.webhooks.close()
    around.begin()
    tried = threading.Event()
    senders = logging.getLogger("tocsin.hub.webhooks")
    senders.addFilter(told := lambda record: not tried.set())  # type: ignore[func-returns-value]
    around.commit(cleared(1))
    assert tried.wait(PATIENCE_S)
    around.webhooks.close()
    senders.removeFilter(told)
    around.outside.url = address
    around.begin()
    assert around.take()["repeated"] is False
