"""Admission of a message: priority by role, token bucket, quotas, and detection of inflated priorities.

Deciding and spending are separate: `grant` decides the priority that a message is sent at, `admit` computes what it
costs, the `MessageAccepted` event carries the remaining balances, and applying the event only stores them.

Requirement: LIMINAL.
"""

from itertools import takewhile

import msgspec

from tocsin.core import events as ev
from tocsin.core.decision import Decision
from tocsin.core.errors import refusal
from tocsin.core.policy import Policy, Role
from tocsin.core.protocol.priority import Priority, priority_name
from tocsin.core.state import Agent, ProjectState

__all__ = [
    "Admission",
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


_BLOCKING = Priority.BLOCKING


class Admission(msgspec.Struct, frozen=True):
    """An admitted message: its priority, the rule that chose it, and the sender's remaining balances."""

    priority: Priority
    rule: str
    tokens: float | None
    critical_quota: float | None
    blocking_quota: float | None


def grant(decision: Decision, sender: Agent, requested: Priority, *, default: bool) -> tuple[Priority, str]:
    """Return the priority at which a sender's message is sent, and the rule that chose it; refuse one over its role."""
    priority, rule = _priority(decision, sender, decision.policy.roles[sender.role], requested)
    return priority, "contract_default" if rule == "as_requested" and default else rule


def admit(
    decision: Decision, sender: Agent, priority: Priority, rule: str, copies: int = 1, messages: int = 1
) -> Admission:
    """Return the sender's balances after a message of a granted priority; refuse one over a limit, with a retry time.

    The price of its priority is paid once for each message, and the Info price for each further copy, so that an urgent
    message to a whole team is possible.
    """
    role = decision.policy.roles[sender.role]
    if role.quota_multiplier is None:
        return Admission(priority, rule, None, None, None)
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
            wait = (1 - critical) / (quotas.critical.refill_per_s * role.quota_multiplier)
            raise _exhausted("E_ADMISSION_002", f"{sender.agent} has used up its Critical quota", wait)
        critical -= 1
    elif priority is Priority.BLOCKING:
        if blocking < 1:
            wait = (1 - blocking) / (quotas.blocking.refill_per_s * role.quota_multiplier)
            raise _exhausted("E_ADMISSION_003", f"{sender.agent} has used up its Blocking quota", wait)
        blocking -= 1
    return Admission(priority, rule, tokens - cost, critical, blocking)


def bill(decision: Decision, payer: Agent, cause: str, priority: Priority, *copies: int) -> ev.AgentCharged | None:
    """Return the charge for messages of the bus that an agent causes, or refuse it; null for an unlimited agent.

    Each of `copies` is the number of recipients of one message. Emit the charge with the events that it pays for.
    """
    admission = admit(decision, payer, priority, "as_requested", sum(copies), messages=len(copies))
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


def _priority(decision: Decision, sender: Agent, role: Role, requested: Priority) -> tuple[Priority, str]:
    if requested > role.cap:
        if role.lowers:
            return role.cap, "role_cap"
        raise refusal(
            "E_ADMISSION_004",
            f"{sender.agent} is {sender.role} and may send with a priority up to {role.max_priority}",
            field="$.priority",
            found=priority_name(requested),
            expected=f"at most {role.max_priority}",
        )
    if role.watched and _judge(decision, sender):
        return Priority.INFO, "gaming"
    return requested, "as_requested"


def _judge(decision: Decision, sender: Agent) -> bool:
    """Return whether a sender inflates its priorities, and record when that begins or ends."""
    gaming = decision.policy.gaming
    since = decision.now - gaming.window_us
    past = list(takewhile(lambda entry: entry >> 1 <= since, sender.usage))
    recent = len(sender.usage) - len(past)
    high = sender.usage_high - sum(entry & 1 for entry in past)
    found = recent >= gaming.messages_min and high > gaming.high_priority_ratio * recent
    if found != sender.gaming:
        kind = ev.GamingDetected if found else ev.GamingCleared
        decision.emit(kind(decision.now, sender.agent, recent, high, gaming.high_priority_ratio, gaming.window_s))
    return found


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


def _exhausted(code: str, detail: str, wait_s: float, *, possible: bool = True) -> Exception:
    if not possible:
        return refusal(code, f"{detail}, more than its bucket can hold", retryable=False)
    return refusal(code, f"{detail}: try again in {wait_s:.3f} s", retry_after_s=wait_s)


def spend(state: ProjectState, event: ev.MessageAccepted) -> None:
    """Store the sender's remaining balances after an accepted message, and count the send."""
    sender = state.agents.get(event.sender)
    if sender is None:
        return
    if event.tokens is not None and event.critical_quota is not None and event.blocking_quota is not None:
        sender.tokens, sender.tokens_at = event.tokens, event.at
        sender.critical_quota, sender.blocking_quota = event.critical_quota, event.blocking_quota
        sender.quotas_at = event.at
    if state.policy.roles[sender.role].watched and event.rule not in ("confirmation", "imported"):
        gaming, at = state.policy.gaming, event.at
        usage = sender.usage
        high = event.requested >= _BLOCKING
        usage.append(at * 2 + high)
        sender.usage_high += high
        since, most = at - gaming.window_us, gaming.samples_max
        while usage and (len(usage) > most or usage[0] >> 1 <= since):
            sender.usage_high -= usage.popleft() & 1


def apply_gaming(state: ProjectState, event: ev.GamingDetected | ev.GamingCleared) -> None:
    """Mark or unmark an agent as inflating its priorities."""
    state.agents[event.agent].gaming = isinstance(event, ev.GamingDetected)
