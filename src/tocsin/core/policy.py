"""Every number that Tocsin decides by, as frozen structs.

No field has a default here: the defaults are the packaged `tocsin.yaml`, so that one file shows them all. Durations
end in `_s` and are seconds in the document; the core works in whole microseconds, through the `_us` properties.
This module knows nothing of files: `tocsin.policies` reads them.
"""

from functools import cached_property
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from tocsin.core import diagnosis
from tocsin.core.contracts import Contract
from tocsin.core.errors import Problem, error_for, refusal
from tocsin.core.priority import Priority, liminal_name

__all__ = [
    "Aging",
    "Bucket",
    "Decay",
    "Delivery",
    "Gaming",
    "Limits",
    "Policy",
    "QueueManager",
    "Quotas",
    "Retention",
    "Role",
    "Routing",
    "Sessions",
    "Storage",
    "Sweeper",
    "TimerPolicy",
    "microseconds",
    "policy_from",
]

#: Between the core's grain, a microsecond, and a century: what can be counted.
Seconds = Annotated[float, Meta(ge=1e-6, le=3.2e9)]
Pause = Annotated[float, Meta(ge=0, le=3.2e9)]
Share = Annotated[float, Meta(ge=0, le=1)]
Count = Annotated[int, Meta(ge=1, le=10**12)]
Retries = Annotated[int, Meta(ge=0, le=1000)]
Amount = Annotated[float, Meta(ge=1e-6, le=1e12)]
Levels = dict[str, Annotated[float, Meta(ge=0, le=1e12)]]


def microseconds(seconds: float) -> int:
    """Turn seconds into whole microseconds."""
    return round(seconds * 1_000_000)


class _Concern(msgspec.Struct, frozen=True, forbid_unknown_fields=True, dict=True):
    """Base of one concern's settings."""


class Limits(_Concern, frozen=True):
    """A named limit on everything; crossing one is a defined refusal."""

    #: Largest envelope, bytes of JSON (APM §9.1: 1 MB).
    message_bytes_max: Count
    #: Longest TTL that a sender may ask for, seconds.
    ttl_max_s: Seconds
    #: Registered agents in the project.
    agents_max: Count
    #: Open sessions of one agent.
    sessions_per_agent_max: Count
    #: Queued messages in one mailbox.
    mailbox_depth_max: Count
    #: Recipients of one broadcast.
    broadcast_recipients_max: Count
    #: Messages handed out by one drain.
    drain_max: Count
    #: Payload bytes handed out by one drain; the first message always fits.
    drain_bytes_max: Count
    #: Offers without receipt that one push session may ask for.
    window_max: Count
    #: Threads remembered at once; the one idle longest is forgotten first.
    threads_max: Count
    #: Dead letters kept at once; the oldest is purged first.
    dead_letters_max: Count
    #: Timers fired by one tick; the rest by the next.
    timers_per_tick: Count
    #: Message ids in one receipt, acknowledgement or redrive command.
    batch_max: Count
    #: Characters of a free-text field in a command, such as a reason.
    text_max: Count


class Role(_Concern, frozen=True):
    """What a role may do."""

    #: Highest priority it may use.
    max_priority: str
    #: Whether asking for more lowers the message to the cap; else it is refused.
    lowers: bool
    #: Share of the bucket and quotas it gets; null is unlimited.
    quota_multiplier: Amount | None
    #: Whether gaming detection watches it.
    watched: bool
    #: Whether it may do what a director may: override, change policy, redrive any, retire agents.
    directs: bool

    @cached_property
    def cap(self) -> Priority:
        """Return `max_priority` on the inside scale."""
        return _level(self.max_priority)


class Bucket(_Concern, frozen=True):
    """The token bucket of each agent."""

    #: Most tokens it holds.
    capacity: Amount
    #: Tokens that come back per second.
    refill_per_s: Amount
    #: Tokens that one message costs, by priority.
    cost: Levels

    @cached_property
    def costs(self) -> tuple[float, ...]:
        """Return the costs, indexed by priority."""
        return tuple(self.cost[liminal_name(level)] for level in Priority)


class Quota(_Concern, frozen=True):
    """A quota of one high priority for each agent."""

    #: Most messages it holds.
    cap: Annotated[float, Meta(ge=1, le=1e12)]
    #: Messages that come back per second.
    refill_per_s: Amount


class Quotas(_Concern, frozen=True):
    """The quotas of the two priorities that can be inflated."""

    critical: Quota
    blocking: Quota


class Gaming(_Concern, frozen=True):
    """When an agent is taken to inflate its priorities."""

    #: How far back to look, seconds.
    window_s: Seconds
    #: Share of Blocking and above over which it is gaming.
    high_priority_ratio: Share
    #: Fewest messages in the window to judge from.
    messages_min: Count
    #: Most messages of an agent remembered for judging.
    samples_max: Count

    @cached_property
    def window_us(self) -> int:
        """Return the window in microseconds."""
        return microseconds(self.window_s)


class Sessions(_Concern, frozen=True):
    """How long a session counts as there."""

    #: A heartbeat older than this makes a session stale, seconds (SPEC-071 §4.1).
    stale_after_s: Seconds
    #: A heartbeat older than this ends the session, seconds.
    lapse_after_s: Seconds
    #: Heartbeats closer together than this are one, seconds.
    heartbeat_record_s: Pause
    #: Whether the bus tells all who are attached when a peer comes or goes: one message each.
    announce: bool

    @cached_property
    def stale_after_us(self) -> int:
        """Return the staleness threshold in microseconds."""
        return microseconds(self.stale_after_s)

    @cached_property
    def lapse_after_us(self) -> int:
        """Return the lapse threshold in microseconds."""
        return microseconds(self.lapse_after_s)

    @cached_property
    def heartbeat_record_us(self) -> int:
        """Return the recording interval in microseconds."""
        return microseconds(self.heartbeat_record_s)


class Delivery(_Concern, frozen=True):
    """How offers are confirmed."""

    #: Time for the receipt of an offer by kind of session, seconds, where the contract names none.
    receipt_timeout_s: dict[str, Seconds]
    #: Offers without receipt before a message is dead, where the contract names none (APM §3.5).
    channel_retries_max: Retries
    #: Waits before the next offer, seconds; the last repeats.
    channel_backoff_s: list[Seconds]
    #: Offers without receipt at a time, for a push session that does not say; a piggyback session takes whole drains.
    window_default: Count
    #: What to tell a caller whom only time can help, seconds.
    retry_hint_s: Seconds

    @cached_property
    def receipt_timeout_us(self) -> dict[str, int]:
        """Return the receipt timeouts in microseconds."""
        return {kind: microseconds(timeout_s) for kind, timeout_s in self.receipt_timeout_s.items()}


class Aging(_Concern, frozen=True):
    """How waiting raises a message."""

    #: Off leaves strict priorities, and starvation possible.
    enabled: bool
    #: Each time a message has waited this long again, it rises, seconds.
    threshold_s: Seconds
    #: By how many levels it rises.
    boost_levels: Annotated[int, Meta(ge=1, le=3)]

    @cached_property
    def threshold_us(self) -> int:
        """Return the threshold in microseconds."""
        return microseconds(self.threshold_s)

    @cached_property
    def boosts_to_front(self) -> tuple[int, ...]:
        """Return, for each priority, the boosts that bring it to Critical and the one more to the front of it."""
        return tuple(-(-max(0, Priority.CRITICAL - level) // self.boost_levels) + 1 for level in Priority)

    def bound_us(self, priority: int) -> int:
        """Return after how long only older overdue messages and overrides can precede such a message."""
        return self.boosts_to_front[priority] * self.threshold_us


class Decay(_Concern, frozen=True):
    """How importance fades."""

    #: Importance of a message that does not say, 1 to 10.
    importance_default: Annotated[int, Meta(ge=1, le=10)]
    #: A decay rate is the share of the original importance lost per this time, seconds.
    interval_s: Seconds
    #: Below this importance a waiting message is stale.
    stale_threshold: Annotated[float, Meta(ge=0, le=10)]
    #: Rates are rounded to whole steps of this, so that mailboxes keep few orders apart.
    rate_step: Annotated[float, Meta(ge=0.001, le=1)]
    #: How often stale messages are looked for, seconds (DECAY §2).
    sweep_interval_s: Seconds

    @cached_property
    def interval_us(self) -> int:
        """Return the interval in microseconds."""
        return microseconds(self.interval_s)

    @cached_property
    def sweep_interval_us(self) -> int:
        """Return the sweep interval in microseconds."""
        return microseconds(self.sweep_interval_s)


class QueueManager(_Concern, frozen=True):
    """The control law of the adaptive decay rate (DECAY §4)."""

    #: Off leaves every message at its own rate, or none.
    enabled: bool
    #: Average processing latency over which the rate of new messages rises, seconds.
    latency_high_s: Seconds
    #: Average processing latency under which it falls, seconds.
    latency_low_s: Seconds
    #: Lowest rate.
    rate_min: Share
    #: Highest rate.
    rate_max: Share
    #: By how much one change moves it.
    rate_change: Share
    #: Time between two changes, seconds.
    cooldown_s: Seconds
    #: How far back latencies count, seconds.
    window_s: Seconds
    #: Most latencies that count.
    samples_max: Count
    #: Fewest latencies to judge from.
    samples_min: Count

    @cached_property
    def window_us(self) -> int:
        """Return the window in microseconds."""
        return microseconds(self.window_s)

    @cached_property
    def cooldown_us(self) -> int:
        """Return the cooldown in microseconds."""
        return microseconds(self.cooldown_s)


class Sweeper(_Concern, frozen=True):
    """SPEC-071's sweeper."""

    #: How often expired messages are stamped, seconds; none is handed out in between (SPEC-071 §9).
    interval_s: Seconds

    @cached_property
    def interval_us(self) -> int:
        """Return the interval in microseconds."""
        return microseconds(self.interval_s)


class TimerPolicy(_Concern, frozen=True):
    """How exact the short timers are."""

    #: A receipt, ACK, backoff, aging or session timer is late by less than this, seconds.
    granularity_s: Seconds

    @cached_property
    def granularity_us(self) -> int:
        """Return the granularity in microseconds."""
        return microseconds(self.granularity_s)


class Retention(_Concern, frozen=True):
    """How long the live state remembers what has ended; the journal keeps its own time."""

    #: Ended messages answer duplicates, recalls and late confirmations for this long, seconds.
    settled_s: Seconds
    #: Most ended messages remembered.
    settled_max: Count
    #: Acknowledged messages wait this long to be processed, seconds.
    acknowledged_s: Seconds
    #: Most acknowledged messages remembered.
    acknowledged_max: Count
    #: A thread without a new message is forgotten after this, seconds.
    thread_idle_s: Seconds
    #: A dead letter is purged after this, seconds.
    dead_s: Seconds
    #: Forgotten at a time; the maxima above may be exceeded by this many.
    batch: Count

    @cached_property
    def settled_us(self) -> int:
        """Return the memory of ended messages in microseconds."""
        return microseconds(self.settled_s)

    @cached_property
    def acknowledged_us(self) -> int:
        """Return the memory of acknowledged messages in microseconds."""
        return microseconds(self.acknowledged_s)

    @cached_property
    def thread_idle_us(self) -> int:
        """Return the memory of threads in microseconds."""
        return microseconds(self.thread_idle_s)

    @cached_property
    def dead_us(self) -> int:
        """Return the memory of dead letters in microseconds."""
        return microseconds(self.dead_s)


class Routing(_Concern, frozen=True):
    """How strictly routes are checked."""

    #: Whether a contract's direction (who may send it to whom) is enforced.
    enforce_direction: bool
    #: Whether an agent that declared capabilities gets only those types.
    enforce_capabilities: bool


class Storage(_Concern, frozen=True):
    """How what happened is kept: commits, tables, history and segments. The exchange itself never looks at it."""

    #: Events in one commit, as far as whole commands go.
    group_events_max: Count
    #: Commands that may wait for a place in a commit.
    commands_waiting_max: Count
    #: Bytes of commits after which a SQLite journal is checkpointed.
    checkpoint_bytes: Count
    #: Tries to rebuild after a failed commit before the hub stops.
    recovery_attempts_max: Count
    #: Wait before each of those tries, seconds.
    recovery_backoff_s: Seconds
    #: The tables follow the journal at least this often, seconds.
    projection_interval_s: Seconds
    #: Events after which they follow sooner.
    projection_events_max: Count
    #: Bytes that the recorded life of one message may take in the tables.
    life_bytes_max: Count
    #: Whether payloads can be searched.
    search: bool
    #: Messages added to the search index at a time.
    search_batch: Count
    #: Ended messages stay in the history for this long, seconds.
    history_s: Seconds
    #: Commits stay in the journal for this long at least, seconds, even when projected and exported.
    journal_s: Annotated[float, Meta(ge=0)]
    #: How often there is pruning, seconds.
    prune_interval_s: Seconds
    #: Rows pruned at a time.
    prune_batch: Count
    #: Whether the journal is exported to segment files.
    segments: bool
    #: A segment is cut once its first event is this old, seconds.
    segment_age_s: Seconds
    #: A segment is cut once it holds this many bytes, before compression.
    segment_bytes_max: Count
    #: Whether segments hold payloads and metadata.
    segment_payloads: bool
    #: Other hubs are told of commits at most this often, seconds.
    notify_interval_s: Seconds


class Policy(msgspec.Struct, frozen=True, forbid_unknown_fields=True, dict=True):
    """Everything that a project is run by."""

    limits: Limits
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
    storage: Storage
    #: What each message type promises.
    contracts: dict[str, Contract]
    #: What a `CUSTOM_*` type promises that has no contract of its own.
    custom_contract: Contract
    #: Numbers of the frame bus, by concern: `tocsin.frames.policy` knows and checks them, the exchange does not.
    frames: dict[str, dict[str, int | float]]

    def __post_init__(self) -> None:
        for path, wrong in _contradictions(self):
            raise refusal("E_POLICY_001", f"{path}: {wrong}", field=path)

    def contract_of(self, message_type: str) -> Contract | None:
        """Return what a type promises, or nothing where the type is unknown."""
        contract = self.contracts.get(message_type)
        if contract is None and message_type.startswith("CUSTOM_"):
            return self.custom_contract
        return contract


def policy_from(document: object) -> Policy:
    """Make a policy out of a whole document, or say which key is wrong and what would be right."""
    try:
        return msgspec.convert(document, Policy)
    except msgspec.ValidationError:
        problem = diagnosis.explain(Policy, document)
        raise error_for(
            Problem("E_POLICY_001", problem.detail, problem.field, problem.found, problem.expected)
        ) from None


def _level(name: str) -> Priority:
    for level in Priority:
        if liminal_name(level) == name:
            return level
    raise refusal("E_POLICY_001", f"{name!r} is no priority", expected=", ".join(map(liminal_name, Priority)))


def _contradictions(policy: Policy) -> list[tuple[str, str]]:
    """List what no single field shows: each rule with the path that breaks it."""
    manager, sessions, retention = policy.queue_manager, policy.sessions, policy.retention
    levels = [liminal_name(level) for level in Priority]
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
            "must be under latency_high_s, or the rate swings",
        ),
        (manager.rate_min > manager.rate_max, "$.queue_manager.rate_min", "must be at most rate_max"),
        (manager.samples_min > manager.samples_max, "$.queue_manager.samples_min", "must be at most samples_max"),
        (
            policy.gaming.messages_min > policy.gaming.samples_max,
            "$.gaming.messages_min",
            "must be at most samples_max",
        ),
        (
            retention.acknowledged_s < retention.settled_s,
            "$.retention.acknowledged_s",
            "must be at least settled_s",
        ),
    ]
    found = [(path, wrong) for broken, path, wrong in checks if broken]
    for name, role in policy.roles.items():
        if role.max_priority not in levels:
            found.append((f"$.roles.{name}.max_priority", "must be one of " + ", ".join(levels)))
    for name, contract in [*policy.contracts.items(), ("CUSTOM_*", policy.custom_contract)]:
        found += [(f"$.contracts.{name}.{field}", wrong) for field, wrong in contract.contradictions(levels)]
        if contract.ttl_s > policy.limits.ttl_max_s:
            found.append((f"$.contracts.{name}.ttl_s", "must be at most limits.ttl_max_s"))
    return found


def document_of(policy: Policy) -> Any:
    """Return the policy as the plain document that `policy_from` takes."""
    return msgspec.to_builtins(policy)
