"""Gold tables of messages by day of acceptance."""

from tests.pipeline.rows import DAY, Given, Row, S, T, events, life, lives, made
from tests.pipeline.views.latencies import spread
from tocsin.core import events as ev

MS = 1_000
HERE: Row = {"project": "p", "date": DAY}


def policy(*changes: Row) -> Given:
    row = {
        "project": "p",
        "version": 1,
        "adopted_at": T - 100 * S,
        "aging_enabled": True,
        "aging_threshold_us": 60 * S,
        "aging_boost_levels": 1,
        "aging_top": 2,
        "gaming_messages_min": 5,
        "gaming_ratio": 0.5,
    }
    return Given("policy_span", [row | changed for changed in changes or ({},)])


def test_signal_state_counts_every_message_once_and_the_undeliverable_apart() -> None:
    offline = {"recipient_state": "not_available_offline", "publish_path": "queued_offline"}
    piggyback = {"publish_path": "buffered_for_piggyback"}
    message_life = lives(
        life(1, T, state="delivered"),
        life(2, T + 59 * S, state="processed"),
        life(3, T + 1, state="offered"),
        life(4, T, state="acknowledged", broadcast="b", **piggyback),
        life(5, T, state="delivered", **piggyback),
        life(6, T, state="queued", **offline),
        life(7, T, state="offered", recipient_state="not_available_stale", publish_path="queued_offline"),
        life(8, T, state="expired", **offline),
        life(9, T, state="recalled", **offline),
        life(10, T, state="dead", **offline),
        life(11, T, state="purged", **offline),
        life(12, T, state="delivered", **offline),
        life(14, T, state="held"),
        life(13, T + 60 * S, state="delivered", recipient_state=None, publish_path=None),
    )
    refused = [
        ev.SendRefused(T + 5, "x1", "ann", "nobody", "StatusUpdate", 1, "E_ROUTING_001", "who?"),
        ev.SendRefused(T + 6, "x2", "ann", "nobody", "StatusUpdate", 1, "E_ROUTING_001", "who?"),
        ev.SendRefused(T + 7, "x3", "ann", "bob", "StatusUpdate", 1, "E_ADMISSION_001", "slow down"),
    ]
    none = dict.fromkeys(
        ["accepted", "available_now", "drained", "pending_pickup", "waiting", "held", "expired", "recalled", "dead"], 0
    ) | {"undeliverable": 0}
    minute = {**HERE, "minute": T, "message_type": "StatusUpdate", "sender": "ann"}
    assert made("signal_state", message_life, events(*refused)) == [
        {
            **minute,
            "publish_path": "buffered_for_piggyback",
            **none,
            "accepted": 2,
            "available_now": 1,
            "drained": 1,
        },
        {**minute, "publish_path": "none", **none, "undeliverable": 2},
        {**minute, "publish_path": "pushed_to_ws", **none, "accepted": 4, "available_now": 2, "waiting": 1, "held": 1},
        {
            **minute,
            "publish_path": "queued_offline",
            **none,
            "accepted": 7,
            "drained": 1,
            "pending_pickup": 2,
            "expired": 1,
            "recalled": 1,
            "dead": 2,
        },
        {**minute, "minute": T + 60 * S, "publish_path": "unknown", **none, "accepted": 1, "drained": 1},
    ]


def test_time_to_drain_is_measured_per_type_and_path() -> None:
    message_life = lives(
        life(1, T, first_waited_us=70),
        life(2, T + 3599 * S, first_waited_us=90),
        life(3, T, first_waited_us=5 * S, publish_path="queued_offline"),
        life(4, T, publish_path="queued_offline"),
        life(5, T, message_type="Question", publish_path=None),
        life(6, T + 3600 * S, first_waited_us=0),
    )
    key = {**HERE, "hour": T, "message_type": "StatusUpdate"}
    assert made("time_to_drain", message_life) == [
        {**key, "message_type": "Question", "publish_path": "unknown", "messages": 1, **spread()},
        {**key, "publish_path": "pushed_to_ws", "messages": 2, **spread(70, 90)},
        {**key, "publish_path": "queued_offline", "messages": 2, **spread(5 * S)},
        {**key, "hour": T + 3600 * S, "publish_path": "pushed_to_ws", "messages": 1, **spread(0)},
    ]


def test_delivery_is_held_to_what_its_priority_is_promised() -> None:
    message_life = lives(
        life(1, T, priority=3, first_waited_us=10 * MS),
        life(2, T, priority=3, first_waited_us=10 * MS + 1),
        life(3, T + 60 * S, priority=3, first_waited_us=1),
        life(4, T, priority=2, first_waited_us=50 * MS),
        life(5, T, priority=2),
        life(6, T, priority=0, first_waited_us=9, publish_path=None),
    )
    key = {**HERE, "minute": T, "publish_path": "pushed_to_ws"}
    assert made("delivery_sla", message_life, policy()) == [
        {
            **HERE,
            "minute": T,
            "priority": 0,
            "publish_path": "unknown",
            "messages": 1,
            "target_us": 100 * MS,
            "within_target": 1,
            **spread(9),
        },
        {
            **HERE,
            "minute": T,
            "priority": 2,
            "publish_path": "pushed_to_ws",
            "messages": 2,
            "target_us": 50 * MS,
            "within_target": 1,
            **spread(50 * MS),
        },
        {
            **HERE,
            "minute": T,
            "priority": 3,
            "publish_path": "pushed_to_ws",
            "messages": 2,
            "target_us": 10 * MS,
            "within_target": 1,
            **spread(10 * MS, 10 * MS + 1),
        },
        {
            **key,
            "minute": T + 60 * S,
            "priority": 3,
            "publish_path": "pushed_to_ws",
            "messages": 1,
            "target_us": 10 * MS,
            "within_target": 1,
            **spread(1),
        },
    ]


def test_a_breach_counts_when_it_lasts_a_minute() -> None:
    late, fine = {"first_waited_us": 20 * MS, "priority": 3}, {"first_waited_us": MS, "priority": 3}
    sustained = [life(number, T + number * 10 * S, **late) for number in range(6)]
    sustained[3]["first_waited_us"] = 90 * MS
    interrupted = [life(10 + number, T + (600 + number * 10) * S, **late) for number in range(7)]
    interrupted[4] |= fine
    # Quiet is no proof of health: two late slots with less than a minute of silence between them are one breach.
    quiet = [life(30, T + 1200 * S, **late), life(31, T + 1265 * S, **late), life(32, T + 1330 * S, **late)]
    elsewhere = [life(40 + number, T + number * 10 * S, publish_path="queued_offline", **late) for number in range(7)]
    found = made("sla_breach", lives(*sustained, *interrupted, *quiet, *elsewhere), policy())
    limits = {"target_us": 10 * MS}
    assert found == [
        {
            **HERE,
            "priority": 3,
            "began_at": T,
            "ended_at": T + 60 * S,
            "lasted_us": 60 * S,
            "messages": 6,
            "late": 6,
            "worst_us": 90 * MS,
            **limits,
        },
        {
            **HERE,
            "priority": 3,
            "began_at": T + 1200 * S,
            "ended_at": T + 1270 * S,
            "lasted_us": 70 * S,
            "messages": 2,
            "late": 2,
            "worst_us": 20 * MS,
            **limits,
        },
    ]
    lenient = policy({"critical_delivery_us": 100 * MS})
    assert made("sla_breach", lives(*sustained), lenient) == []
    patient = policy({"critical_delivery_us": 10 * MS, "breach_sustained_us": 61 * S})
    assert made("sla_breach", lives(*sustained), patient) == []


def test_the_policy_in_force_says_what_delivery_is_promised() -> None:
    policies = policy(
        {"replaced_at": T + 10 * S, "critical_delivery_us": 2 * MS, "blocking_delivery_us": 3 * MS},
        {"version": 2, "adopted_at": T + 10 * S, "critical_delivery_us": 4 * MS, "blocking_delivery_us": 5 * MS},
    )
    waited = {"first_waited_us": 4 * MS}
    message_life = lives(
        *(life(1 + level, T, priority=level, **waited) for level in range(5)),
        life(6, T + 10 * S, priority=4, **waited),
    )
    found = made("delivery_sla", message_life, policies)
    assert [(row["priority"], row["target_us"], row["within_target"]) for row in found] == [
        (0, 100 * MS, 1), (1, 100 * MS, 1), (2, 3 * MS, 0), (3, 2 * MS, 0), (4, 2 * MS, 0), (4, 4 * MS, 1),
    ]  # fmt: skip


def test_waits_are_held_against_the_bound_of_the_policy_in_force() -> None:
    policies = policy(
        {"version": 1, "adopted_at": T, "replaced_at": T + 10 * S},
        {"version": 2, "adopted_at": T + 10 * S, "aging_threshold_us": S, "aging_boost_levels": 2, "aging_top": 3},
    )
    message_life = lives(
        life(1, T, priority=0, first_waited_us=180 * S, boosts=3),
        life(2, T, priority=0, first_waited_us=180 * S + 1, boosts=3),
        life(3, T, priority=0, state="expired", expired_at=T + 300 * S, recipient_state="not_available_offline"),
        life(4, T, priority=0),
        life(5, T + 10 * S, priority=0, first_waited_us=3 * S),
        life(6, T + 10 * S, priority=3, first_waited_us=2 * S),
        life(7, T + 10 * S, priority=4, first_waited_us=2 * S),
        life(8, T - S, priority=1, first_waited_us=5),
        life(9, T, priority=3, first_waited_us=300 * S),
    )
    none = {"boosted": 0, "boosts": 0, "waiting": 0, "over_bound": 0, "over_bound_available": 0}
    key = {**HERE, "hour": T}
    assert made("aging_wait", message_life, policies) == [
        {
            "project": "p",
            "date": DAY.replace(day=1),
            "hour": T - 3600 * S,
            "priority": 1,
            "bound_us": None,
            "messages": 1,
            **none,
            **spread(5),
        },
        {
            **key,
            "priority": 0,
            "bound_us": 3 * S,
            "messages": 1,
            **none,
            **spread(3 * S),
        },
        {
            **key,
            "priority": 0,
            "bound_us": 180 * S,
            "messages": 4,
            "boosted": 2,
            "boosts": 6,
            "waiting": 1,
            "over_bound": 2,
            "over_bound_available": 1,
            **spread(180 * S, 180 * S + 1, 300 * S),
        },
        {
            **key,
            "priority": 3,
            "bound_us": S,
            "messages": 1,
            **none,
            "over_bound": 1,
            "over_bound_available": 1,
            **spread(2 * S),
        },
        {
            **key,
            "priority": 3,
            "bound_us": None,
            "messages": 1,
            **none,
            **spread(300 * S),
        },
        {
            **key,
            "priority": 4,
            "bound_us": None,
            "messages": 1,
            **none,
            **spread(2 * S),
        },
    ]


def test_the_mix_of_an_agent_is_seen_in_sliding_windows() -> None:
    sent = [life(number, T + number * S, requested=number % 2 * 2) for number in range(4)]
    sent += [life(10, T + 10 * S, requested=3, rule="gaming", priority=0)]
    sent += [life(11, T + 11 * S, requested=2, rule="confirmation")]
    sent += [life(20 + number, T + 5 * S, sender="tocsin", requested=2) for number in range(9)]
    sent += [life(12 + number, T + 30 * S, sender="cem", requested=2) for number in range(4)]
    found = made("priority_mix", lives(*sent), policy())
    counts = {
        "messages": 5,
        "asked_info": 2,
        "asked_coordinate": 0,
        "asked_blocking": 2,
        "asked_critical": 1,
        "asked_director_override": 0,
        "high": 3,
        "lowered": 1,
        "high_share": 0.6,
        "threshold": 0.5,
        "over": True,
    }
    # The five are in one window when it begins at most 50 s before the last and not after the first of them.
    starts = [T - 40 * S, T - 30 * S, T - 20 * S, T - 10 * S, T]
    assert found == [{**HERE, "window_start": start, "agent": "ann", **counts} for start in starts]
    half = made("priority_mix", lives(*sent), policy({"gaming_messages_min": 4, "gaming_ratio": 0.6}))
    assert {row["over"] for row in half if row["agent"] == "ann"} == {False}
    assert [row["messages"] for row in half if row["agent"] == "cem"] == [4] * 6


def test_what_had_to_be_tried_again_is_counted_per_type_and_recipient() -> None:
    message_life = lives(
        life(1, T, offers=1, state="delivered"),
        life(2, T, offers=3, requeues=2, rejections=1, attempts=2, state="dead", dead_at=T + 9, reason="rejected",
             code="E_TASK_001"),
        life(3, T, offers=4, requeues=1, redrives=2, state="purged", dead_at=T + 8, purged_at=T + 99, attempts=1,
             reason="rejected", code="E_TASK_001"),
        life(4, T, recipient="cem", state="dead", dead_at=T + 7, reason="recipient_gone", code="E_ROUTING_001"),
    )  # fmt: skip
    key = {**HERE, "hour": T, "message_type": "StatusUpdate"}
    assert made("retry", message_life) == [
        {
            **key,
            "recipient": "bob",
            "messages": 3,
            "offered": 3,
            "offers": 8,
            "requeued": 2,
            "requeues": 3,
            "rejections": 1,
            "redriven": 1,
            "redrives": 2,
            "dead": 2,
            "purged": 1,
        },
        {
            **key,
            "recipient": "cem",
            "messages": 1,
            "offered": 0,
            "offers": 0,
            "requeued": 0,
            "requeues": 0,
            "rejections": 0,
            "redriven": 0,
            "redrives": 0,
            "dead": 1,
            "purged": 0,
        },
    ]
    dead = {**HERE, "message_type": "StatusUpdate"}
    assert made("dead_letter", message_life) == [
        {
            **dead,
            "recipient": "bob",
            "reason": "rejected",
            "code": "E_TASK_001",
            "letters": 2,
            "purged": 1,
            "attempts": 3,
            "oldest_at": T + 8,
            "newest_at": T + 9,
        },
        {
            **dead,
            "recipient": "cem",
            "reason": "recipient_gone",
            "code": "E_ROUTING_001",
            "letters": 1,
            "purged": 0,
            "attempts": 0,
            "oldest_at": T + 7,
            "newest_at": T + 7,
        },
    ]


def test_processing_is_measured_to_the_confirmation_that_the_contract_asks_for() -> None:
    message_life = lives(
        life(1, T, offered_at=T + 1, delivered_at=T + 60, ack_latency_us=500, state="acknowledged"),
        life(2, T, ack_required=True, offered_at=T, delivered_at=T + 9, ack_latency_us=700, state="acknowledged"),
        life(3, T, ack_required=True, offered_at=T, delivered_at=T + 9, state="delivered"),
        life(4, T, decay_rate=0.1, state="expired", reason="stale"),
        life(5, T, decay_rate=0.25, state="expired", reason="ttl"),
        life(6, T + 60 * S, offered_at=None, delivered_at=T + 61 * S, state="delivered"),
    )
    key = {**HERE, "message_type": "StatusUpdate"}
    assert made("processing_latency", message_life) == [
        {
            **HERE,
            "minute": T,
            "message_type": "StatusUpdate",
            "messages": 5,
            "decaying": 2,
            "decay_rate_sum_ppm": 350_000,
            "stale": 1,
            **spread(59, 700),
        },
        {
            **HERE,
            "minute": T + 60 * S,
            "message_type": key["message_type"],
            "messages": 1,
            "decaying": 0,
            "decay_rate_sum_ppm": 0,
            "stale": 0,
            **spread(),
        },
    ]


def test_traffic_says_who_talks_to_whom() -> None:
    message_life = lives(
        life(1, T, state="delivered"),
        life(2, T, requested=3, priority=0, state="expired", broadcast="b"),
        life(3, T, sender="bob", recipient="ann", priority=4, state="processed"),
    )
    levels = dict.fromkeys(["info", "coordinate", "blocking", "critical", "director_override"], 0)
    key = {**HERE, "hour": T}
    assert made("traffic", message_life) == [
        {
            **key,
            "sender": "ann",
            "recipient": "bob",
            "message_type": "StatusUpdate",
            "messages": 2,
            **levels,
            "info": 1,
            "coordinate": 1,
            "broadcast_copies": 1,
            "lowered": 1,
            "delivered": 1,
            "unread": 1,
        },
        {
            **key,
            "sender": "bob",
            "recipient": "ann",
            "message_type": "StatusUpdate",
            "messages": 1,
            **levels,
            "director_override": 1,
            "broadcast_copies": 0,
            "lowered": 0,
            "delivered": 1,
            "unread": 0,
        },
    ]
