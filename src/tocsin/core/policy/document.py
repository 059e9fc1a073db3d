"""The whole policy document: its parts together, parsing, and checks across fields."""

from typing import Any

import msgspec

from tocsin.core.errors import Problem, error_for, refusal
from tocsin.core.policy.admission import Bucket, Gaming, Quotas, Role, Security
from tocsin.core.policy.attention import AttentionPolicy
from tocsin.core.policy.decay import Decay, QueueManager
from tocsin.core.policy.delivery import Aging, Delivery, Retention, Routing, Sessions, Sweeper, TimerPolicy
from tocsin.core.policy.escalation import EscalationPolicy
from tocsin.core.policy.health import HealthPolicy
from tocsin.core.policy.limits import Limits
from tocsin.core.policy.storage import Storage
from tocsin.core.policy.teamwork import ApprovalPolicy, DiscussionPolicy, NoticePolicy, RequestPolicy, TopicPolicy
from tocsin.core.policy.waiting import Inheritance, Leases
from tocsin.core.policy.wake import WakePolicy
from tocsin.core.protocol import validation
from tocsin.core.protocol.contracts import Contract
from tocsin.core.protocol.priority import Priority, priority_name

__all__ = ["LATER", "Policy", "document_of", "policy_from", "stored_policy"]

#: Settings that policies in the journals of earlier versions lack, by path, and the value that each is taken to have. A
#: setting that is added to the policy is added here too; `tests/stores/test_earlier.py` fails otherwise.
LATER: dict[str, Any] = {
    "limits.mailbox_reserve": 1000,
    "limits.mailbox_bytes_max": 268_435_456,
    "limits.sender_bytes_max": 67_108_864,
    "limits.project_bytes_max": 1_073_741_824,
    "limits.critical_bytes_share": 0.125,
    "limits.dead_letters_bytes_max": 268_435_456,
    "limits.plans_max": 20_000,
    "delivery.poll_retries_max": 10,
    "aging.top": "Blocking",
    "retention.settled_bytes_max": 67_108_864,
    "retention.batch_bytes": 4_194_304,
    "leases.segment_length_max": 255,
    "leases.characters_max": 8192,
    "leases.wildcards_max": 8,
    "leases.globs_between_max": 1,
    "leases.open_length_max": 48,
    "leases.wildcards_per_lease_max": 16,
    "leases.wildcards_per_agent_max": 32,
    "leases.wildcards_in_all_max": 64,
    "leases.reach_max": 98_304,
    "notices": {"per_subject_max": 20},
    "storage.group_bytes_max": 1_048_576,
    "storage.receipt_delay_s": 0.005,
    "storage.log_reserve_bytes": 1_048_576,
    "storage.projection_busy_events": 3000,
    "storage.projection_delay_max_s": 10.0,
    "storage.projection_bytes_max": 67_108_864,
    "storage.projection_lag_max": 200_000,
    "storage.projection_slice": 2000,
    "storage.projection_pause_s": 0.001,
    "storage.backup_interval_s": 21_600.0,
    "approvals.handoffs.tool_permission": {"enabled": False, "message_types": [], "timeout_s": 300.0},
    "wake": {
        "level": "Blocking",
        "after_s": 5.0,
        "grace_s": 120.0,
        "run_s": 3600.0,
        "cooldown_s": 60.0,
        "per_hour_max": 12,
        "retries_max": 3,
        "backoff_s": [10.0, 60.0, 300.0],
        "rest_s": 3600.0,
        "processes_max": 4,
        "notifications_max": 3,
        "notify_again_s": [30.0, 60.0],
    },
    "contracts.NoticesFolded": {
        "priority": "ASK",
        "delivery_class": "async",
        "ttl_s": 86_400.0,
        "ack": "optional",
        "timeout_s": None,
        "retries_max": 0,
        "backoff_s": [],
        "senders": [],
        "receivers": [],
        "correlation": "optional",
        "response": "any",
        "adaptive_decay": False,
        "since": "1.1.0",
        "system": True,
        "payload": None,
    },
}


class Policy(msgspec.Struct, frozen=True, forbid_unknown_fields=True, dict=True):
    """All settings of a project."""

    limits: Limits
    security: Security
    roles: dict[str, Role]
    bucket: Bucket
    quotas: Quotas
    gaming: Gaming
    sessions: Sessions
    delivery: Delivery
    aging: Aging
    decay: Decay
    queue_manager: QueueManager
    sweeper: Sweeper
    timers: TimerPolicy
    retention: Retention
    routing: Routing
    leases: Leases
    inheritance: Inheritance
    attention: AttentionPolicy
    notices: NoticePolicy
    requests: RequestPolicy
    approvals: ApprovalPolicy
    discussions: DiscussionPolicy
    topics: TopicPolicy
    health: HealthPolicy
    escalation: EscalationPolicy
    wake: WakePolicy
    storage: Storage
    #: Contract of each message type.
    contracts: dict[str, Contract]
    #: Contract of `CUSTOM_*` types that have none of their own.
    custom_contract: Contract
    #: Settings of the frame bus, by subject; `tocsin.frames.policy` checks them, the exchange does not use them.
    frames: dict[str, dict[str, int | float]]

    def __post_init__(self) -> None:
        for path, wrong in _contradictions(self):
            raise refusal("E_POLICY_001", f"{path}: {wrong}", field=path)

    def contract_of(self, message_type: str) -> Contract | None:
        """Return the contract of a message type, or null for an unknown type."""
        contract = self.contracts.get(message_type)
        if contract is None and message_type.startswith("CUSTOM_"):
            return self.custom_contract
        return contract


def policy_from(document: object) -> Policy:
    """Parse a policy from a whole document; refuse one that is invalid, with the key and the expected value."""
    try:
        return msgspec.convert(document, Policy)
    except msgspec.ValidationError:
        problem = validation.explain(Policy, document)
        raise error_for(
            Problem("E_POLICY_001", problem.detail, problem.field, problem.found, problem.expected)
        ) from None


def stored_policy(document: object) -> Policy:
    """Parse a policy from a journal; settings that the version which stored it did not have are added."""
    if isinstance(document, dict):
        for path, value in LATER.items():
            document = _with_default(document, path, value)
    return policy_from(document)


def _with_default(settings: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """Return settings with a value at a path, unless they have one or lack what the path leads through."""
    name, _, rest = path.partition(".")
    if not rest:
        return {name: value, **settings}
    inner = settings.get(name)
    return settings | {name: _with_default(inner, rest, value)} if isinstance(inner, dict) else settings


def document_of(policy: Policy) -> Any:
    """Return the policy as the plain document that `policy_from` takes."""
    return msgspec.to_builtins(policy)


def _contradictions(policy: Policy) -> list[tuple[str, str]]:
    """Return conflicts between fields: the path, and the rule that it breaks."""
    manager, sessions, retention, leases = policy.queue_manager, policy.sessions, policy.retention, policy.leases
    levels = [priority_name(level) for level in Priority]
    checks: list[tuple[bool, str, str]] = [
        (sorted(policy.bucket.cost) != sorted(levels), "$.bucket.cost", "must name " + ", ".join(levels)),
        (
            sorted(policy.roles) != ["clone", "director", "human", "primary"],
            "$.roles",
            "must name director, primary, clone and human",
        ),
        (
            sorted(policy.delivery.receipt_timeout_s) != ["daemon", "piggyback", "push"],
            "$.delivery.receipt_timeout_s",
            "must name push, piggyback and daemon",
        ),
        (not policy.delivery.channel_backoff_s, "$.delivery.channel_backoff_s", "must name at least one wait"),
        (
            sessions.lapse_after_s < sessions.stale_after_s,
            "$.sessions.lapse_after_s",
            "a session cannot lapse before it is stale",
        ),
        (
            sessions.heartbeat_record_s >= sessions.stale_after_s,
            "$.sessions.heartbeat_record_s",
            "must be under stale_after_s, or every session is stale",
        ),
        (
            manager.latency_low_s >= manager.latency_high_s,
            "$.queue_manager.latency_low_s",
            "must be under latency_high_s, or the rate oscillates",
        ),
        (manager.rate_min > manager.rate_max, "$.queue_manager.rate_min", "must be at most rate_max"),
        (manager.samples_min > manager.samples_max, "$.queue_manager.samples_min", "must be at most samples_max"),
        (
            policy.gaming.messages_min > policy.gaming.samples_max,
            "$.gaming.messages_min",
            "must be at most samples_max",
        ),
        (policy.aging.top not in levels[:-1], "$.aging.top", "must be one of " + ", ".join(levels[:-1])),
        (leases.priority not in levels, "$.leases.priority", "must be one of " + ", ".join(levels)),
        (leases.ttl_default_s > leases.ttl_max_s, "$.leases.ttl_default_s", "must be at most ttl_max_s"),
        (leases.wait_default_s > leases.wait_max_s, "$.leases.wait_default_s", "must be at most wait_max_s"),
        (
            retention.acknowledged_s < retention.settled_s,
            "$.retention.acknowledged_s",
            "must be at least settled_s",
        ),
    ]
    found = [(path, wrong) for broken, path, wrong in checks if broken]
    if policy.requests.timeout_s > policy.requests.timeout_max_s:
        found.append(("$.requests.timeout_s", "must be at most timeout_max_s"))
    found += policy.approvals.contradictions()
    found += policy.escalation.contradictions()
    found += policy.wake.contradictions()
    for name, role in policy.roles.items():
        if role.max_priority not in levels:
            found.append((f"$.roles.{name}.max_priority", "must be one of " + ", ".join(levels)))
    for name, contract in [*policy.contracts.items(), ("CUSTOM_*", policy.custom_contract)]:
        found += [(f"$.contracts.{name}.{field}", wrong) for field, wrong in contract.contradictions(levels)]
        if contract.ttl_s > policy.limits.ttl_max_s:
            found.append((f"$.contracts.{name}.ttl_s", "must be at most limits.ttl_max_s"))
    return found
