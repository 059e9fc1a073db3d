"""Advice rules: each fires on its figures and on no similar ones, and each patch is a valid policy."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.pipeline.rows import S
from tests.pipeline.views.latencies import spread
from tocsin.core.policy import Policy
from tocsin.lab.figures.measures import METRICS
from tocsin.pipeline.advice import RULES, Advice, Figures, Thresholds, advise
from tocsin.policies import default_policy, parse_policy

POLICY = default_policy()
HOUR = 3600 * S


def ttl(messages: int, expired: int, *waits: int, ttl_us: int = HOUR, **known: int) -> dict[str, Any]:
    row = {"message_type": "Question", "ttl_us": ttl_us, "messages": messages, "expired": expired, "stale": 0}
    return {**row, "waiting": 0, **spread(*waits), **known}


def late(expired: int, *times: int) -> dict[str, Any]:
    return {"message_type": "Question", "ttl_us": HOUR, "expired": expired, **spread(*times)}


def wait(priority: int, messages: int, boosted: int, over_available: int, *waits: int) -> dict[str, Any]:
    counts = {"messages": messages, "boosted": boosted, "boosts": boosted, "over_bound": over_available}
    bound = {"over_bound_available": over_available, "bound_us": (4 - priority) * 60 * S}
    return {"priority": priority, **counts, **bound, **spread(*waits)}


def load(recipient: str, messages: int, held_back: int, *waits: int) -> dict[str, Any]:
    return {"recipient": recipient, "messages": messages, "held_back": held_back, **spread(*waits)}


def refused(code: str, refusals: int, senders: int) -> dict[str, Any]:
    return {"code": code, "refusals": refusals, "senders": senders}


def mix(agent: str, windows: int, over: int, messages: int, high: int) -> dict[str, Any]:
    return {"agent": agent, "windows": windows, "over": over, "messages": messages, "high": high}


def level(kind: str, requested: int, messages: int, *reactions: int) -> dict[str, Any]:
    row = {"message_type": kind, "requested": requested, "messages": messages, "by_default": 0, "lowered": 0}
    return {**row, **spread(*reactions)}


def retry(kind: str, messages: int, requeued: int, dead: int) -> dict[str, Any]:
    return {"message_type": kind, "messages": messages, "requeued": requeued, "requeues": requeued, "dead": dead}


def processing(kind: str, messages: int, decaying: int, stale: int, *latencies: int) -> dict[str, Any]:
    row = {"message_type": kind, "messages": messages, "decaying": decaying, "stale": stale}
    return {**row, "decay_rate_sum_ppm": decaying * 100_000, **spread(*latencies)}


def rates(changes: int, reversals: int, highest: float, span_us: int) -> dict[str, Any]:
    return {"changes": changes, "reversals": reversals, "highest": highest, "span_us": span_us}


#: For each rule: figures on which it fires, its subject, the change, and figures of its evidence with their counts.
FIRES: dict[str, tuple[Figures, str, Callable[[Policy], object], object, list[tuple[str, float, int]]]] = {
    "ttl_too_short": (
        Figures(ttls=[ttl(100, 20)], late=[late(20, *[300 * S] * 15)]),
        "Question",
        lambda policy: policy.contracts["Question"].ttl_s,
        3600.0 + 300.0,
        [("ttl_use", 20, 100), ("late_pickup", 300 * S, 15)],
    ),
    "aging_threshold": (
        Figures(waits=[wait(0, 100, 30, 0, *[10 * S] * 70, *[250 * S] * 30)]),
        "Info",
        lambda policy: policy.aging.threshold_s,
        250.0,
        [("aging_wait", 30, 100), ("aging_wait", 250 * S, 100)],
    ),
    "bottleneck": (
        Figures(loads=[load("ann", 100, 60, *[2 * S] * 100), load("bob", 100, 0, *[S // 100] * 100)]),
        "ann",
        lambda policy: policy.delivery.window_default,
        64,
        [("recipient_load", 200 * S, 100), ("recipient_load", 60, 100)],
    ),
    "quota_too_tight": (
        Figures(refusals=[refused("E_ADMISSION_003", 50, 3)], accepted={"info": 900, "blocking": 100}),
        "blocking",
        lambda policy: policy.quotas.blocking.refill_per_s,
        1.5,
        [("refusal", 50, 3), ("traffic", 100, 100)],
    ),
    "gaming_rule": (
        Figures(mixes=[mix("ann", 9, 9, 100, 70), mix("bob", 9, 5, 100, 60), mix("cem", 2, 0, 10, 1)]),
        "gaming",
        lambda policy: policy.gaming.high_priority_ratio,
        0.65,
        [("priority_mix", 2, 3), ("priority_mix", 0.6, 20)],
    ),
    "level_of_type": (
        Figures(levels=[level("StatusUpdate", 2, 90), level("StatusUpdate", 0, 10)]),
        "StatusUpdate",
        lambda policy: policy.contracts["StatusUpdate"].priority,
        "Blocking",
        [("level_use", 90, 100)],
    ),
    "level_not_urgent": (
        Figures(levels=[level("Question", 2, 80, *[900 * S] * 80)]),
        "Question",
        lambda policy: policy.contracts["Question"].priority,
        "Coordinate",
        [("level_use", 900 * S, 80)],
    ),
    "ack_timeout_short": (
        Figures(
            retries=[retry("TASK_ASSIGNMENT", 100, 30, 2)],
            processing=[processing("TASK_ASSIGNMENT", 100, 0, 0, *[28 * S] * 98)],
        ),
        "TASK_ASSIGNMENT",
        lambda policy: policy.contracts["TASK_ASSIGNMENT"].timeout_s,
        60.0,
        [("retry", 30, 100), ("processing_latency", 28 * S, 98)],
    ),
    "decay_too_fast": (
        Figures(
            processing=[processing("StatusUpdate", 100, 80, 20, *[S] * 60)], rates=[rates(6, 0, 0.3, HOUR)]
        ),
        "queue_manager",
        lambda policy: policy.queue_manager.rate_max,
        0.15,
        [("processing_latency", 20, 80), ("decay_rate", 0.3, 6)],
    ),
    "decay_swings": (
        Figures(rates=[rates(41, 30, 0.1, HOUR)]),
        "queue_manager",
        lambda policy: policy.queue_manager.cooldown_s,
        60.0,
        [("decay_rate", 30, 41), ("decay_rate", 41, 41)],
    ),
}  # fmt: skip

#: For each rule: figures beside its case, each with why there is nothing to say.
SILENT: list[tuple[str, str, Figures]] = [
    ("ttl_too_short", "few expired", Figures(ttls=[ttl(100, 4)], late=[late(4, *[300 * S] * 4)])),
    ("ttl_too_short", "nobody came", Figures(ttls=[ttl(100, 20)], late=[late(20)])),
    ("ttl_too_short", "they came a day later", Figures(ttls=[ttl(100, 20)], late=[late(20, *[86400 * S] * 20)])),
    ("ttl_too_short", "too few to judge", Figures(ttls=[ttl(40, 20)], late=[late(20, *[300 * S] * 15)])),
    (
        "ttl_too_short",
        "the sender chose that TTL",
        Figures(ttls=[ttl(100, 20, ttl_us=60 * S)], late=[late(20, *[300 * S] * 15) | {"ttl_us": 60 * S}]),
    ),
    ("aging_threshold", "few are raised", Figures(waits=[wait(0, 100, 19, 0, *[250 * S] * 100)])),
    ("aging_threshold", "those who listen are served", Figures(waits=[wait(0, 100, 0, 0, *[300 * S] * 100)])),
    ("aging_threshold", "Critical has nowhere to rise", Figures(waits=[wait(3, 100, 90, 0, *[99 * S] * 100)])),
    ("bottleneck", "all are waited for alike", Figures(loads=[load(n, 99, 60, *[2 * S] * 99) for n in "abc"])),
    ("bottleneck", "short waits", Figures(loads=[load("a", 99, 60, *[S // 9] * 99), load("b", 9, 0, *[0] * 9)])),
    ("bottleneck", "there is but one", Figures(loads=[load("a", 100, 60, *[2 * S] * 100)])),
    (
        "quota_too_tight",
        "one sender alone",
        Figures(refusals=[refused("E_ADMISSION_003", 50, 1)], accepted={"blocking": 100}),
    ),
    (
        "quota_too_tight",
        "few refusals",
        Figures(refusals=[refused("E_ADMISSION_003", 5, 3)], accepted={"blocking": 100}),
    ),
    (
        "quota_too_tight",
        "another code",
        Figures(refusals=[refused("E_ROUTING_001", 50, 3)], accepted={"blocking": 100}),
    ),
    (
        "gaming_rule",
        "one of three",
        Figures(mixes=[mix("a", 9, 9, 99, 70), mix("b", 1, 0, 9, 1), mix("c", 1, 0, 9, 1)]),
    ),
    ("gaming_rule", "two agents are no team", Figures(mixes=[mix("a", 9, 9, 99, 70), mix("b", 9, 9, 99, 70)])),
    ("level_of_type", "senders differ", Figures(levels=[level("StatusUpdate", 2, 60), level("StatusUpdate", 0, 40)])),
    ("level_of_type", "as its default says", Figures(levels=[level("StatusUpdate", 0, 100)])),
    ("level_of_type", "an override is nobody's default", Figures(levels=[level("StatusUpdate", 4, 100)])),
    ("level_not_urgent", "quick reactions", Figures(levels=[level("Question", 2, 80, *[30 * S] * 80)])),
    ("level_not_urgent", "slow, but never urgent", Figures(levels=[level("StatusUpdate", 0, 80, *[900 * S] * 80)])),
    (
        "ack_timeout_short",
        "they died",
        Figures(
            retries=[retry("TASK_ASSIGNMENT", 100, 30, 20)],
            processing=[processing("TASK_ASSIGNMENT", 100, 0, 0, *[28 * S] * 80)],
        ),
    ),
    (
        "ack_timeout_short",
        "the ACKs are quick: something else is wrong",
        Figures(
            retries=[retry("TASK_ASSIGNMENT", 100, 30, 2)],
            processing=[processing("TASK_ASSIGNMENT", 100, 0, 0, *[S] * 98)],
        ),
    ),
    (
        "ack_timeout_short",
        "no ACK is awaited",
        Figures(
            retries=[retry("StatusUpdate", 100, 30, 2)],
            processing=[processing("StatusUpdate", 100, 0, 0, *[28 * S] * 98)],
        ),
    ),
    (
        "decay_too_fast",
        "recipients were slow: that is what decay is for",
        Figures(processing=[processing("StatusUpdate", 100, 80, 20, *[40 * S] * 60)], rates=[rates(6, 0, 0.3, HOUR)]),
    ),
    (
        "decay_too_fast",
        "the senders chose the rates",
        Figures(processing=[processing("StatusUpdate", 100, 80, 20, *[S] * 60)]),
    ),
    ("decay_swings", "it goes one way", Figures(rates=[rates(41, 2, 0.1, HOUR)])),
    ("decay_swings", "seldom", Figures(rates=[rates(5, 4, 0.1, HOUR)])),
]


def given(figures: Figures, rule: str, policy: Policy = POLICY) -> list[Advice]:
    function = next(function for function in RULES if function.__name__ == rule)
    return list(function(figures, policy, Thresholds()))


def test_every_rule_has_both() -> None:
    names = {rule.__name__ for rule in RULES}
    assert names == FIRES.keys() == {name for name, _, _ in SILENT}


@pytest.mark.parametrize("rule", FIRES)
def test_a_rule_fires_with_its_figures_and_a_change_that_the_policy_takes(rule: str) -> None:
    figures, subject, setting, value, evidence = FIRES[rule]
    (advice,) = given(figures, rule)
    assert (advice.rule, advice.subject) == (rule, subject)
    assert [(item.table, item.value, item.count) for item in advice.evidence] == evidence
    changed = parse_policy(advice.patch)
    assert setting(changed) == value
    assert setting(changed) != setting(POLICY)
    for item in evidence:
        assert item[2] > 0
    assert advice.goal.metric in METRICS
    assert advise(figures, POLICY) == [advice]


@pytest.mark.parametrize(("rule", "why", "figures"), SILENT, ids=[f"{rule}: {why}" for rule, why, _ in SILENT])
def test_a_rule_stays_silent_beside_its_case(rule: str, why: str, figures: Figures) -> None:
    assert given(figures, rule) == []


def test_a_change_that_was_followed_is_not_advised_again() -> None:
    for rule in ("aging_threshold", "level_of_type", "gaming_rule", "level_not_urgent"):
        figures = FIRES[rule][0]
        (advice,) = given(figures, rule)
        assert given(figures, rule, parse_policy(advice.patch)) == [], rule


def test_waiting_beyond_the_bound_asks_for_a_shorter_threshold() -> None:
    figures = Figures(waits=[wait(1, 100, 0, 5, *[10 * S] * 95, *[200 * S] * 5)])
    (advice,) = given(figures, "aging_threshold")
    assert parse_policy(advice.patch).aging.threshold_s == 30.0
    assert [(item.value, item.count) for item in advice.evidence] == [(5, 100), (200 * S, 100)]


def test_aging_that_is_off_is_left_alone() -> None:
    off = parse_policy("aging: {enabled: false}")
    assert given(FIRES["aging_threshold"][0], "aging_threshold", off) == []


def test_a_custom_type_gets_a_contract_of_its_own() -> None:
    row = ttl(100, 20) | {"message_type": "CUSTOM_NOTE"}
    figures = Figures(ttls=[row], late=[late(20, *[300 * S] * 15) | {"message_type": "CUSTOM_NOTE"}])
    (advice,) = given(figures, "ttl_too_short")
    assert parse_policy(advice.patch).contracts["CUSTOM_NOTE"].ttl_s == 3900.0


def test_one_place_is_changed_once() -> None:
    both = Figures(levels=[level("Question", 0, 90), level("Question", 2, 10, *[900 * S] * 60)])
    advice = advise(both, POLICY, Thresholds(messages_min=10))
    assert [piece.rule for piece in advice] == ["level_of_type"]


def test_nothing_is_said_of_nothing() -> None:
    assert advise(Figures(), POLICY) == []


def test_a_timeout_is_not_argued_from_latencies_that_it_cut_off() -> None:
    """Latencies beyond the timeout end in a retry and are never seen: the longest one seen says nothing of them."""
    near = Figures(
        retries=[retry("TASK_ASSIGNMENT", 100, 30, 2)],
        processing=[processing("TASK_ASSIGNMENT", 100, 0, 0, *[16 * S] * 90, *[29 * S] * 8)],
    )
    early = Figures(
        retries=[retry("TASK_ASSIGNMENT", 100, 30, 2)],
        processing=[processing("TASK_ASSIGNMENT", 100, 0, 0, *[16 * S] * 98)],
    )
    (one,), (other,) = given(near, "ack_timeout_short"), given(early, "ack_timeout_short")
    assert one.patch == other.patch
    assert "95 %" not in one.text


def test_a_long_ttl_that_did_no_harm_is_left_alone() -> None:
    calm = Figures(ttls=[ttl(60, 0, *[S] * 60, ttl_us=86400 * S) | {"message_type": "ReviewRequested"}])
    assert advise(calm, POLICY) == []
