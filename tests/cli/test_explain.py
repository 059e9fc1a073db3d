"""The history of a message in sentences: every event of a message has one."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from tocsin.cli.explain import explained
from tocsin.core import events as ev
from tocsin.core.events import Event
from tocsin.journal.changes import LEVEL_EVENTS, MESSAGE_EVENTS
from tocsin.journal.records import LIFE_ENTRIES, life_text
from tocsin.wire.history import HistoryEntry, MessageHistory, MessageRecord

#: In an order that is the same in every process.
EVENTS = [ev.MessageAccepted, *(kind for kind in ev.EVENT_TYPES if kind in MESSAGE_EVENTS or kind in LEVEL_EVENTS)]
MESSAGE: dict[str, Any] = dict.fromkeys(MessageRecord.__struct_fields__) | {"signal_id": "msg_1", "type": "Question"}


def told(event: Event) -> str:
    """Return the sentence of one event, from a reply such as a hub sends."""
    line: dict[str, Any] = json.loads(life_text([LIFE_ENTRIES[type(event)](1, event)]))
    entry = HistoryEntry(line.pop("seq"), datetime(2026, 1, 1, tzinfo=UTC), line.pop("kind"), line)
    _, sentence = explained(MessageHistory(MessageRecord(**MESSAGE), [entry]))
    return sentence.split(" s  ", 1)[1]


def filled(kind: type) -> Any:
    """Return an event whose fields are all 0."""
    return kind(**dict.fromkeys(kind.__struct_fields__, 0))  # type: ignore[attr-defined]


@pytest.mark.parametrize("kind", EVENTS, ids=lambda kind: kind.__name__)
def test_every_event_of_a_message_has_a_sentence(kind: type) -> None:
    sentence = told(filled(kind))
    assert kind.__name__ not in sentence
    assert "{" not in sentence


def test_levels_are_called_by_their_names() -> None:
    lent = ev.PriorityInherited(1, "bob", None, 3, "ada", "request:msg_9", (1,))
    assert told(lent) == "raised because ada waits for bob (request:msg_9): bob inherits Critical"
    restored = ev.PriorityRestored(1, "bob", 3, None, (1,))
    assert told(restored) == "restored: bob inherited Critical and inherits nothing now"
