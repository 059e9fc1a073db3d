"""Gold tables for advice."""

from tests.pipeline.rows import DAY, Given, Row, S, T, life, lives, made, opened
from tests.pipeline.views.latencies import spread
from tocsin.pipeline.engine.duck import rows_of
from tocsin.pipeline.facts.histogram import combined

HERE: Row = {"project": "p", "date": DAY}


def test_a_ttl_is_seen_beside_what_was_needed_of_it() -> None:
    expired = {"state": "expired", "reason": "ttl"}
    message_life = lives(
        life(1, T, expires_at=T + 60 * S, first_waited_us=5, offers=1),
        life(2, T, expires_at=T + 60 * S, **expired),
        life(3, T, expires_at=T + 60 * S, state="expired", reason="stale"),
        life(4, T, expires_at=T + 60 * S),
        life(5, T, expires_at=T + 90 * S, first_waited_us=7, redrives=1),
        life(6, T, expires_at=T + 90 * S, first_waited_us=9, offers=1),
    )
    key = {**HERE, "message_type": "StatusUpdate"}
    assert made("ttl_use", message_life) == [
        {**key, "ttl_us": 60 * S, "messages": 4, "expired": 1, "stale": 1, "waiting": 1, **spread(5)},
        {**key, "ttl_us": 90 * S, "messages": 1, "expired": 0, "stale": 0, "waiting": 0, **spread(9)},
    ]


def test_what_expired_is_held_against_the_next_pickup() -> None:
    minute = 60 * S
    expired = {"state": "expired", "reason": "ttl", "expires_at": T + minute}
    message_life = lives(
        # It expired in minute 1, and bob took something in minute 3: two minutes late.
        life(1, T, expired_at=T + minute + 5 * S, **expired),
        life(2, T, expired_at=T + minute + 9 * S, **expired),
        life(3, T, first_offered_at=T + 3 * minute + 30 * S),
        life(4, T, first_offered_at=T + 7 * minute),
        # In the same minute: not late at all.
        life(5, T, expired_at=T + 7 * minute + 30 * S, **expired),
        # Nobody came.
        life(6, T, recipient="cem", expired_at=T + minute, **expired),
        # It had been seen, so it is no loss.
        life(7, T, expired_at=T + minute, offers=1, first_offered_at=T, **expired),
    )
    here = {**HERE, "recipient": "bob"}
    offered = {"message_type": None, "ttl_us": None, "offered": 1, "expired": 0}
    lost = {"message_type": "StatusUpdate", "ttl_us": minute, "offered": 0, "expired": 1}
    taken = made("pickup", message_life)
    assert taken == [
        {**here, "minute": T, **offered},
        {**here, "minute": T + minute, **lost, "expired": 2},
        {**here, "minute": T + 3 * minute, **offered},
        {**here, "minute": T + 7 * minute, **offered},
        {**here, "minute": T + 7 * minute, **lost},
        {**here, "recipient": "cem", "minute": T + minute, **lost},
    ]
    assert made("late_pickup", Given("pickup", taken)) == [
        {
            "project": "p",
            "message_type": "StatusUpdate",
            "ttl_us": minute,
            "expired": 4,
            **spread(2 * minute, 2 * minute, 0),
        }
    ]


def test_levels_are_seen_beside_reactions() -> None:
    message_life = lives(
        life(
            1, T, requested=2, priority=2, rule="contract_default", delivered_at=T, acked_at=T + 9, processed_at=T + 20
        ),
        life(2, T, requested=2, priority=0, delivered_at=T, processed_at=T + 30),
        life(3, T, requested=2, priority=2, delivered_at=T),
        life(4, T, requested=0, rule="confirmation"),
    )
    key = {**HERE, "message_type": "StatusUpdate"}
    assert made("level_use", message_life) == [
        {**key, "requested": 2, "messages": 3, "by_default": 1, "lowered": 1, **spread(9, 30)}
    ]


def test_a_recipient_that_listened_and_was_waited_for_is_seen() -> None:
    message_life = lives(
        life(1, T, first_waited_us=0),
        life(2, T, first_waited_us=70),
        life(3, T),
        life(4, T, publish_path="queued_offline", first_waited_us=99),
    )
    load = made("recipient_load", message_life)
    assert load == [{**HERE, "recipient": "bob", "messages": 3, "held_back": 1, **spread(0, 70)}]
    with opened(Given("recipient_load", load + load), only=[]) as tables:
        whole = rows_of(tables, combined("recipient_load", ["project"], messages="sum(messages)::BIGINT"))
    assert whole == [{"project": "p", "messages": 6, **spread(0, 70, 0, 70)}]
