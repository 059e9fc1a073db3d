"""Policies whose settings contradict each other: the path and the rule, and the settings that are just allowed."""

import pytest

from tocsin.core.errors import TocsinError
from tocsin.core.policy import Policy
from tocsin.policies import parse_policy

LEVELS = "Info, Coordinate, Blocking, Critical, DirectorOverride"
CONTRACT = "contracts: {StatusUpdate: {%s}}"

WRONG: list[tuple[str, str, str]] = [
    ("bucket: {cost: {Urgent: 1}}", "$.bucket.cost", f"must name {LEVELS}"),
    (
        "roles: {boss: {max_priority: Info, lowers: false, quota_multiplier: 1, watched: true, directs: false}}",
        "$.roles",
        "must name director, primary, clone and human",
    ),
    (
        "delivery: {receipt_timeout_s: {pigeon: 5}}",
        "$.delivery.receipt_timeout_s",
        "must name push, piggyback and daemon",
    ),
    ("delivery: {channel_backoff_s: []}", "$.delivery.channel_backoff_s", "must name at least one wait"),
    ("sessions: {lapse_after_s: 59}", "$.sessions.lapse_after_s", "a session cannot lapse before it is stale"),
    ("sessions: {heartbeat_record_s: 60}", "$.sessions.heartbeat_record_s", "must be under stale_after_s"),
    ("queue_manager: {latency_low_s: 30}", "$.queue_manager.latency_low_s", "must be under latency_high_s"),
    ("queue_manager: {rate_min: 0.6}", "$.queue_manager.rate_min", "must be at most rate_max"),
    ("queue_manager: {samples_min: 1001}", "$.queue_manager.samples_min", "must be at most samples_max"),
    ("gaming: {messages_min: 1001}", "$.gaming.messages_min", "must be at most samples_max"),
    (
        "aging: {top: DirectorOverride}",
        "$.aging.top",
        "must be one of Info, Coordinate, Blocking, Critical",
    ),
    ("leases: {priority: Urgent}", "$.leases.priority", f"must be one of {LEVELS}"),
    ("leases: {ttl_default_s: 86401}", "$.leases.ttl_default_s", "must be at most ttl_max_s"),
    ("leases: {wait_default_s: 86401}", "$.leases.wait_default_s", "must be at most wait_max_s"),
    ("retention: {acknowledged_s: 3599}", "$.retention.acknowledged_s", "must be at least settled_s"),
    ("requests: {timeout_s: 86401}", "$.requests.timeout_s", "must be at most timeout_max_s"),
    (
        "approvals: {handoffs: {lunch: {enabled: true, message_types: [], timeout_s: 1}}}",
        "$.approvals.handoffs",
        "must name plan_approval, lease_override, pre_merge_review, ratification, tool_permission",
    ),
    (
        "approvals: {handoffs: {plan_approval: {message_types: [NACK]}}}",
        "$.approvals.handoffs.plan_approval.message_types",
        "NACK cannot be held",
    ),
    (
        "approvals: {handoffs: {plan_approval: {message_types: [CUSTOM_MERGE]}}}",
        "$.approvals.handoffs.plan_approval.message_types",
        "CUSTOM_MERGE is already held at pre_merge_review",
    ),
    (
        "escalation: {rules: {blocking_waits: {level: Urgent}}}",
        "$.escalation.rules.blocking_waits.level",
        f"must be one of {LEVELS}",
    ),
    (
        "escalation: {rules: {deadlock: {actions: []}}}",
        "$.escalation.rules.deadlock.actions",
        "must name at least one action",
    ),
    (
        "escalation: {rules: {deadlock: {level: Info}}}",
        "$.escalation.rules.deadlock.level",
        "must be left out: it has no effect for deadlock",
    ),
    (
        "escalation: {rules: {deadlock: {after_s: 5}}}",
        "$.escalation.rules.deadlock.after_s",
        "must be left out: it has no effect for deadlock",
    ),
    (
        "escalation: {rules: {deadlock: {count: 5}}}",
        "$.escalation.rules.deadlock.count",
        "must be left out: it has no effect for deadlock",
    ),
    (
        "escalation: {rules: {blocking_waits: {after_s: null}}}",
        "$.escalation.rules.blocking_waits.after_s",
        "must be given: ",
    ),
    (
        "escalation: {rules: {contention: {count: null}}}",
        "$.escalation.rules.contention.count",
        "must be given: ",
    ),
    (
        "escalation: {rules: {twin: {trigger: time_in_queue, level: Blocking, after_s: 5, actions: [boost]}}}",
        "$.escalation.rules.twin",
        "blocking_waits has the same trigger and level",
    ),
    ("wake: {level: Urgent}", "$.wake.level", f"must be one of {LEVELS}"),
    ("wake: {run_s: 119}", "$.wake.run_s", "must be at least grace_s"),
    ("roles: {clone: {max_priority: Urgent}}", "$.roles.clone.max_priority", f"must be one of {LEVELS}"),
    (CONTRACT % "priority: Urgent", "$.contracts.StatusUpdate.priority", "must be one of "),
    (
        CONTRACT % "priority: DirectorOverride",
        "$.contracts.StatusUpdate.priority",
        "must be one of Info, Coordinate, Blocking, Critical",
    ),
    (CONTRACT % "ack: required", "$.contracts.StatusUpdate.timeout_s", "a required ACK needs a timeout"),
    (CONTRACT % "retries_max: 1", "$.contracts.StatusUpdate.backoff_s", "retries need at least one wait"),
    (CONTRACT % "ttl_s: 2592001", "$.contracts.StatusUpdate.ttl_s", "must be at most limits.ttl_max_s"),
    (
        CONTRACT % "payload: {required: {a: text}}",
        "$.contracts.StatusUpdate.payload.required.a",
        "must be a list of strings or one of string, number, integer, boolean, object, array",
    ),
    (
        CONTRACT % "payload: {optional: {a: []}}",
        "$.contracts.StatusUpdate.payload.optional.a",
        "must name at least one allowed string",
    ),
    (
        CONTRACT % "payload: {required: {'a b': string}}",
        "$.contracts.StatusUpdate.payload.required.a b",
        "must be a plain name",
    ),
    (
        CONTRACT % "payload: {required: {a: string}, optional: {a: string}}",
        "$.contracts.StatusUpdate.payload.optional.a",
        "must not be required as well",
    ),
]

ALLOWED = [
    "sessions: {lapse_after_s: 60}",
    "sessions: {heartbeat_record_s: 59}",
    "queue_manager: {latency_low_s: 29}",
    "queue_manager: {rate_min: 0.5}",
    "queue_manager: {samples_min: 1000}",
    "gaming: {messages_min: 1000}",
    "aging: {top: Critical}",
    "leases: {ttl_default_s: 86400, wait_default_s: 86400, priority: DirectorOverride}",
    "retention: {acknowledged_s: 3600}",
    "requests: {timeout_s: 86400}",
    "wake: {run_s: 120, level: Info}",
    CONTRACT % "ttl_s: 2592000",
    CONTRACT % "ack: required, timeout_s: 5",
    CONTRACT % "retries_max: 1, backoff_s: [1]",
    CONTRACT % "payload: {required: {a: [x, y]}, optional: {b: string}}",
    "approvals: {handoffs: {ratification: {message_types: [CUSTOM_MERGE]}}}",
]


@pytest.mark.parametrize("row", range(len(WRONG)))
def test_a_contradiction_is_refused_with_its_path_and_rule(row: int) -> None:
    text, path, rule = WRONG[row]
    with pytest.raises(TocsinError) as refused:
        parse_policy(text)
    problem = refused.value.problem
    assert (problem.code, problem.field) == ("E_POLICY_001", path)
    assert problem.detail.startswith(f"{path}: {rule}"), problem.detail


@pytest.mark.parametrize("row", range(len(ALLOWED)))
def test_the_bound_itself_is_allowed(row: int) -> None:
    assert isinstance(parse_policy(ALLOWED[row]), Policy)
