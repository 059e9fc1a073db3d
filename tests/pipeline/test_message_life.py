"""`message_life`: literal rows, simulated traffic compared with plain Python, and merges in any order."""

import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from tests.pipeline.oracle import lives, stamp
from tests.pipeline.rows import Given, folded, records, settled
from tests.pipeline.traffic import START, numbered, simulated
from tests.soak import scaled
from tocsin.core import events as ev
from tocsin.core.events import Event
from tocsin.core.messages.lifecycle import TRANSITIONS
from tocsin.core.messages.message import Message
from tocsin.core.messages.model import PublishPath, RecipientState, State
from tocsin.core.protocol.contracts import DeliveryClass
from tocsin.pipeline.tables.schemas import MESSAGE_LIFE, STEPS

NAMES = [column.name for column in MESSAGE_LIFE if column.name != "moves"]
S = 1_000_000


def accepted(at: int, message_id: str, *, ack: bool = False) -> ev.MessageAccepted:
    return ev.MessageAccepted(
        at, message_id, "ann", "bob", "TASK_ASSIGNMENT", 1, 1, "as_requested", 5, 0.0, DeliveryClass.ASYNC, ack,
        at + 60 * S, at - S, "1.1.0", "thread-1", True, None, b"{}", b"{}", RecipientState.AVAILABLE,
        PublishPath.PUSHED, "session-1", 999.0, None, None,
    )  # fmt: skip


def keyed(found: list[dict[str, Any]]) -> dict[tuple[str, int], dict[str, Any]]:
    rows = {(row["project"], row["message"]): timed(row) for row in found}
    assert len(rows) == len(found), "a message has two rows"
    return rows


def timed(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row with its times as the oracle has them, without the moves."""
    stamps = {column.name for column in MESSAGE_LIFE if column.type == "timestamp"}
    plain = {name: stamp(value) if name in stamps and value is not None else value for name, value in row.items()}
    del plain["moves"]
    return plain


def fold(events: Iterable[tuple[str, int, Event]]) -> dict[tuple[str, int], dict[str, Any]]:
    """Fold the events of some projects, each at once."""
    return merged([events])


def merged(
    parts: Sequence[Iterable[tuple[str, int, Event]]], merge: Callable[..., list[dict[str, Any]]] = folded
) -> dict[tuple[str, int], dict[str, Any]]:
    """Fold the events of some projects in parts, and merge the parts of each project: at once, or as `settled` does."""
    given: dict[str, list[Given]] = {}
    for part in parts:
        by_project: dict[str, list[tuple[int, Event]]] = {}
        for project, seq, event in part:
            by_project.setdefault(project, []).append((seq, event))
        for project, events in by_project.items():
            given.setdefault(project, []).append(Given("event", records(project, events)))
    rows: dict[tuple[str, int], dict[str, Any]] = {}
    for project, some in given.items():
        rows |= keyed(merge(*some, project=project))
    return rows


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


def test_lives_of_a_story() -> None:
    found = fold(numbered("p", STORY))
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


def test_a_story_in_two_parts_is_the_same_story_in_either_order() -> None:
    """Every split of the story has messages of its own, in one project: to fold takes long, for however many."""
    cuts = range(1, len(STORY))
    events = numbered("p", [event for story in range(len(cuts)) for event in shifted(story * len(STORY))])
    early = [event for event in events if (event[1] - 1) % len(STORY) < cuts[(event[1] - 1) // len(STORY)]]
    late = [event for event in events if event not in early]
    assert (len(early), len(early) + len(late)) == (sum(cuts), len(cuts) * len(STORY))
    wanted = lives("p", [event for _, _, event in events])
    assert len(wanted) == 4 * len(cuts)
    same(merged([early, late]), wanted)
    same(merged([late, early]), wanted)


def shifted(by: int) -> list[Event]:
    """Return the story as it is if other events come before it."""
    return [
        msgspec.structs.replace(event, message=event.message + by) if hasattr(event, "message") else event
        for event in STORY
    ]


def test_a_redrive_that_is_read_before_the_acceptance_undoes_the_boost() -> None:
    """The row of the first batch has no level yet: the priority granted is in the second."""
    boosted = ev.MessageBoosted(START + S, 1, 1, 2, False, "aging", 30.0, S, 1)
    redriven = ev.DeadLetterRedriven(START + 3 * S, 1, "boss", START + 60 * S, RecipientState.OFFLINE)
    died = ev.MessageDied(START + 2 * S, 1, "rejected", "E_VALIDATION_004", 1, "bob rejected m1")
    story: list[Event] = [accepted(START, "m1"), boosted, died, redriven]
    rows = records("p", enumerate(story, 1))
    (unaccepted,) = settled(Given("event", rows[3:]))
    assert unaccepted["level"] is None
    (found,) = settled(Given("event", rows[3:]), Given("event", rows[:3]))
    assert (found["priority"], found["level"], found["boosts"]) == (1, 1, 0)
    again = ev.MessageBoosted(START + 4 * S, 1, 1, 3, False, "aging", 30.0, S, 1)
    later = records("p", enumerate([*story, again], 1))
    (found,) = settled(Given("event", later[3:]), Given("event", later[:3]))
    assert (found["priority"], found["level"], found["boosts"]) == (1, 3, 1)


def test_every_transition_leads_to_one_state() -> None:
    after: dict[type, State] = {}
    for row in TRANSITIONS:
        assert after.setdefault(row.event, row.after) is row.after
    assert {step for step, kind in STEPS.items() if kind in after} >= {"offered", "delivered", "died", "redriven"}


def test_simulated_traffic_against_a_plain_fold() -> None:
    """Every seed is a separate project, folded at once, in three random parts, and in these as three batches."""
    histories = {f"seed-{seed}": simulated(seed, scaled(400, 3000)) for seed in range(1, scaled(4, 15))}
    everything = [event for name, (events, _) in histories.items() for event in numbered(name, events)]
    wanted = {key: life for name, (events, _) in histories.items() for key, life in lives(name, events).items()}
    whole = fold(everything)
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
    same(merged(parts), wanted)
    same(merged(parts, settled), wanted)


def check_against_exchange(row: dict[str, Any], message: Message) -> None:
    """Compare a row with the exchange's state."""
    said = (row["attempts"], row["level"], row["offers"], row["boosts"], row["expires_at"])
    assert said == (message.attempts, message.own_level, message.offers, message.boosts, stamp(message.expires_at))
    for name in ("delivered_at", "acked_at", "processed_at", "expired_at", "recalled_at", "dead_at"):
        at = getattr(message, name)
        assert row[name] == (stamp(at) if at else None), name
