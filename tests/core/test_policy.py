"""The policy: the documents' numbers as defaults, what a project changes, and documents that are refused."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.core.errors import Problem, TocsinError
from tocsin.core.policy import document_of, microseconds, policy_from
from tocsin.core.protocol.priority import Priority
from tocsin.policies import default_policy, parse_policy


def refused(text: str) -> TocsinError:
    with pytest.raises(TocsinError) as caught:
        parse_policy(text)
    assert caught.value.code == "E_POLICY_001"
    return caught.value


@pytest.mark.parametrize(
    ("role", "max_priority", "quota_multiplier"),
    [
        ("director", Priority.DIRECTOR_OVERRIDE, None),
        ("human", Priority.DIRECTOR_OVERRIDE, None),
        ("primary", Priority.CRITICAL, 1.0),
        ("clone", Priority.COORDINATE, 0.5),
    ],
)
def test_agent_privileges(role: str, max_priority: Priority, quota_multiplier: float | None) -> None:
    privileges = default_policy().roles[role]
    assert (privileges.cap, privileges.quota_multiplier) == (max_priority, quota_multiplier)


@pytest.mark.parametrize("role", ["director", "human"])
def test_a_human_may_do_all_that_a_director_may(role: str) -> None:
    assert default_policy().roles[role].directs


def test_what_one_project_changes_is_not_changed_for_the_next() -> None:
    before = document_of(parse_policy("aging: {threshold_s: 61}"))
    changed = parse_policy(
        "aging: {threshold_s: 5}\ncontracts: {CUSTOM_X: {ack: none}}\nframes: {report: {interval_s: 7}}"
    )
    assert document_of(changed) != before
    assert document_of(parse_policy("aging: {threshold_s: 61}")) == before


def test_quotas() -> None:
    quotas = default_policy().quotas
    assert (quotas.critical.cap, quotas.critical.refill_per_s) == (5.0, 0.1)
    assert (quotas.blocking.cap, quotas.blocking.refill_per_s) == (20.0, 1.0)


def test_gaming() -> None:
    gaming = default_policy().gaming
    assert (gaming.window_s, gaming.high_priority_ratio, gaming.messages_min) == (60, 0.5, 5)


def test_the_other_numbers_of_the_documents() -> None:
    policy = default_policy()
    assert policy.limits.message_bytes_max == 1_048_576
    assert policy.sessions.stale_after_s == 60
    assert policy.sweeper.interval_s == 60
    assert policy.aging.threshold_s == 60
    assert (policy.decay.interval_s, policy.decay.stale_threshold, policy.decay.sweep_interval_s) == (60, 1, 5)
    assert (policy.delivery.channel_retries_max, policy.delivery.channel_backoff_s) == (3, [1, 2, 4])


def test_an_empty_file_changes_nothing() -> None:
    assert parse_policy("") == default_policy()
    assert parse_policy("# only a comment\n") == default_policy()


def test_a_change_leaves_the_rest_alone() -> None:
    policy = parse_policy("aging: {threshold_s: 10}\nroles: {clone: {quota_multiplier: 0.25}}")
    assert (policy.aging.threshold_s, policy.aging.boost_levels) == (10, 1)
    assert (policy.roles["clone"].quota_multiplier, policy.roles["clone"].lowers) == (0.25, True)
    assert (
        msgspec.structs.replace(policy, aging=default_policy().aging, roles=default_policy().roles) == default_policy()
    )


def test_a_policy_survives_the_journal() -> None:
    policy = parse_policy("contracts: {CUSTOM_X: {payload: {required: {a: string, b: [x, y]}}}}")
    assert policy_from(msgspec.json.decode(msgspec.json.encode(document_of(policy)))) == policy


@pytest.mark.parametrize(
    ("text", "nearest"),
    [
        ("agin: {threshold_s: 10}", "aging"),
        ("aging: {treshold_s: 10}", "threshold_s"),
        ("limits: {message_byte_max: 10}", "message_bytes_max"),
        ("roles: {clone: {max_prioritie: Info}}", "max_priority"),
        ("contracts: {Blocker: {ttl: 10}}", "ttl_s"),
        ("contracts: {Blocker: {payload: {require: {}}}}", "required"),
    ],
)
def test_an_unknown_key_is_refused_with_the_nearest_known_one(text: str, nearest: str) -> None:
    assert f"did you mean '{nearest}'?" in refused(text).problem.detail


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("limits: {drain_max: 0}", "$.limits.drain_max"),
        ("limits: {drain_max: many}", "$.limits.drain_max"),
        ("limits: {drain_max: 1.5}", "$.limits.drain_max"),
        ("limits: null", "$.limits"),
        ("aging: {threshold_s: 0}", "$.aging.threshold_s"),
        ("aging: {threshold_s: -1}", "$.aging.threshold_s"),
        ("aging: {boost_levels: 4}", "$.aging.boost_levels"),
        ("aging: {enabled: 1}", "$.aging.enabled"),
        ("aging: {top: DirectorOverride}", "$.aging.top"),
        ("aging: {top: High}", "$.aging.top"),
        ("decay: {importance_default: 11}", "$.decay.importance_default"),
        ("gaming: {high_priority_ratio: 1.5}", "$.gaming.high_priority_ratio"),
        ("bucket: {cost: {Info: -1}}", "$.bucket.cost.Info"),
        ("bucket: {cost: {Urgent: 1}}", "$.bucket.cost"),
        (
            "roles: {intern: {max_priority: Info, lowers: true, quota_multiplier: 1, watched: true, directs: false}}",
            "$.roles",
        ),
        ("roles: {clone: {max_priority: Urgent}}", "$.roles.clone.max_priority"),
        ("delivery: {receipt_timeout_s: {pigeon: 3}}", "$.delivery.receipt_timeout_s"),
        ("delivery: {channel_backoff_s: []}", "$.delivery.channel_backoff_s"),
        ("sessions: {lapse_after_s: 30}", "$.sessions.lapse_after_s"),
        ("sessions: {heartbeat_record_s: 60}", "$.sessions.heartbeat_record_s"),
        ("queue_manager: {latency_low_s: 30}", "$.queue_manager.latency_low_s"),
        ("queue_manager: {rate_min: 0.6}", "$.queue_manager.rate_min"),
        ("queue_manager: {samples_min: 1001}", "$.queue_manager.samples_min"),
        ("gaming: {messages_min: 1001}", "$.gaming.messages_min"),
        ("retention: {acknowledged_s: 1}", "$.retention.acknowledged_s"),
        ("contracts: {Blocker: {priority: URGENT}}", "$.contracts.Blocker.priority"),
        ("contracts: {Blocker: {priority: DirectorOverride}}", "$.contracts.Blocker.priority"),
        ("contracts: {Blocker: {delivery_class: slow}}", "$.contracts.Blocker.delivery_class"),
        ("contracts: {Blocker: {ack: required}}", "$.contracts.Blocker.timeout_s"),
        ("contracts: {Blocker: {retries_max: 1}}", "$.contracts.Blocker.backoff_s"),
        ("contracts: {Blocker: {ttl_s: 2592001}}", "$.contracts.Blocker.ttl_s"),
        ("contracts: {Blocker: 7}", "$.contracts.Blocker"),
        ("contracts: {Blocker: {payload: {required: {a: text}}}}", "$.contracts.Blocker.payload.required.a"),
        ("contracts: {Blocker: {payload: {required: {a: []}}}}", "$.contracts.Blocker.payload.required.a"),
        ("contracts: {Blocker: {payload: {optional: {a b: string}}}}", "$.contracts.Blocker.payload.optional.a b"),
        (
            "contracts: {Blocker: {payload: {required: {a: string}, optional: {a: string}}}}",
            "$.contracts.Blocker.payload.optional.a",
        ),
        ("custom_contract: {priority: 7}", "$.custom_contract.priority"),
    ],
)
def test_a_wrong_value_is_refused_with_its_path(text: str, where: str) -> None:
    problem = refused(text).problem
    assert problem.field == where
    assert where in problem.detail


@pytest.mark.parametrize("text", ["aging: [", "- a list", "just text", "42"])
def test_what_is_no_mapping_is_no_policy(text: str) -> None:
    refused(text)


@pytest.mark.parametrize(
    ("seconds", "expected"), [(0.000001, 1), (1, 1_000_000), (0.1, 100_000), (2592000, 2592 * 10**9)]
)
def test_seconds_become_whole_microseconds(seconds: float, expected: int) -> None:
    assert microseconds(seconds) == expected


@pytest.mark.parametrize(
    ("priority", "levels", "boosts"),
    [(0, 1, 3), (1, 1, 2), (2, 1, 1), (0, 2, 2), (1, 2, 2), (0, 3, 2), (2, 3, 1)],
)
def test_the_bound_of_aging(priority: int, levels: int, boosts: int) -> None:
    aging = parse_policy(f"aging: {{boost_levels: {levels}}}").aging
    assert aging.boosts_to_front[priority] == boosts
    assert aging.bound_us(priority) == boosts * 60_000_000


def test_what_is_above_the_top_of_aging_does_not_age() -> None:
    aging = default_policy().aging
    assert (aging.bound_us(3), aging.bound_us(4)) == (None, None)
    raised = parse_policy("aging: {top: Critical}").aging
    assert (raised.bound_us(0), raised.bound_us(3), raised.bound_us(4)) == (240_000_000, 60_000_000, None)


KEYS = st.sampled_from(["limits", "aging", "roles", "contracts", "decay", "threshold_s", "Blocker", "clone", "x"])
VALUES = st.none() | st.booleans() | st.integers(-3, 3) | st.floats(-2, 2) | st.text(max_size=3)
DOCUMENTS = st.recursive(VALUES, lambda inner: st.dictionaries(KEYS, inner, max_size=3), max_leaves=8)


@given(DOCUMENTS)
def test_any_document_is_a_policy_or_refused(document: object) -> None:
    text = msgspec.json.encode(document).decode()
    problem: Problem | None = None
    try:
        policy = parse_policy(text)
    except TocsinError as refused_with:
        problem = refused_with.problem
    else:
        assert policy_from(document_of(policy)) == policy
    assert problem is None or (problem.code, bool(problem.detail)) == ("E_POLICY_001", True)


@pytest.mark.parametrize("number", [".nan", ".inf", "1.0e-9", "1.0e+300"])
@pytest.mark.parametrize(
    ("concern", "field"),
    [
        ("aging", "threshold_s"),
        ("timers", "granularity_s"),
        ("decay", "interval_s"),
        ("sweeper", "interval_s"),
        ("sessions", "lapse_after_s"),
        ("retention", "dead_s"),
    ],
)
def test_a_duration_is_at_least_a_microsecond_and_fits_a_clock(concern: str, field: str, number: str) -> None:
    problem = refused(f"{concern}: {{{field}: {number}}}").problem
    assert problem.field == f"$.{concern}.{field}"


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("bucket: {capacity: .nan}", "$.bucket.capacity"),
        ("bucket: {capacity: .inf}", "$.bucket.capacity"),
        ("contracts: {Blocker: {timeout_s: .inf}}", "$.contracts.Blocker.timeout_s"),
        ("limits: {drain_max: 99999999999999999999999}", "$.limits.drain_max"),
        ("contracts: {1: {ttl_s: 3}}", "$.contracts.1"),
    ],
)
def test_what_the_journal_cannot_hold_is_refused_with_its_path(text: str, where: str) -> None:
    assert refused(text).problem.field == where
