"""Gold tables of events by day of the event."""

from tests.pipeline.rows import DAY, Row, S, T, events, made
from tocsin.core import events as ev

HERE: Row = {"project": "p", "date": DAY}


def test_recalls_are_counted_per_minute_and_outcome() -> None:
    happened = [
        ev.MessageRecalled(T, 1, "ann"),
        ev.MessageRecalled(T + 59 * S, 2, "ann"),
        ev.RecallRefused(T + 1, "m3", "ann", "already_delivered"),
        ev.RecallRefused(T + 60 * S, "m3", "ann", "already_delivered"),
        ev.RecallRefused(T + 60 * S, "m4", "ann", "not_found"),
        ev.MessageReady(T, 9),
    ]
    assert made("recall", events(*happened)) == [
        {**HERE, "minute": T, "outcome": "already_delivered", "recalls": 1},
        {**HERE, "minute": T, "outcome": "recalled", "recalls": 2},
        {**HERE, "minute": T + 60 * S, "outcome": "already_delivered", "recalls": 1},
        {**HERE, "minute": T + 60 * S, "outcome": "not_found", "recalls": 1},
    ]


def test_refusals_are_counted_by_code_and_left_out_copies_too() -> None:
    slow = ("E_ADMISSION_003", "used up")
    happened = [
        ev.SendRefused(T, "m1", "ann", "bob", "Question", 2, *slow, retry_after_s=0.25),
        ev.SendRefused(T + 1, "m2", "ann", "bob", "Question", 1, *slow, retry_after_s=1.5),
        ev.SendRefused(T + 2, "m3", "ann", "zoe", "Question", 3, "E_ROUTING_001", "who?"),
        ev.BroadcastAccepted(
            T + 3, "b", "ann", "Question", "*", 1, ("bob=E_ADMISSION_005", "cem=E_ADMISSION_005"), b"", b""
        ),
        ev.BroadcastAccepted(T + 4, "c", "ann", "Question", "*", 1, (), b"", b""),
    ]
    key = {**HERE, "minute": T, "sender": "ann", "message_type": "Question"}
    assert made("refusal", events(*happened)) == [
        {
            **key,
            "code": "E_ADMISSION_003",
            "scope": "send",
            "refusals": 2,
            "rate_limited": 2,
            "high": 1,
            "retry_after_max_us": 1_500_000,
        },
        {
            **key,
            "code": "E_ADMISSION_005",
            "scope": "copy",
            "refusals": 2,
            "rate_limited": 0,
            "high": 0,
            "retry_after_max_us": None,
        },
        {
            **key,
            "code": "E_ROUTING_001",
            "scope": "send",
            "refusals": 1,
            "rate_limited": 0,
            "high": 1,
            "retry_after_max_us": None,
        },
    ]


def test_boosts_are_counted_per_step() -> None:
    happened = [
        ev.MessageBoosted(T, 1, 0, 1, False, "aging", 60, 60 * S, 1),
        ev.MessageBoosted(T + S, 2, 0, 1, False, "aging", 60, 61 * S, 1),
        ev.MessageBoosted(T + S, 3, 3, 3, True, "aging", 60, 240 * S, 4),
        ev.MessageBoosted(T + 60 * S, 1, 1, 2, False, "aging", 60, 120 * S, 2),
    ]
    step = {**HERE, "minute": T, "rule": "aging"}
    assert made("boost", events(*happened)) == [
        {**step, "old_level": 0, "new_level": 1, "boosts": 2, "overdue": 0, "age_max_us": 61 * S},
        {**step, "old_level": 3, "new_level": 3, "boosts": 1, "overdue": 1, "age_max_us": 240 * S},
        {**step, "minute": T + 60 * S, "old_level": 1, "new_level": 2, "boosts": 1, "overdue": 0,
         "age_max_us": 120 * S},
    ]  # fmt: skip


def test_changes_of_the_decay_rate_are_listed() -> None:
    happened = [
        ev.DecayRateChanged(T, 0.0, 0.05, 31.25, 20, 30.0, "latency_high"),
        ev.DecayRateChanged(T + 90 * S, 0.05, 0.0, 0.0, 0, 10.0, "idle"),
    ]
    assert made("decay_rate", events(*happened)) == [
        {
            **HERE,
            "seq": 1,
            "changed_at": T,
            "old_rate": 0.0,
            "new_rate": 0.05,
            "average_us": 31_250_000,
            "samples": 20,
            "threshold_us": 30 * S,
            "rule": "latency_high",
        },
        {
            **HERE,
            "seq": 2,
            "changed_at": T + 90 * S,
            "old_rate": 0.05,
            "new_rate": 0.0,
            "average_us": 0,
            "samples": 0,
            "threshold_us": 10 * S,
            "rule": "idle",
        },
    ]


def test_frames_are_counted_per_priority_and_compared() -> None:
    happened = events(
        ev.FramesShed(T, "critical", T - 5 * S, 100, 100, 1, 0),
        ev.FramesShed(T, "best_effort", T - 5 * S, 100, 200, 149, 140),
        ev.FramesShed(T + 5 * S, "best_effort", T, 50, 100, 50, 50),
        ev.FramesShed(T + 60 * S, "high", T + 55 * S, 10, 10, 5, 0),
        ev.FramesShed(T + 60 * S, "normal", T + 55 * S, 10, 10, 0, 0),
        ev.FramesShed(T + 120 * S, "normal", T + 115 * S, 10, 10, 0, 0),
    )

    def drops(minute: int, priority: str, *counts: int) -> Row:
        named = dict(zip(("reports", "published", "offered", "dropped", "shed"), counts, strict=True))
        share = named["dropped"] / named["offered"]
        return {**HERE, "minute": T + minute * 60 * S, "subscriber_priority": priority, **named, "drop_share": share}

    assert made("frame_drop", happened) == [
        drops(0, "best_effort", 2, 150, 300, 199, 190),
        drops(0, "critical", 1, 100, 100, 1, 0),
        drops(1, "high", 1, 10, 10, 5, 0),
        drops(1, "normal", 1, 10, 10, 0, 0),
        drops(2, "normal", 1, 10, 10, 0, 0),
    ]
    shares: Row = dict.fromkeys(f"{name}_drop_share" for name in ("critical", "high", "normal", "best_effort"))
    assert made("load_shedding", happened) == [
        {
            **HERE,
            "minute": T,
            "offered": 400,
            "dropped": 200,
            "shed": 190,
            "drop_share": 0.5,
            **shares,
            "critical_drop_share": 0.01,
            "best_effort_drop_share": 199 / 300,
            "effectiveness": 0.98,
            "in_order": True,
        },
        {
            **HERE,
            "minute": T + 60 * S,
            "offered": 20,
            "dropped": 5,
            "shed": 0,
            "drop_share": 0.25,
            **shares,
            "high_drop_share": 0.5,
            "normal_drop_share": 0.0,
            "effectiveness": -1.0,
            "in_order": False,
        },
        {
            **HERE,
            "minute": T + 120 * S,
            "offered": 10,
            "dropped": 0,
            "shed": 0,
            "drop_share": 0.0,
            **shares,
            "normal_drop_share": 0.0,
            "effectiveness": None,
            "in_order": True,
        },
    ]
