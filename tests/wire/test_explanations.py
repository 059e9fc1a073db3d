"""The history of a message in sentences: every event has one, and every decision names its rule, measure and limit."""

import json
from typing import Any

import msgspec
import pytest

from tests.core.driver import Team
from tocsin.core import events as ev
from tocsin.core.events import Event
from tocsin.core.units import duration_text
from tocsin.journal.changes import LEVEL_EVENTS, MESSAGE_EVENTS
from tocsin.journal.records import life_text
from tocsin.wire.explanations import Explained, Explainer, Reason

#: In an order that is the same in every process.
EVENTS = [ev.MessageAccepted, *(kind for kind in ev.EVENT_TYPES if kind in MESSAGE_EVENTS or kind in LEVEL_EVENTS)]


def told(*events: Event) -> list[Explained]:
    """Explain events as a hub does, from the history that it stores."""
    explainer, sentences = Explainer(), []
    for event in events:
        line: dict[str, Any] = json.loads(life_text([1, event]))
        line.pop("seq")
        sentences.append(explainer.explain(line.pop("kind"), line.pop("at"), line))
    return sentences


def life(team: Team, signal_id: str) -> list[Explained]:
    """Explain the history of one message of a team."""
    seq = team.message(signal_id).seq
    return told(*(event for event in team.events if _is_about(event, signal_id, seq)))


def _is_about(event: Event, signal_id: str, seq: int) -> bool:
    if isinstance(event, ev.MessageAccepted):
        return event.message_id == signal_id
    return getattr(event, "message", None) == seq


def filled(kind: type) -> Any:
    """Return an event whose fields are all 0."""
    return kind(**dict.fromkeys(kind.__struct_fields__, 0))  # type: ignore[attr-defined]


@pytest.fixture
def team() -> Team:
    made = Team()
    made.register("boss", "Manager", "director")
    made.register("ada")
    made.register("bob")
    return made


@pytest.mark.parametrize("kind", EVENTS, ids=lambda kind: kind.__name__)
def test_every_event_of_a_message_has_a_sentence(kind: type) -> None:
    (sentence,) = told(filled(kind))
    assert kind.__name__ not in sentence.text


def test_an_event_of_another_version_is_shown_with_its_fields() -> None:
    assert Explainer().explain("MessagePainted", 1, {"colour": "red"}).text == "MessagePainted colour=red"
    assert Explainer().explain("MessageAccepted", 1, {"rule": "gaming"}).text == "MessageAccepted rule=gaming"


def test_a_priority_as_requested_and_the_default_of_a_type(team: Team) -> None:
    asked = team.send("ada", "bob", "CUSTOM_NOTE", priority="Blocking")
    assert life(team, asked.signal_id)[0] == Explained(
        "accepted at Blocking, as requested, 980 tokens left; the recipient was offline, kept until it is back",
        Reason("as_requested"),
    )
    default = team.send("boss", "bob", "StatusUpdate", priority=None)
    assert life(team, default.signal_id)[0].text.startswith("accepted at Info, the default of its type; ")


def test_an_inflated_priority_names_what_was_counted_and_the_limit(team: Team) -> None:
    for _ in range(7):
        sent = team.send("ada", "bob", "CUSTOM_NOTE", priority="Blocking")
    sentence = life(team, sent.signal_id)[0]
    # The fifth message is the first that can be judged; the message itself is not among those counted.
    measured = "6 of 6 messages at Blocking or above in the last minute"
    assert sentence.reason == Reason("gaming", measured, "50 %")
    assert sentence.text.startswith(
        "accepted at Info instead of Blocking, because its sender inflates priorities: " + measured + ", limit 50 %"
    )
    team.check_replay()


def test_every_copy_of_a_broadcast_has_the_reason(team: Team) -> None:
    for _ in range(6):
        team.send("ada", "bob", "CUSTOM_NOTE", priority="Blocking")
    copies = team.broadcast("ada", "CUSTOM_NOTE", priority="Blocking").receipts
    accepted = [event for event in team.happened(ev.MessageAccepted) if event.broadcast]
    assert len(copies) == len(accepted) == 2
    assert {(event.rule, event.high, event.messages, event.limit, event.window_s) for event in accepted} == {
        ("gaming", 6, 6, 0.5, 60)
    }


def test_a_role_s_highest_priority_is_named(team: Team) -> None:
    team.register("cleo", role="clone")
    sent = team.send("cleo", "bob", "CUSTOM_NOTE", priority="Critical")
    sentence = life(team, sent.signal_id)[0]
    assert sentence.reason == Reason("role_cap", "Critical requested", "Coordinate for the sender's role")
    assert sentence.text.startswith("accepted at Coordinate instead of Critical: the sender's role may use no more")


def test_retries_and_death_name_the_timeout_and_the_retries(team: Team) -> None:
    session = team.attach("boss", "piggyback")
    sent = team.send("ada", "boss", "ERROR_REPORT", payload=_REPORT)
    while team.message(sent.signal_id).state != "dead":
        if team.drain(session):
            team.confirm("boss", sent.message_id)
        team.advance(20, beating=True)
    sentences = life(team, sent.signal_id)
    requeued = [sentence for sentence in sentences if sentence.text.startswith("queued again")]
    contract = team.exchange.state.policy.contracts["ERROR_REPORT"]
    most, timeout = contract.retries_max, duration_text(contract.timeout_s or 0)
    assert requeued[0].reason == Reason(
        "ack_timeout", f"no acknowledgement within {timeout}, retry 1", f"{most} retries"
    )
    assert f"retry 1 of {most}, in " in requeued[0].text
    assert sentences[-1] == Explained(
        f"became a dead letter: no acknowledgement within {timeout}, {most} of {most} retries used (E_PROTOCOL_004)",
        Reason("ack_timeout", f"no acknowledgement within {timeout}, {most} retries used", f"{most} retries"),
    )


_REPORT = {"errorType": "TaskFailure", "errorMessage": "broken", "severity": "high"}


def test_a_ttl_and_a_stale_message_name_their_limits(team: Team) -> None:
    sent = team.send("ada", "bob", "CUSTOM_NOTE", metadata={"ttl": 90})
    team.advance(200)
    assert life(team, sent.signal_id)[-1] == Explained(
        "expired: it was not handed out within its time to live of 1 min 30 s",
        Reason("ttl", "not handed out", "1 min 30 s"),
    )
    stale = ev.MessageExpired(2, 1, "stale", 1, 1.2345, 2.0)
    assert told(stale)[0].reason == Reason("stale", "importance 1.2", "2")


def test_aging_names_the_age_and_the_limit() -> None:
    (raised,) = told(ev.MessageBoosted(1, 1, 0, 1, False, "aging", 60.0, 61_000_000, 1))
    assert raised.text == "raised from Info to Coordinate by aging: it waited 1 min 1 s, limit 1 min"
    assert raised.reason == Reason("aging", "it waited 1 min 1 s", "1 min")


def test_a_purge_names_its_limit() -> None:
    aged, many, old = told(
        ev.DeadLetterPurged(1, 1, "age", 604800.0),
        ev.DeadLetterPurged(1, 1, "limit", 10000.0),
        ev.DeadLetterPurged(1, 1, "age"),
    )
    assert aged.text == "removed from the dead letters: too old, limit 7 d"
    assert many.text == "removed from the dead letters: too many of them, limit 10000 dead letters"
    assert old.text == "removed from the dead letters: too old"


def test_levels_are_called_by_their_names() -> None:
    lent = ev.PriorityInherited(1, "bob", None, 3, "ada", "request:msg_9", (1,))
    assert told(lent)[0].text == "raised because ada waits for bob (request:msg_9): bob inherits Critical"
    restored = ev.PriorityRestored(1, "bob", 3, None, (1,))
    assert told(restored)[0].text == "restored: bob inherited Critical and inherits nothing now"


def test_a_journal_of_an_earlier_version_is_read_and_explained() -> None:
    event = filled(ev.MessageAccepted)
    fresh = msgspec.structs.replace(
        event, message_id="m", sender="a", recipient="b", message_type="t", rule="gaming", requested=2,
        delivery_class="async", version="1.1.0", correlation_id=None, broadcast=None, payload=b"", metadata=b"",
        recipient_state="available", publish_path="queued_offline", resolved_session=None, held="", tokens=None,
        opens_thread=False, ack_required=False,
    )  # fmt: skip
    written = msgspec.msgpack.decode(ev.encode_events([fresh]))
    (old,) = ev.decode_events(msgspec.msgpack.encode([written[0][:-4]]))
    assert (old.high, old.messages, old.limit, old.window_s) == (0, 0, None, None)  # type: ignore[union-attr]
    assert told(old)[0] == Explained(
        "accepted at Info instead of Blocking, because its sender inflates priorities; "
        "the recipient was available, kept until it takes more",
        Reason("gaming"),
    )
    died = msgspec.msgpack.decode(ev.encode_events([ev.MessageDied(1, 1, "rejected", "E_TASK_001", 1, "bob: no")]))
    (old_death,) = ev.decode_events(msgspec.msgpack.encode([died[0][:-2]]))
    assert told(old_death)[0].text == "became a dead letter: rejected by its recipient (E_TASK_001): bob: no"


def test_wakes_are_explained() -> None:
    wake = {"agent": "bob", "wake": "wak_1", "message": 7, "attempt": 1}
    asked = Explainer().explain(
        "AgentWakeRequested", 0, wake | {"level": 2, "waited_us": 6_000_000, "threshold_s": 5.0, "due_at": 9}
    )
    assert asked.text == "waking bob: it has no live session and it waited 6 s, limit 5 s (wak_1)"
    woken = Explainer().explain("AgentWoken", 0, wake | {"session": "ses_1", "took_us": 2_500_000})
    assert woken.text == "bob was woken and took it 2.5 s after the wake was requested (wak_1)"
    failure = {"attempts_max": 3, "reason": "not_attached", "detail": "", "threshold_s": 120.0}
    failed = Explainer().explain("AgentWakeFailed", 0, wake | failure | {"retry_at": 0, "final": True})
    assert failed.text == (
        "waking bob failed, attempt 1 of 3: it opened no session within 2 min; given up and escalated (wak_1)"
    )
    assert failed.reason is not None
    assert (failed.reason.rule, failed.reason.limit) == ("not_attached", "3 attempts")
