"""Acceptance of a message: the checked draft, the event that accepts it, and the message that the event creates."""

from sys import intern
from typing import Any, Final

import msgspec

from tocsin.core import events as ev
from tocsin.core.agents.preemption import is_held_back
from tocsin.core.commands import Reach, Receipt, receipt_of
from tocsin.core.decision import Decision
from tocsin.core.errors import refusal
from tocsin.core.messages.admission import Admission, spend
from tocsin.core.messages.correlation import follow
from tocsin.core.messages.delivery import pump, start_offer
from tocsin.core.messages.message import Message, signal_id
from tocsin.core.messages.model import PublishPath, State
from tocsin.core.messages.routing import Route
from tocsin.core.policy import microseconds
from tocsin.core.protocol.contracts import AckRule, Contract, DeliveryClass
from tocsin.core.protocol.envelope import Envelope, Qos
from tocsin.core.protocol.parsing import body, metadata_of
from tocsin.core.protocol.priority import Priority
from tocsin.core.protocol.timestamps import as_microseconds
from tocsin.core.queueing.decay import rounded_rate
from tocsin.core.scheduling import schedule
from tocsin.core.state import Agent, ProjectState
from tocsin.core.waiting.inheritance import lend_on_acceptance, level_on_acceptance
from tocsin.core.wake.reach import reach_of

__all__ = ["Draft", "accept", "apply_accepted", "apply_pushed", "draft_of", "emit_accepted", "message_of"]

_NO_QOS: Final = Qos()
_HELD: Final = State.HELD
_QUEUED: Final = State.QUEUED


class Draft(msgspec.Struct, frozen=True):
    """A checked message before acceptance: everything but its recipient and its cost."""

    envelope: Envelope
    contract: Contract
    requested: Priority
    delivery_class: DeliveryClass
    importance: int
    decay_rate: float
    ttl_us: int
    opens_thread: bool
    payload: bytes
    metadata: bytes
    #: Handoff point at which it is held; empty if it is queued at once.
    held: str = ""

    @property
    def size(self) -> int:
        """Return the bytes that each copy counts."""
        return len(self.payload) + len(self.metadata)


def draft_of(
    decision: Decision, envelope: Envelope, contract: Contract, requested: Priority, opens_thread: bool
) -> Draft:
    """Return a draft with the defaults of the contract filled in; refuse a TTL over the limit."""
    qos, metadata, decay = envelope.qos or _NO_QOS, metadata_of(envelope), decision.policy.decay
    ttl_s = contract.ttl_s if metadata.ttl is None else metadata.ttl
    if ttl_s > decision.policy.limits.ttl_max_s:
        limit = f"at most {decision.policy.limits.ttl_max_s:.15g}"
        raise refusal(
            "E_VALIDATION_004",
            f"$.metadata.ttl is {ttl_s:.15g}: it must be {limit}",
            field="$.metadata.ttl",
            found=f"{ttl_s:.15g}",
            expected=limit,
        )
    if qos.decay_rate is not None:
        decay_rate = rounded_rate(qos.decay_rate, decay)
    else:
        decay_rate = decision.state.latency.rate if contract.adaptive_decay else 0.0
    delivery_class = qos.delivery_class or contract.delivery_class
    importance = decay.importance_default if qos.importance is None else qos.importance
    ttl_us = max(1, microseconds(ttl_s))
    return Draft(
        envelope,
        contract,
        requested,
        delivery_class,
        importance,
        decay_rate,
        ttl_us,
        opens_thread,
        body(envelope.payload),
        body(envelope.metadata),
    )


def accept(decision: Decision, draft: Draft, way: Route, admission: Admission, broadcast: str | None) -> Receipt:
    """Accept a draft for one recipient and offer it if the recipient can take it now."""
    envelope, granted = draft.envelope, admission.granted
    message = emit_accepted(
        decision,
        way.recipient,
        ev.MessageAccepted(
            at=decision.now,
            message_id=envelope.message_id,
            sender=envelope.sender.agent_id,
            recipient=way.recipient.agent,
            message_type=envelope.message_type,
            requested=draft.requested,
            priority=granted.priority,
            rule=granted.rule,
            importance=draft.importance,
            decay_rate=draft.decay_rate,
            delivery_class=draft.delivery_class,
            ack_required=draft.contract.ack is AckRule.REQUIRED,
            expires_at=decision.now + draft.ttl_us,
            sent_at=as_microseconds(envelope.timestamp),
            version=envelope.version,
            correlation_id=envelope.correlation_id,
            opens_thread=draft.opens_thread,
            broadcast=broadcast,
            payload=b"" if broadcast else draft.payload,
            metadata=b"" if broadcast else draft.metadata,
            recipient_state=way.recipient_state,
            publish_path=way.publish_path,
            resolved_session=way.session,
            tokens=admission.tokens,
            critical_quota=admission.critical_quota,
            blocking_quota=admission.blocking_quota,
            held=draft.held,
            high=granted.high,
            messages=granted.messages,
            limit=granted.limit,
            window_s=granted.window_s,
        ),
    )
    reach: Reach = "push" if message.pushed else reach_of(decision.state, way.recipient)
    return receipt_of(message, signal_id(message), duplicate=False, reach=reach)


def emit_accepted(decision: Decision, recipient: Agent, event: ev.MessageAccepted) -> Message:
    """Emit an acceptance, with the path that the message really takes, and offer it if the recipient can take it now.

    A message that is held for approval, or that waits until a busy recipient pauses, is queued.
    """
    state = decision.state
    pushed = event.publish_path is PublishPath.PUSHED
    attention = state.attention.get(recipient.agent) if pushed else None
    if event.held or (attention is not None and is_held_back(attention, level_on_acceptance(state, event))):
        event = msgspec.structs.replace(event, publish_path=PublishPath.QUEUED, resolved_session=None)
    decision.emit(event)
    message = state.messages[state.seq]
    if not event.held:
        pump(decision, recipient, message.seq)
    return message


def message_of(
    seq: Any, event: ev.MessageAccepted, sender: str, recipient: str, content: tuple[bytes, bytes]
) -> Message:
    """Return the message that an acceptance creates; `content` is payload and metadata, for a copy of its broadcast."""
    at: Any = event.at
    priority: Any = event.priority
    # By position, in the order of the fields: names cost as much as the rest.
    return Message(
        seq,
        event.message_id,
        sender,
        recipient,
        intern(event.message_type),
        priority,
        priority,
        event.requested,
        event.importance,
        event.decay_rate,
        event.delivery_class,
        event.ack_required,
        _HELD if event.held else _QUEUED,
        at,
        at,
        event.expires_at,
        event.sent_at,
        content[0],
        content[1],
        event.correlation_id,
        event.broadcast,
        event.recipient_state,
        event.publish_path,
        event.resolved_session,
        priority,
    )


def apply_accepted(state: ProjectState, event: ev.MessageAccepted) -> None:
    """Add the message and queue or hold it."""
    message = _add(state, event, state.seq)
    if state.inherited:
        lend_on_acceptance(state, message)
    schedule(state, message)
    spend(state, event)


def apply_pushed(state: ProjectState, accepted: ev.MessageAccepted, offered: ev.MessageOffered) -> None:
    """Apply an acceptance and the offer that follows at once, as one after the other, but without the queue between.

    The message must be to one agent, and neither sender nor recipient may inherit priority.
    """
    message = _add(state, accepted, offered.message)
    start_offer(state, message, offered)
    spend(state, accepted)


def _add(state: ProjectState, event: ev.MessageAccepted, number: int) -> Message:
    """Add an accepted message, without a place in a queue."""
    # Typed as Any so that the compiled form shares one int object between all who keep it.
    seq: Any = number
    content = (event.payload, event.metadata)
    if event.broadcast is None:
        state.ids[event.message_id] = seq
    else:
        broadcast = state.broadcasts[event.broadcast]
        broadcast.copies[event.recipient] = seq
        content = (broadcast.payload, broadcast.metadata)
        if len(broadcast.copies) == broadcast.accepted:
            broadcast.payload = broadcast.metadata = b""
    sender = state.agents.get(event.sender)
    recipient = state.agents[event.recipient].agent
    message = message_of(seq, event, event.sender if sender is None else sender.agent, recipient, content)
    state.messages[seq] = message
    state.volume.add(message)
    if event.correlation_id is not None:
        follow(state, event)
    return message
