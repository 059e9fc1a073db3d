"""Prepared decisions: everything about a send that is the same for all messages of one sender, recipient and type.

A plan is worked out once and kept until a policy is adopted or an agent is registered or retired (`ProjectState.plans`
is emptied then). It exists only for ordinary messages: the sender and the recipient are registered, the contract allows
the message between them, its payload has no schema to be checked, and no director has to approve it. Every other
message is decided by `sending`, which also explains refusals.
"""

from sys import intern

from tocsin.core.errors import TocsinError
from tocsin.core.messages.routing import check_recipient, check_sender
from tocsin.core.policy import microseconds
from tocsin.core.protocol.contracts import AckRule, CorrelationRule, DeliveryClass
from tocsin.core.protocol.payloads import PAYLOADS
from tocsin.core.state import Agent, ProjectState

__all__ = ["Plan", "plan_of"]


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
        "costs",
        "critical_cap",
        "critical_refill",
        "default",
        "delivery_class",
        "depth_max",
        "gaming_min",
        "gaming_ratio",
        "gaming_window_us",
        "importance",
        "is_sync",
        "message_type",
        "multiplier",
        "recipient",
        "recipient_name",
        "role",
        "sender",
        "sender_name",
        "stale_after_us",
        "ttl_us",
        "watched",
    )

    def __init__(self, state: ProjectState, sender: Agent, recipient: Agent, message_type: str) -> None:
        policy = state.policy
        contract = policy.contract_of(message_type) or policy.custom_contract
        role, bucket, quotas, gaming = policy.roles[sender.role], policy.bucket, policy.quotas, policy.gaming
        multiplier = role.quota_multiplier
        factor = 0.0 if multiplier is None else multiplier
        self.sender: Agent = sender
        self.sender_name: str = sender.agent
        #: Role that the caller's token must have.
        self.role: str = sender.role
        self.recipient: Agent = recipient
        self.recipient_name: str = recipient.agent
        self.message_type: str = intern(message_type)
        self.default: int = contract.default_priority
        #: Highest priority that the sender may use.
        self.cap: int = role.cap
        self.delivery_class: DeliveryClass = contract.delivery_class
        self.is_sync: bool = contract.delivery_class is DeliveryClass.SYNC
        self.ack_required: bool = contract.ack is AckRule.REQUIRED
        self.ttl_us: int = max(1, microseconds(contract.ttl_s))
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
        self.stale_after_us: int = policy.sessions.stale_after_us


def plan_of(state: ProjectState, sender_name: str, recipient_name: str, message_type: str) -> Plan | None:
    """Return the plan of a sender, recipient and type; null if their messages are not ordinary."""
    sender, recipient = state.agents.get(sender_name), state.agents.get(recipient_name)
    if sender is None or recipient is None or state.policy.contract_of(message_type) is None:
        return None
    plan = (
        Plan(state, sender, recipient, message_type) if _is_ordinary(state, sender, recipient, message_type) else None
    )
    if len(state.plans) >= state.policy.limits.plans_max:
        state.plans.clear()
    state.plans[sender_name, recipient_name, message_type] = plan
    return plan


def _is_ordinary(state: ProjectState, sender: Agent, recipient: Agent, message_type: str) -> bool:
    policy = state.policy
    contract = policy.contract_of(message_type)
    if contract is None or contract.payload is not None or message_type in PAYLOADS:
        return False
    if contract.correlation is not CorrelationRule.OPTIONAL or message_type in policy.approvals.held_types:
        return False
    try:
        check_sender(sender, message_type, contract, policy)
        check_recipient(recipient, message_type, contract, policy)
    except TocsinError:
        return False
    return True
