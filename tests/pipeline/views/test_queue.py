"""Queue depths per level."""

import random

from tests.pipeline.rows import DAY, Given, Row, S, T, events, folded, life, lives, made, records, settled
from tests.pipeline.traffic import simulated
from tocsin.core import events as ev
from tocsin.core.messages.model import PublishPath, RecipientState
from tocsin.core.protocol.contracts import DeliveryClass

HERE: Row = {"project": "p", "date": DAY}


def accepted(at: int, priority: int, held: str = "") -> ev.MessageAccepted:
    return ev.MessageAccepted(
        at, "m", "ann", "bob", "Question", priority, priority, "as_requested", 5, 0.0, DeliveryClass.ASYNC, False,
        at + 3600 * S, at, "1.1.0", None, False, None, b"", b"", RecipientState.AVAILABLE, PublishPath.PUSHED, None,
        None, None, None, held,
    )  # fmt: skip


def test_messages_that_go_in_once_need_no_events() -> None:
    message_life = lives(
        life(1, T, first_offered_at=T + 2 * S, state="offered"),
        life(2, T, first_offered_at=T + 70 * S, state="delivered"),
        life(3, T + S, state="expired", expired_at=T + 5 * S),
        life(4, T + S, state="recalled", recalled_at=T + 5 * S),
        life(5, T + S, state="dead", dead_at=T + 5 * S),
        life(6, T, priority=3),
        life(7, T + 30 * S, first_offered_at=T + 30 * S, state="delivered"),
    )
    assert made("queue_flow", message_life) == [
        {**HERE, "minute": T, "level": 1, "entered": 6, "left": 5, "peak": 5},
        {**HERE, "minute": T, "level": 3, "entered": 1, "left": 0, "peak": 1},
        {**HERE, "minute": T + 60 * S, "level": 1, "entered": 0, "left": 1, "peak": 0},
    ]


def test_a_message_that_comes_back_or_rises_is_followed() -> None:
    minute = 60 * S
    happened = [
        accepted(T, 0),
        ev.MessageBoosted(T + minute, 1, 0, 1, False, "aging", 60, minute, 1),
        ev.MessageOffered(T + 2 * minute, 1, "s", 1, 1, 2 * minute, False),
        ev.MessageRequeued(T + 3 * minute, 1, "session_ended", 0, 3, T + 3 * minute, 0),
        ev.MessageOffered(T + 4 * minute, 1, "s", 2, 1, 4 * minute, False),
        # Backing off: it waits for its time, not in the mailbox; rising meanwhile moves nothing there.
        ev.MessageRequeued(T + 5 * minute, 1, "receipt_timeout", 1, 3, T + 7 * minute, 30),
        ev.MessageBoosted(T + 6 * minute, 1, 1, 2, False, "aging", 60, 6 * minute, 2),
        ev.MessageReady(T + 7 * minute, 1),
        # Rising inside its level to the front of it moves nothing either.
        ev.MessageBoosted(T + 8 * minute, 1, 2, 2, True, "aging", 60, 8 * minute, 4),
        ev.MessageDied(T + 9 * minute, 1, "recipient_gone", "E_ROUTING_001", 1, "gone"),
        # Redriven, it begins again at what it was granted.
        ev.DeadLetterRedriven(T + 10 * minute, 1, "boss", T + 99 * minute, RecipientState.OFFLINE),
        ev.MessageExpired(T + 11 * minute, 1, "ttl", T + 11 * minute, 5.0, 1.0),
    ]
    found = made("queue_flow", lives(*folded(events(*happened))))

    def change(number: int, level: int, entered: int, left: int) -> Row:
        place = {**HERE, "minute": T + number * minute, "level": level}
        return {**place, "entered": entered, "left": left, "peak": entered}

    assert found == [
        change(0, 0, 1, 0),
        change(1, 0, 0, 1),
        change(1, 1, 1, 0),
        change(2, 1, 0, 1),
        change(3, 1, 1, 0),
        change(4, 1, 0, 1),
        change(7, 2, 1, 0),
        change(9, 2, 0, 1),
        change(10, 0, 1, 0),
        change(11, 0, 0, 1),
    ]


def test_a_message_that_an_escalation_raised_is_followed() -> None:
    minute = 60 * S
    happened = [
        accepted(T, 1),
        # It counts as no boost of waiting, and `new_level` has what it is lent.
        ev.MessageBoosted(T + minute, 1, 1, 4, False, "escalation", 60, minute, 0, 3),
        ev.MessageOffered(T + 2 * minute, 1, "s", 1, 4, 2 * minute, False),
    ]
    assert made("queue_flow", lives(*folded(events(*happened)))) == [
        {**HERE, "minute": T, "level": 1, "entered": 1, "left": 0, "peak": 1},
        {**HERE, "minute": T + minute, "level": 1, "entered": 0, "left": 1, "peak": 0},
        {**HERE, "minute": T + minute, "level": 3, "entered": 1, "left": 0, "peak": 1},
        {**HERE, "minute": T + 2 * minute, "level": 3, "entered": 0, "left": 1, "peak": 0},
    ]


def test_flows_add_up_to_depths() -> None:
    minute = 60 * S
    flows = [
        {**HERE, "minute": T, "level": 1, "entered": 5, "left": 2, "peak": 4},
        {**HERE, "minute": T + 3 * minute, "level": 1, "entered": 1, "left": 2, "peak": 0},
        {**HERE, "minute": T + 4 * minute, "level": 1, "entered": 1, "left": 3, "peak": 1},
        {**HERE, "minute": T + minute, "level": 3, "entered": 1, "left": 0, "peak": 1},
    ]
    assert made("queue_depth", Given("queue_flow", flows)) == [
        {**HERE, "minute": T, "level": 1, "depth_start": 0, "depth_max": 4, "depth_end": 3},
        {**HERE, "minute": T + minute, "level": 3, "depth_start": 0, "depth_max": 1, "depth_end": 1},
        {**HERE, "minute": T + 3 * minute, "level": 1, "depth_start": 3, "depth_max": 3, "depth_end": 2},
        {**HERE, "minute": T + 4 * minute, "level": 1, "depth_start": 2, "depth_max": 3, "depth_end": 0},
    ]


def test_a_held_message_waits_in_no_mailbox() -> None:
    minute = 60 * S
    released = [accepted(T, 2, held="plan"), ev.MessageReleased(T + minute, 1, "a", "boss", T + 9 * minute, b"")]
    refused = [accepted(T, 2, held="plan"), ev.MessageExpired(T + minute, 3, "ttl", T + minute, 5.0, 1.0)]
    happened = [*released, *refused, ev.MessageOffered(T + 2 * minute, 1, "s", 1, 3, minute, False)]
    # It leaves at what it was granted, though it was lent more when it was offered.
    assert made("queue_flow", lives(*folded(events(*happened)))) == [
        {**HERE, "minute": T + minute, "level": 2, "entered": 1, "left": 0, "peak": 1},
        {**HERE, "minute": T + 2 * minute, "level": 2, "entered": 0, "left": 1, "peak": 0},
    ]


def test_flows_do_not_depend_on_the_order_in_which_events_come() -> None:
    """A history in three parts that interleave, each merged into the table before the next comes."""
    numbered = records("p", enumerate(simulated(11, 700)[0], 1))
    parts: list[list[Row]] = [[], [], []]
    chance = random.Random(5)
    for row in numbered:
        parts[chance.randrange(3)].append(row)
    wanted = made("queue_flow", lives(*folded(Given("event", numbered))))
    assert made("queue_flow", lives(*settled(*(Given("event", part) for part in parts)))) == wanted
