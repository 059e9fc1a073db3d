"""Admission of a message: priority by role, token bucket, quotas, and detection of inflated priorities.

Deciding and spending are separate: `grant` decides the priority that a message is sent at, `admit` computes what it
costs, the `MessageAccepted` event carries the remaining balances, and applying the event only stores them.

Requirement: LIMINAL.
"""

from itertools import takewhile
from typing import Final

import msgspec

from tocsin.core import events as ev
from tocsin.core.decision import Decision
from tocsin.core.errors import refusal
from tocsin.core.policy import Policy, Quota
from tocsin.core.protocol.priority import Priority, priority_name
from tocsin.core.state import Agent, ProjectState

__all__ = [
    "Admission",
    "Granted",
    "admit",
    "apply_charge",
    "apply_gaming",
    "bill",
    "charge_owed",
    "full_levels",
    "grant",
    "levels",
    "owe",
    "spend",
]


_BLOCKING: Final = int(Priority.BLOCKING)
#: Rules of messages that the watch for inflated priorities does not count.
_UNWATCHED: Final = frozenset({"confirmation", "imported"})


class Granted(msgspec.Struct, frozen=True):
    """The priority that a message is sent at, the rule that chose it, and what that rule measured."""

    priority: Priority
    rule: str
    #: Messages of the sender at Blocking or above in the window, of how many, for the rule `gaming`.
    high: int = 0
    messages: int = 0
    #: Share that is allowed, or the highest level of the role.
    limit: float | None = None
    window_s: float | None = None


class Admission(msgspec.Struct, frozen=True):
    """An admitted message: its priority, and the sender's remaining balances."""

    granted: Granted
    tokens: float | None
    critical_quota: float | None
    blocking_quota: float | None


def grant(decision: Decision, sender: Agent, requested: Priority, *, default: bool) -> Granted:
    """Return the priority at which a sender's message is sent, and why; refuse one over its role."""
    role = decision.policy.roles[sender.role]
    if requested > role.cap:
        if role.lowers:
            return Granted(role.cap, "role_cap", limit=float(role.cap))
        raise refusal(
            "E_ADMISSION_004",
            f"{sender.agent} is {sender.role} and may send with a priority up to {role.max_priority}",
            field="$.priority",
            found=priority_name(requested),
            expected=f"at most {role.max_priority}",
        )
    lowered = _judge(decision, sender) if role.watched else None
    return lowered or Granted(requested, "contract_default" if default else "as_requested")


def admit(decision: Decision, sender: Agent, granted: Granted, copies: int = 1, messages: int = 1) -> Admission:
    """Return the sender's balances after a message of a granted priority; refuse one over a limit, with a retry time.

    The price of its priority is paid once for each message, and the Info price for each further copy, so that an urgent
    message to a whole team is possible.
    """
    role, priority = decision.policy.roles[sender.role], granted.priority
    if role.quota_multiplier is None:
        return Admission(granted, None, None, None)
    tokens, critical, blocking = levels(sender, decision.policy, decision.now)
    cost = _price_of(decision.policy, priority, copies, messages)
    if tokens < cost:
        many = f" to {copies} agents" if copies > 1 else ""
        raise _exhausted(
            "E_ADMISSION_001",
            f"{sender.agent} has {tokens:.1f} tokens, a {priority_name(priority)} message{many} costs {cost:g}",
            (cost - tokens) / (decision.policy.bucket.refill_per_s * role.quota_multiplier),
            possible=cost <= decision.policy.bucket.capacity * role.quota_multiplier,
        )
    quotas = decision.policy.quotas
    if priority is Priority.CRITICAL:
        if critical < 1:
            raise _used_up("E_ADMISSION_002", sender, priority, critical, quotas.critical, role.quota_multiplier)
        critical -= 1
    elif priority is Priority.BLOCKING:
        if blocking < 1:
            raise _used_up("E_ADMISSION_003", sender, priority, blocking, quotas.blocking, role.quota_multiplier)
        blocking -= 1
    return Admission(granted, tokens - cost, critical, blocking)


def bill(decision: Decision, payer: Agent, cause: str, priority: Priority, *copies: int) -> ev.AgentCharged | None:
    """Return the charge for messages of the bus that an agent causes, or refuse it; null for an unlimited agent.

    Each of `copies` is the number of recipients of one message. Emit the charge with the events that it pays for.
    """
    admission = admit(decision, payer, Granted(priority, "as_requested"), sum(copies), messages=len(copies))
    if admission.tokens is None or admission.critical_quota is None or admission.blocking_quota is None:
        return None
    cost = _price_of(decision.policy, priority, sum(copies), len(copies))
    return ev.AgentCharged(
        at=decision.now,
        agent=payer.agent,
        cause=cause,
        copies=sum(copies),
        cost=cost,
        tokens=admission.tokens,
        critical_quota=admission.critical_quota,
        blocking_quota=admission.blocking_quota,
    )


def owe(decision: Decision, payer: str, copies: int = 1) -> None:
    """Charge an agent, at the end of the decision, for copies that cannot be refused."""
    if payer in decision.state.agents:
        decision.owed[payer] = decision.owed.get(payer, 0) + copies


def charge_owed(decision: Decision) -> None:
    """Charge agents for the copies that they caused: the Info price for each, as far as they have tokens."""
    for name, copies in decision.owed.items():
        payer = decision.state.agents.get(name)
        if payer is None or decision.policy.roles[payer.role].quota_multiplier is None:
            continue
        tokens, critical, blocking = levels(payer, decision.policy, decision.now)
        cost = min(tokens, copies * decision.policy.bucket.costs[Priority.INFO])
        decision.emit(ev.AgentCharged(decision.now, name, "notices", copies, cost, tokens - cost, critical, blocking))


def apply_charge(state: ProjectState, event: ev.AgentCharged) -> None:
    """Store the balances that are left."""
    agent = state.agents[event.agent]
    agent.tokens, agent.tokens_at = event.tokens, event.at
    agent.critical_quota, agent.blocking_quota = event.critical_quota, event.blocking_quota
    agent.quotas_at = event.at


def _price_of(policy: Policy, priority: int, copies: int, messages: int) -> float:
    costs = policy.bucket.costs
    return messages * costs[priority] + max(0, copies - messages) * costs[Priority.INFO]


def _judge(decision: Decision, sender: Agent) -> Granted | None:
    """Return Info, and why, if a sender inflates its priorities; record when that begins or ends."""
    gaming = decision.policy.gaming
    since = decision.now - gaming.window_us
    past = list(takewhile(lambda entry: entry >> 1 <= since, sender.usage))
    recent = len(sender.usage) - len(past)
    high = sender.usage_high - sum(entry & 1 for entry in past)
    found = recent >= gaming.messages_min and high > gaming.high_priority_ratio * recent
    if found != sender.gaming:
        kind = ev.GamingDetected if found else ev.GamingCleared
        decision.emit(kind(decision.now, sender.agent, recent, high, gaming.high_priority_ratio, gaming.window_s))
    if not found:
        return None
    return Granted(Priority.INFO, "gaming", high, recent, gaming.high_priority_ratio, gaming.window_s)


def levels(agent: Agent, policy: Policy, now: int) -> tuple[float, float, float]:
    """Return an agent's present tokens, Critical quota and Blocking quota."""
    multiplier = policy.roles[agent.role].quota_multiplier
    if multiplier is None:
        return (agent.tokens, agent.critical_quota, agent.blocking_quota)
    bucket, quotas = policy.bucket, policy.quotas
    bucket_s = max(0, now - agent.tokens_at) / 1_000_000
    quota_s = max(0, now - agent.quotas_at) / 1_000_000
    return (
        min(bucket.capacity * multiplier, agent.tokens + bucket_s * bucket.refill_per_s * multiplier),
        _refilled(agent.critical_quota, quota_s, quotas.critical.refill_per_s, quotas.critical.cap, multiplier),
        _refilled(agent.blocking_quota, quota_s, quotas.blocking.refill_per_s, quotas.blocking.cap, multiplier),
    )


def _refilled(level: float, elapsed_s: float, refill_per_s: float, cap: float, multiplier: float) -> float:
    return min(cap * multiplier, level + elapsed_s * refill_per_s * multiplier)


def full_levels(role: str, policy: Policy) -> tuple[float, float, float]:
    """Return the balances that an agent of a role starts with."""
    multiplier = policy.roles[role].quota_multiplier
    if multiplier is None:
        return (0.0, 0.0, 0.0)
    return (
        policy.bucket.capacity * multiplier,
        policy.quotas.critical.cap * multiplier,
        policy.quotas.blocking.cap * multiplier,
    )


def _used_up(code: str, sender: Agent, priority: Priority, left: float, quota: Quota, multiplier: float) -> Exception:
    cap, refill = quota.cap * multiplier, quota.refill_per_s * multiplier
    detail = f"{sender.agent} has used up its {priority_name(priority)} quota"
    return _exhausted(
        code, f"{detail}: {left:.1f} of {cap:g} messages left, {refill:g} more per second", (1 - left) / refill
    )


def _exhausted(code: str, detail: str, wait_s: float, *, possible: bool = True) -> Exception:
    if not possible:
        return refusal(code, f"{detail}, more than its bucket can hold", retryable=False)
    return refusal(code, f"{detail}: try again in {wait_s:.3f} s", retry_after_s=wait_s)


def spend(state: ProjectState, event: ev.MessageAccepted) -> None:
    """Store the sender's remaining balances after an accepted message, and count the send."""
    sender = state.agents.get(event.sender)
    if sender is None:
        return
    at, tokens = event.at, event.tokens
    if tokens is not None:
        critical, blocking = event.critical_quota, event.blocking_quota
        if critical is not None and blocking is not None:
            sender.tokens = tokens
            sender.critical_quota = critical
            sender.blocking_quota = blocking
            sender.tokens_at = sender.quotas_at = at
    if sender.role in state.watched_roles and event.rule not in _UNWATCHED:
        usage = sender.usage
        # Added, not multiplied: the compiled form multiplies large numbers as Python objects.
        if event.requested >= _BLOCKING:
            usage.append(at + at + 1)
            sender.usage_high += 1
        else:
            usage.append(at + at)
        since, most = at - state.usage_window_us, state.usage_max
        while len(usage) > most or (usage and usage[0] >> 1 <= since):
            sender.usage_high -= usage.popleft() & 1


def apply_gaming(state: ProjectState, event: ev.GamingDetected | ev.GamingCleared) -> None:
    """Mark or unmark an agent as inflating its priorities."""
    state.agents[event.agent].gaming = isinstance(event, ev.GamingDetected)
