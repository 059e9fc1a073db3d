"""A message's life in sentences: there is one for everything that can happen to a message."""

import json
from typing import Any

import pytest

from tocsin.cli.explain import explained
from tocsin.core import events as ev
from tocsin.core.events import Event
from tocsin.journal.changes import LEVEL_EVENTS, MESSAGE_EVENTS
from tocsin.journal.records import life_line

#: In an order that is the same in every process.
EVENTS = [ev.MessageAccepted, *(kind for kind in ev.EVENT_TYPES if kind in MESSAGE_EVENTS or kind in LEVEL_EVENTS)]
MESSAGE = {"signal_id": "msg_1", "message_type": "Question", "sender": "ada", "recipient": "bob"}


def told(event: Event) -> str:
    """Tell one event as a hub would show it."""
    line: dict[str, Any] = json.loads(life_line(1, event))
    happening = {"seq": line.pop("seq"), "kind": line.pop("kind"), "at": "2026-01-01T00:00:00+00:00", "facts": line}
    _, sentence = explained({"message": MESSAGE | {"priority": "Info", "state": "queued"}, "life": [happening]})
    return sentence.split(" s  ", 1)[1]


def filled(kind: type) -> Any:
    """Make an event out of numbers: what its fields are is not looked at."""
    return kind(**dict.fromkeys(kind.__struct_fields__, 0))  # type: ignore[attr-defined]


@pytest.mark.parametrize("kind", EVENTS, ids=lambda kind: kind.__name__)
def test_every_event_of_a_message_has_a_sentence(kind: type) -> None:
    sentence = told(filled(kind))
    assert kind.__name__ not in sentence
    assert "{" not in sentence


def test_levels_are_called_by_their_names() -> None:
    lent = ev.PriorityInherited(1, "bob", None, 3, "ada", "request:msg_9", (1,))
    assert told(lent) == "raised with bob, which ada waits for (request:msg_9): bob is lent Critical"
    assert (
        told(ev.PriorityRestored(1, "bob", 3, None, (1,)))
        == "back with bob, which was lent Critical and is lent nothing"
    )
