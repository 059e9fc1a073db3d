"""Prepared decisions: everything about a send that is the same for all messages of one sender and type.

A plan is worked out once and kept until a policy is adopted or an agent is registered or retired
(`ProjectState.drop_plans`). It exists if the sender is registered, the contract allows it to send the type, and no
director has to approve the message. An ACK or NACK has no plan, because it settles another message. A plan knows the
recipients that the contract allows, as they come up. What has no plan is decided by `sending`, which also explains
refusals.
"""

from collections.abc import Callable
from datetime import datetime
from sys import intern
from typing import Any

from tocsin.core.errors import TocsinError
from tocsin.core.messages.routing import check_recipient, check_sender
from tocsin.core.policy import microseconds
from tocsin.core.protocol.contracts import AckRule, Contract, CorrelationRule, DeliveryClass
from tocsin.core.protocol.payloads import decoder_of, is_confirmation
from tocsin.core.state import Agent, ProjectState

__all__ = ["Plan", "plan_of", "recipient_of"]


class Plan:
    """The constant part of the decision on an ordinary message."""

    __slots__ = (
        "ack_required",
        "adaptive",
        "blocking_cap",
        "blocking_refill",
        "bucket_capacity",
        "bucket_refill",
        "cap",
        "correlation",
        "costs",
        "critical_cap",
        "critical_refill",
        "decode",
        "default",
        "delivery_class",
        "depth_max",
        "gaming_min",
        "gaming_ratio",
        "gaming_window_us",
        "importance",
        "lowers",
        "mailbox_bytes_max",
        "message_type",
        "multiplier",
        "project_bytes_max",
        "recipients",
        "role",
        "sender",
        "sender_bytes_max",
        "sender_name",
        "sent_at",
        "since",
        "stale_after_us",
        "timestamp",
        "ttl_max_s",
        "ttl_us",
        "watched",
    )

    def __init__(self, state: ProjectState, sender: Agent, message_type: str) -> None:
        policy = state.policy
        contract = policy.contract_of(message_type) or policy.custom_contract
        role, bucket, quotas, gaming = policy.roles[sender.role], policy.bucket, policy.quotas, policy.gaming
        multiplier = role.quota_multiplier
        factor = 0.0 if multiplier is None else multiplier
        self.sender: Agent = sender
        self.sender_name: str = sender.agent
        #: Role that the caller's token must have.
        self.role: str = sender.role
        #: Recipients that have come up, null if the contract does not allow them.
        self.recipients: dict[str, Agent | None] = {}
        self.message_type: str = intern(message_type)
        #: First protocol version that has the type.
        self.since: str = contract.since
        #: Decodes a payload, or raises; null if any payload is allowed.
        self.decode: Callable[[Any], Any] | None = decoder_of(message_type, contract)
        self.correlation: CorrelationRule = contract.correlation
        self.default: int = contract.default_priority
        #: Highest priority that the sender may use, and whether a higher one is lowered to it.
        self.cap: int = role.cap
        self.lowers: bool = role.lowers
        self.delivery_class: DeliveryClass = contract.delivery_class
        self.ack_required: bool = contract.ack is AckRule.REQUIRED
        self.ttl_us: int = max(1, microseconds(contract.ttl_s))
        self.ttl_max_s: float = policy.limits.ttl_max_s
        self.importance: int = policy.decay.importance_default
        #: Whether the queue manager sets the decay rate.
        self.adaptive: bool = contract.adaptive_decay
        #: Factor of the sender's bucket and quotas; null if they are unlimited.
        self.multiplier: float | None = multiplier
        self.costs: tuple[float, ...] = bucket.costs
        self.bucket_capacity: float = bucket.capacity * factor
        self.bucket_refill: float = bucket.refill_per_s
        self.critical_cap: float = quotas.critical.cap * factor
        self.critical_refill: float = quotas.critical.refill_per_s
        self.blocking_cap: float = quotas.blocking.cap * factor
        self.blocking_refill: float = quotas.blocking.refill_per_s
        #: Whether the sender is checked for inflated priorities.
        self.watched: bool = role.watched
        self.gaming_window_us: int = gaming.window_us
        self.gaming_min: int = gaming.messages_min
        self.gaming_ratio: float = gaming.high_priority_ratio
        #: Messages that the mailbox may hold without its reserve.
        self.depth_max: int = policy.limits.mailbox_depth_max
        #: Bytes that its recipient, its sender and the project may have unsettled, without the reserves.
        self.mailbox_bytes_max: int = policy.limits.mailbox_bytes_max
        self.sender_bytes_max: int = policy.limits.sender_bytes_max
        self.project_bytes_max: int = policy.limits.project_bytes_max
        self.stale_after_us: int = policy.sessions.stale_after_us
        #: Timestamp of the last message, and the same in microseconds: a bus in the same process sets one timestamp
        #: for all messages of a millisecond.
        self.timestamp: datetime | None = None
        self.sent_at: int = 0


def plan_of(state: ProjectState, sender_name: str, message_type: str) -> Plan | None:
    """Work out the plan of a sender and type; null if their messages are not ordinary."""
    sender, contract = state.agents.get(sender_name), state.policy.contract_of(message_type)
    if sender is None or contract is None:
        return None
    plan = Plan(state, sender, message_type) if _is_ordinary(state, sender, message_type, contract) else None
    _make_room(state)
    state.plans[sender_name, message_type] = plan
    return plan


def recipient_of(state: ProjectState, plan: Plan, name: str) -> Agent | None:
    """Return the recipient of a plan's message; null if it is not registered or the contract does not allow it."""
    recipient = state.agents.get(name)
    if recipient is None:
        return None
    policy, message_type = state.policy, plan.message_type
    contract = policy.contract_of(message_type) or policy.custom_contract
    allowed: Agent | None = recipient
    try:
        check_recipient(recipient, message_type, contract, policy)
    except TocsinError:
        allowed = None
    if _make_room(state):
        plan.recipients.clear()
        state.plans[plan.sender_name, message_type] = plan
    plan.recipients[name] = allowed
    state.planned_recipients += 1
    return allowed


def _make_room(state: ProjectState) -> bool:
    """Drop all plans if there are as many as the policy allows; return whether it did."""
    full = len(state.plans) + state.planned_recipients >= state.policy.limits.plans_max
    if full:
        state.drop_plans()
    return full


def _is_ordinary(state: ProjectState, sender: Agent, message_type: str, contract: Contract) -> bool:
    policy = state.policy
    if is_confirmation(message_type) or contract.correlation is CorrelationRule.MATCHES_MESSAGE:
        return False
    if message_type in policy.approvals.held_types and not policy.roles[sender.role].directs:
        return False
    try:
        check_sender(sender, message_type, contract, policy)
    except TocsinError:
        return False
    return True
