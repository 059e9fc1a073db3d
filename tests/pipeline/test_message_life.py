"""`message_life`: literal rows, simulated traffic compared with plain Python, and merges in any order."""

import os
import random
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from tests.pipeline.oracle import lives, stamp
from tests.pipeline.traffic import START, frame_of, numbered, simulated
from tocsin.core import events as ev
from tocsin.core.events import Event
from tocsin.core.messages.lifecycle import TRANSITIONS
from tocsin.core.messages.model import Message, PublishPath, RecipientState, State
from tocsin.core.protocol.contracts import DeliveryClass
from tocsin.pipeline.silver.message_life import fold, merge
from tocsin.pipeline.tables.schemas import CODED_FIELDS, MESSAGE_LIFE, STEPS, struct_of

SOAK = bool(os.environ.get("TOCSIN_SOAK"))
NAMES = [column.name for column in MESSAGE_LIFE]
S = 1_000_000


def accepted(at: int, message_id: str, *, ack: bool = False) -> ev.MessageAccepted:
    return ev.MessageAccepted(
        at, message_id, "ann", "bob", "TASK_ASSIGNMENT", 1, 1, "as_requested", 5, 0.0, DeliveryClass.ASYNC, ack,
        at + 60 * S, at - S, "1.1.0", "thread-1", True, None, b"{}", b"{}", RecipientState.AVAILABLE,
        PublishPath.PUSHED, "session-1", 999.0, None, None,
    )  # fmt: skip


def words_in(events: list[Event]) -> dict[str, list[str]]:
    return {
        f"{kind}.{field}": sorted({getattr(event, field) for event in events if type(event).__name__ == kind})
        for kind, field in CODED_FIELDS
    }


def rows(frame: DataFrame) -> dict[tuple[str, int], dict[str, Any]]:
    assert frame.schema.simpleString() == struct_of(MESSAGE_LIFE).simpleString()
    found = [row.asDict(recursive=True) for row in frame.collect()]
    keyed = {(row["project"], row["message"]): row for row in found}
    assert len(keyed) == len(found), "a message has two rows"
    return keyed


def same(found: dict[tuple[str, int], dict[str, Any]], wanted: dict[tuple[str, int], dict[str, Any]]) -> None:
    assert found.keys() == wanted.keys()
    for key, row in wanted.items():
        assert found[key] == row, {n: (found[key][n], row[n]) for n in NAMES if found[key][n] != row[n]}


#: A message that is tried twice, dies, is redriven and done; one that expires; one that is recalled; one that waits.
STORY: list[Event] = [
    accepted(START, "m1", ack=True),
    ev.MessageOffered(START + S, 1, "session-1", 1, 1, S, True),
    ev.MessageDelivered(START + 2 * S, 1, "receipt"),
    ev.MessageRequeued(START + 32 * S, 1, "ack_timeout", 1, 1, START + 33 * S, 30.0),
    ev.MessageReady(START + 33 * S, 1),
    ev.MessageBoosted(START + 34 * S, 1, 1, 2, False, "aging", 30.0, 34 * S, 1),
    ev.MessageOffered(START + 35 * S, 1, "session-2", 2, 2, 35 * S, False),
    ev.MessageDelivered(START + 36 * S, 1, "nack"),
    ev.MessageRejected(START + 36 * S, 1, "no", "", True),
    ev.MessageDied(START + 36 * S, 1, "rejected", "E_VALIDATION_004", 1, "bob rejected m1"),
    ev.DeadLetterRedriven(START + 50 * S, 1, "boss", START + 110 * S, RecipientState.OFFLINE),
    accepted(START + 51 * S, "m12"),
    accepted(START + 52 * S, "m13"),
    accepted(START + 53 * S, "m14"),
    ev.MessageOffered(START + 54 * S, 1, "session-2", 3, 1, 4 * S, False),
    ev.MessageAcknowledged(START + 55 * S, 1, "processed", S),
    ev.MessageProcessed(START + 55 * S, 1, "ack", 0),
    ev.MessageExpired(START + 120 * S, 12, "ttl", START + 111 * S, 5.0, 0.0),
    ev.MessageRecalled(START + 121 * S, 13, "ann"),
]


def test_lives_of_a_story(spark: SparkSession) -> None:
    found = rows(fold(frame_of(spark, numbered("p", STORY)), words_in(STORY)))
    first = found[("p", 1)]
    assert first == {
        "project": "p",
        "date": stamp(START).date(),
        "message": 1,
        "message_id": "m1",
        "sender": "ann",
        "recipient": "bob",
        "message_type": "TASK_ASSIGNMENT",
        "requested": 1,
        "priority": 1,
        "level": 1,
        "rule": "as_requested",
        "importance": 5,
        "decay_rate": 0.0,
        "delivery_class": "async",
        "ack_required": True,
        "version": "1.1.0",
        "correlation_id": "thread-1",
        "opens_thread": True,
        "broadcast": None,
        "recipient_state": "available",
        "publish_path": "pushed_to_ws",
        "resolved_session": "session-1",
        "held": "",
        "created_at": stamp(START),
        "sent_at": stamp(START - S),
        "expires_at": stamp(START + 110 * S),
        "first_offered_at": stamp(START + S),
        "offered_at": stamp(START + 54 * S),
        "delivered_at": None,
        "acked_at": stamp(START + 55 * S),
        "processed_at": stamp(START + 55 * S),
        "expired_at": None,
        "recalled_at": None,
        "dead_at": None,
        "redriven_at": stamp(START + 50 * S),
        "purged_at": None,
        "state": "processed",
        "reason": "rejected",
        "code": "E_VALIDATION_004",
        "delivered_how": "nack",
        "ack_status": "processed",
        "processed_how": "ack",
        "offers": 3,
        "attempts": 0,
        "requeues": 1,
        "rejections": 1,
        "boosts": 0,
        "redrives": 1,
        "first_waited_us": S,
        "ack_latency_us": S,
        "processing_latency_us": 0,
        "path": dict.fromkeys(STEPS)
        | {
            "offered": 15,
            "delivered": 8,
            "acknowledged": 16,
            "processed": 17,
            "rejected": 9,
            "requeued": 4,
            "boosted": 6,
            "died": 10,
            "redriven": 11,
        },
        "last_seq": 17,
        "last_at": stamp(START + 55 * S),
        "is_open": False,
    }
    assert {key[1]: (row["state"], row["reason"], row["is_open"]) for key, row in found.items()} == {
        1: ("processed", "rejected", False),
        12: ("expired", "ttl", False),
        13: ("recalled", None, False),
        14: ("queued", None, True),
    }
    same(found, lives("p", STORY))


def test_a_story_in_two_parts_is_the_same_story_in_either_order(spark: SparkSession) -> None:
    """Every split of the story is a separate project."""
    words = words_in(STORY)
    cuts = {cut: numbered(f"cut-{cut}", STORY) for cut in range(1, len(STORY))}
    early = fold(frame_of(spark, [event for cut, events in cuts.items() for event in events[:cut]]), words)
    late = fold(frame_of(spark, [event for cut, events in cuts.items() for event in events[cut:]]), words)
    wanted = {key: life for cut in cuts for key, life in lives(f"cut-{cut}", STORY).items()}
    same(rows(merge(early, late)), wanted)
    same(rows(merge(late, early)), wanted)


def test_a_word_that_is_not_listed_is_other(spark: SparkSession) -> None:
    found = rows(fold(frame_of(spark, numbered("p", STORY)), {**words_in(STORY), "MessageDied.reason": []}))
    assert found[("p", 1)]["reason"] == "other"


def test_every_transition_leads_to_one_state() -> None:
    after: dict[type, State] = {}
    for row in TRANSITIONS:
        assert after.setdefault(row.event, row.after) is row.after
    assert {step for step, kind in STEPS.items() if kind in after} >= {"offered", "delivered", "died", "redriven"}


def test_simulated_traffic_against_a_plain_fold(spark: SparkSession) -> None:
    """Every seed is a separate project, folded at once and in three random parts."""
    histories = {f"seed-{seed}": simulated(seed, 3000 if SOAK else 700) for seed in range(1, 41 if SOAK else 5)}
    everything = [event for name, (events, _) in histories.items() for event in numbered(name, events)]
    words = words_in([event for _, _, event in everything])
    wanted = {key: life for name, (events, _) in histories.items() for key, life in lives(name, events).items()}
    whole = rows(fold(frame_of(spark, everything), words))
    same(whole, wanted)
    for name, (_, world) in histories.items():
        states = {number: row["state"] for (project, number), row in whole.items() if project == name}
        fates = {number: "dead" if fate == "purged" else fate for number, fate in world.ledger.fate.items()}
        assert states == fates
        for message in world.exchange.state.messages.values():
            check_against_exchange(whole[(name, message.seq)], message)
    random.Random(1).shuffle(everything)
    third = len(everything) // 3
    parts = [everything[:third], everything[third : 2 * third], everything[2 * third :]]
    first, second, last = (fold(frame_of(spark, part), words) for part in parts)
    same(rows(merge(merge(last, first), second)), wanted)


def check_against_exchange(row: dict[str, Any], message: Message) -> None:
    """Compare a row with the exchange's state."""
    said = (row["attempts"], row["level"], row["offers"], row["boosts"], row["expires_at"])
    assert said == (message.attempts, message.own_level, message.offers, message.boosts, stamp(message.expires_at))
    for name in ("delivered_at", "acked_at", "processed_at", "expired_at", "recalled_at", "dead_at"):
        at = getattr(message, name)
        assert row[name] == (stamp(at) if at else None), name
