"""Ordinary sends and receipts, decided by plan: the short way of most messages.

A message is ordinary if a plan exists for it and nothing unusual holds at the moment: no duplicate id, no limit
reached, no inherited priority, nothing that waits before it. Then its decision is one acceptance, with an offer if it
can be pushed at once. A receipt is ordinary if it confirms a present offer; what follows from it is decided in full.
Everything else is left to `sending` and `settlement`, whose decisions these functions repeat: the simulator compares
the events and the state of both ways at every step.
"""

from tocsin.core import events as ev
from tocsin.core.agents.presence import resolve
from tocsin.core.commands import Caller
from tocsin.core.messages.model import Message, PublishPath, RecipientState, State
from tocsin.core.messages.plans import Plan, plan_of
from tocsin.core.messages.retention import is_over_limits
from tocsin.core.protocol.envelope import ANYONE, VERSIONS, Envelope, body, instant, is_plain
from tocsin.core.protocol.priority import VOCABULARY, Priority
from tocsin.core.queueing.queue_manager import is_steady
from tocsin.core.state import ProjectState

__all__ = ["decide_confirm", "decide_send", "has_consequences"]

_VERSION = VERSIONS[-1]
_NO_METADATA = b"{}"
_OFFERED = State.OFFERED
_AVAILABLE, _STALE, _OFFLINE = RecipientState.AVAILABLE, RecipientState.STALE, RecipientState.OFFLINE
_PUSHED, _PIGGYBACK, _QUEUED = PublishPath.PUSHED, PublishPath.PIGGYBACK, PublishPath.QUEUED
_BLOCKING, _CRITICAL = int(Priority.BLOCKING), int(Priority.CRITICAL)

#: The acceptance of a message, and its offer if it is pushed at once.
Sent = tuple[ev.MessageAccepted, ev.MessageOffered | None]


def decide_send(state: ProjectState, caller: Caller, envelope: Envelope, now: int) -> Sent | None:
    """Return the events of an ordinary send; null if it has to be decided in full."""
    if not is_plain(envelope):
        return None
    name, receiver, message_id = caller.agent, envelope.receiver, envelope.message_id
    key = (name, receiver.agent_id, envelope.message_type)
    try:
        plan: Plan | None = state.plans[key]
    except KeyError:
        plan = plan_of(state, *key)
    if plan is None or plan.role != caller.role or envelope.sender.agent_id != name:
        return None
    recipient = plan.recipient
    if receiver.type != ANYONE and receiver.type != recipient.agent_type:
        return None
    if message_id in state.ids or message_id in state.broadcasts or is_over_limits(state):
        return None
    depth, sessions = recipient.mailbox.depth, recipient.sessions
    if depth >= plan.depth_max:
        return None
    # The route, as `resolve` finds it.
    resolved: str | None = None
    presence, path = _OFFLINE, _QUEUED
    if len(sessions) == 1:
        (session,) = sessions.values()
        if now - session.heartbeat_at > plan.stale_after_us:
            presence = _STALE
        else:
            presence = _AVAILABLE
            if session.kind == "piggyback":
                path, resolved = _PIGGYBACK, session.session
            elif len(session.in_flight) < session.window:
                path, resolved = _PUSHED, session.session
    elif sessions:
        presence, path, resolved = resolve(recipient, state.policy, now)
    if path is not _PUSHED:
        if plan.is_sync and path is _QUEUED:
            return None
    elif depth or plan.recipient_name in state.attention or _is_lent(state, plan):
        return None
    asked = envelope.priority
    requested = plan.default if asked is None else VOCABULARY[asked]
    if requested > plan.cap:
        return None
    sender = plan.sender
    if plan.watched:
        since = now - plan.gaming_window_us
        recent, high = len(sender.usage), sender.usage_high
        for entry in sender.usage:
            if entry >> 1 > since:
                break
            recent -= 1
            high -= entry & 1
        if sender.gaming or (recent >= plan.gaming_min and high > plan.gaming_ratio * recent):
            return None
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
        cost = plan.costs[requested]
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
        if requested == _CRITICAL:
            if critical < 1:
                return None
            critical -= 1
        elif requested == _BLOCKING:
            if blocking < 1:
                return None
            blocking -= 1
    accepted = ev.MessageAccepted(
        now,
        message_id,
        plan.sender_name,
        plan.recipient_name,
        plan.message_type,
        requested,
        requested,
        "contract_default" if asked is None else "as_requested",
        plan.importance,
        state.latency.rate if plan.adaptive else 0.0,
        plan.delivery_class,
        plan.ack_required,
        now + plan.ttl_us,
        instant(envelope.timestamp),
        _VERSION,
        None,
        False,
        None,
        body(envelope.payload),
        _NO_METADATA,
        presence,
        path,
        resolved,
        tokens,
        critical,
        blocking,
    )
    if path is not _PUSHED or resolved is None:
        return accepted, None
    return accepted, ev.MessageOffered(now, state.seq + 1, resolved, 1, requested, 0, True)


def _is_lent(state: ProjectState, plan: Plan) -> bool:
    """Tell whether the message may inherit priority, which its offer would show."""
    return bool(state.inherited) and (plan.sender_name in state.inherited or plan.recipient_name in state.inherited)


def decide_confirm(state: ProjectState, caller: Caller, message_id: str, now: int) -> ev.MessageDelivered | None:
    """Return the event of an ordinary receipt; null if it has to be decided in full."""
    seq = state.ids.get(message_id)
    message: Message | None = None if seq is None else state.messages.get(seq)
    if message is None or message.state is not _OFFERED or message.recipient != caller.agent:
        return None
    agent = state.agents.get(message.recipient)
    if agent is None or agent.role != caller.role:
        return None
    return ev.MessageDelivered(now, message.seq, "receipt")


def has_consequences(state: ProjectState, agent: str, now: int) -> bool:
    """Tell whether anything may follow from a receipt just applied: an offer, another decay rate, or forgetting."""
    return state.agents[agent].mailbox.depth > 0 or not is_steady(state, now) or is_over_limits(state)
