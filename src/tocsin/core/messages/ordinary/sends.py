"""Ordinary sends, decided by plan.

A message is ordinary if a plan exists for it and nothing unusual holds at the moment: no duplicate id, no limit
reached, no inherited priority before a push, nothing that waits before it. Then its decision is one acceptance, with an
offer if it can be pushed at once. What follows from it (a request that it answers, an escalation, forgetting) is
decided in full afterwards. Everything else is left to `sending`.
"""

from typing import Final

from msgspec import DecodeError, structs

from tocsin.core import events as ev
from tocsin.core.agents.preemption import is_held_back
from tocsin.core.agents.presence import resolve
from tocsin.core.commands import Caller, Receipt
from tocsin.core.messages.correlation import answered, may_join
from tocsin.core.messages.message import Message
from tocsin.core.messages.model import PublishPath, RecipientState
from tocsin.core.messages.ordinary.plans import Plan, plan_of, recipient_of
from tocsin.core.policy import microseconds
from tocsin.core.protocol.contracts import CorrelationRule, DeliveryClass
from tocsin.core.protocol.envelope import ANYONE, NO_METADATA, VERSIONS, Envelope
from tocsin.core.protocol.parsing import body, ttl_of
from tocsin.core.protocol.payloads import ErrorReport, StateSync, completes, registers
from tocsin.core.protocol.priority import PRIORITY_NAMES, VOCABULARY, Priority
from tocsin.core.protocol.timestamps import as_datetime, as_microseconds
from tocsin.core.queueing.decay import rounded_rate
from tocsin.core.state import ProjectState
from tocsin.core.wake.reach import reach_of

__all__ = ["Sent", "decide_send"]

_LATEST: Final = VERSIONS[-1]
_EMPTY: Final = b"{}"
_OPTIONAL: Final = CorrelationRule.OPTIONAL
_SYNC: Final = DeliveryClass.SYNC
_AVAILABLE: Final = RecipientState.AVAILABLE
_STALE: Final = RecipientState.STALE
_OFFLINE: Final = RecipientState.OFFLINE
_PUSHED: Final = PublishPath.PUSHED
_PIGGYBACK: Final = PublishPath.PIGGYBACK
_QUEUED: Final = PublishPath.QUEUED
_BLOCKING: Final = int(Priority.BLOCKING)
_CRITICAL: Final = int(Priority.CRITICAL)
# Names that the compiled form reads from a fixed place and not from a dictionary.
_Accepted: Final = ev.MessageAccepted
_Offered: Final = ev.MessageOffered
_Receipt: Final = Receipt
_NAMES: Final = PRIORITY_NAMES
_LEVELS: Final = VOCABULARY
_ANYONE: Final = ANYONE
_NO_METADATA: Final = NO_METADATA

#: The acceptance of a message, its offer if it is pushed at once, its receipt, the request that it answers, and whether
#: anything follows from it that is decided in full.
Sent = tuple[ev.MessageAccepted, ev.MessageOffered | None, Receipt, Message | None, bool]


def decide_send(state: ProjectState, caller: Caller, envelope: Envelope, now: int) -> Sent | None:
    """Return the decision on an ordinary send; null if it has to be decided in full."""
    name, receiver, message_id = caller.agent, envelope.receiver, envelope.message_id
    key = (name, envelope.message_type)
    plan: Plan | None = state.plans.get(key)
    if plan is None:
        plan = None if key in state.plans else plan_of(state, *key)
        if plan is None:
            return None
    if plan.role != caller.role or envelope.sender.agent_id != name:
        return None
    version = envelope.version
    if version != _LATEST and version < plan.since:
        return None
    recipient = plan.recipients.get(receiver.agent_id)
    if recipient is None:
        known = receiver.agent_id in plan.recipients
        recipient = None if known else recipient_of(state, plan, receiver.agent_id)
        if recipient is None:
            return None
    if receiver.type != _ANYONE and receiver.type != recipient.agent_type:
        return None
    recipient_name = recipient.agent
    if message_id in state.ids or (state.broadcasts and message_id in state.broadcasts):
        return None

    # The content, and what it says about its thread.
    payload, done, follows = envelope.payload, False, False
    if plan.decode is not None:
        try:
            decoded = plan.decode(payload)
        except DecodeError:
            return None
        if isinstance(decoded, StateSync) and registers(decoded, name):
            return None
        done = completes(decoded)
        follows = isinstance(decoded, ErrorReport) and decoded.severity == "critical"
    correlation_id, opens_thread = envelope.correlation_id, False
    request: Message | None = None
    if correlation_id is None:
        if plan.correlation is not _OPTIONAL:
            return None
    else:
        thread = state.threads.get(correlation_id)
        if not may_join(thread, plan.correlation):
            return None
        opens_thread = thread is None
        if thread is not None and thread.sender == recipient_name:
            request = answered(state, correlation_id, name, recipient_name, completes=done)
        if request is not None or (state.asked and (correlation_id, name, recipient_name) in state.asked):
            follows = True

    # What the sender sets for this message alone.
    ttl_us, content, metadata = plan.ttl_us, body(payload), _EMPTY
    if envelope.metadata is not _NO_METADATA:
        try:
            ttl_s = ttl_of(envelope)
        except DecodeError:
            return None
        metadata = body(envelope.metadata)
        if ttl_s is not None:
            if ttl_s > plan.ttl_max_s:
                return None
            ttl_us = max(1, microseconds(ttl_s))
    delivery_class, importance = plan.delivery_class, plan.importance
    decay_rate = state.latency.rate if plan.adaptive else 0.0
    qos = envelope.qos
    if qos is not None:
        if qos.delivery_class is not None:
            delivery_class = qos.delivery_class
        if qos.importance is not None:
            importance = qos.importance
        if qos.decay_rate is not None:
            decay_rate = rounded_rate(qos.decay_rate, state.policy.decay)

    # The route, as `resolve` finds it.
    depth, sessions = recipient.mailbox.depth, recipient.sessions
    size, volume = len(content) + len(metadata), state.volume
    if (
        depth >= plan.depth_max
        or volume.by_recipient.get(recipient_name, 0) + size > plan.mailbox_bytes_max
        or volume.by_sender.get(plan.sender_name, 0) + size > plan.sender_bytes_max
        or volume.unsettled + size > plan.project_bytes_max
    ):
        return None
    resolved: str | None = None
    presence, path = _OFFLINE, _QUEUED
    if len(sessions) == 1:
        (session,) = sessions.values()
        if now - session.heartbeat_at > plan.stale_after_us:
            presence = _STALE
        else:
            presence = _AVAILABLE
            if session.kind == "piggyback" or session.kind == "channel":
                path, resolved = _PIGGYBACK, session.session
            elif len(session.in_flight) < session.window:
                path, resolved = _PUSHED, session.session
    elif sessions:
        presence, path, resolved = resolve(recipient, state.policy, now)
    if path is _QUEUED and delivery_class is _SYNC:
        return None

    # The priority, and what it costs.
    asked = envelope.priority
    if asked is None:
        requested, rule = plan.default, "contract_default"
    else:
        requested, rule = _LEVELS[asked], "as_requested"
    priority, sender = requested, plan.sender
    limit: float | None = None
    if requested > plan.cap:
        if not plan.lowers:
            return None
        priority, rule, limit = plan.cap, "role_cap", float(plan.cap)
    elif plan.watched:
        since = now - plan.gaming_window_us
        recent, high = len(sender.usage), sender.usage_high
        for entry in sender.usage:
            if entry >> 1 > since:
                break
            recent -= 1
            high -= entry & 1
        if sender.gaming or (recent >= plan.gaming_min and high > plan.gaming_ratio * recent):
            return None
    if path is _PUSHED:
        if depth or _is_lent(state, plan.sender_name, recipient_name):
            return None
        if state.attention:
            attention = state.attention.get(recipient_name)
            if attention is not None and attention.work is not None:
                if not is_held_back(attention, priority):
                    return None
                path, resolved = _QUEUED, None
    tokens: float | None = None
    critical: float | None = None
    blocking: float | None = None
    factor = plan.multiplier
    if factor is not None:
        # The arithmetic of `admission.levels`, in the same order, so that the balances are equal to the last bit.
        elapsed_us = now - sender.tokens_at
        elapsed_s = elapsed_us / 1_000_000 if elapsed_us > 0 else 0.0
        tokens = sender.tokens + elapsed_s * plan.bucket_refill * factor
        if tokens > plan.bucket_capacity:
            tokens = plan.bucket_capacity
        cost = plan.costs[priority]
        if tokens < cost:
            return None
        tokens -= cost
        elapsed_us = now - sender.quotas_at
        elapsed_s = elapsed_us / 1_000_000 if elapsed_us > 0 else 0.0
        critical = sender.critical_quota + elapsed_s * plan.critical_refill * factor
        if critical > plan.critical_cap:
            critical = plan.critical_cap
        blocking = sender.blocking_quota + elapsed_s * plan.blocking_refill * factor
        if blocking > plan.blocking_cap:
            blocking = plan.blocking_cap
        if priority == _CRITICAL:
            if critical < 1:
                return None
            critical -= 1
        elif priority == _BLOCKING:
            if blocking < 1:
                return None
            blocking -= 1

    if (
        len(state.settled) >= state.settled_full
        or len(state.acknowledged) >= state.acknowledged_full
        or len(state.threads) + opens_thread >= state.threads_full
        or volume.kept_bytes > state.kept_full
    ):
        follows = True
    timestamp, expires_at = envelope.timestamp, now + ttl_us
    if timestamp is not plan.timestamp:
        plan.timestamp, plan.sent_at = timestamp, as_microseconds(timestamp)
    accepted = _Accepted(
        now,
        message_id,
        plan.sender_name,
        recipient_name,
        plan.message_type,
        requested,
        priority,
        rule,
        importance,
        decay_rate,
        delivery_class,
        plan.ack_required,
        expires_at,
        plan.sent_at,
        version,
        correlation_id,
        opens_thread,
        None,
        content,
        metadata,
        presence,
        path,
        resolved,
        tokens,
        critical,
        blocking,
        "",
        0,
        0,
        limit,
    )
    pushed = path is _PUSHED
    receipt = _Receipt(
        message_id,
        message_id,
        pushed,
        not pushed,
        recipient_name,
        presence,
        delivery_class,
        as_datetime(expires_at),
        resolved,
        path,
        _NAMES[priority],
        _NAMES[requested],
        False,
        False,
        state.durability,
        state.copies,
    )
    if not pushed or resolved is None:
        # A pushed message reaches its recipient by the default.
        receipt = structs.replace(receipt, reach=reach_of(state, recipient))
        return accepted, None, receipt, request, follows
    return accepted, _Offered(now, state.seq + 1, resolved, 1, priority, 0, True), receipt, request, follows


def _is_lent(state: ProjectState, sender: str, recipient: str) -> bool:
    """Tell whether a message may inherit priority, which its offer would show."""
    return bool(state.inherited) and (sender in state.inherited or recipient in state.inherited)
