"""ACK and NACK messages: each settles the message that it names and is delivered to that message's sender."""

from tocsin.core.commands import Acknowledged, Receipt, Rejected
from tocsin.core.decision import Decision
from tocsin.core.errors import refusal
from tocsin.core.messages.acceptance import accept, draft_of
from tocsin.core.messages.admission import Admission, Granted
from tocsin.core.messages.capacity import over_sender_or_project
from tocsin.core.messages.correlation import check_correlation
from tocsin.core.messages.delivery import pump
from tocsin.core.messages.message import Message, is_open_to_recipient, signal_id
from tocsin.core.messages.model import State
from tocsin.core.messages.routing import Route, route
from tocsin.core.messages.settlement import acknowledge, must_be_open, must_be_rejectable, reject
from tocsin.core.protocol.contracts import Contract
from tocsin.core.protocol.envelope import Envelope
from tocsin.core.protocol.payloads import Ack, Nack
from tocsin.core.protocol.priority import Priority
from tocsin.core.protocol.timestamps import as_datetime
from tocsin.core.state import Agent

__all__ = ["send_confirmation"]


def send_confirmation(
    decision: Decision, sender: Agent, envelope: Envelope, contract: Contract, requested: Priority, payload: Ack | Nack
) -> Receipt | Acknowledged | Rejected:
    """Settle the named message as the ACK or NACK command does, and deliver the confirmation to its sender.

    It costs nothing. The named message is settled even if its sender is retired, has a full mailbox, or is the bus
    itself, or if there is no room for the bytes of the confirmation: otherwise the message would be delivered again.
    """
    subject = _subject(decision, sender, payload)
    if envelope.receiver.agent_id != subject.sender:
        raise refusal(
            "E_ROUTING_002",
            f"{envelope.message_type} of {subject.message_id} must be sent to its sender {subject.sender}",
            field="$.receiver.agentId",
            found=envelope.receiver.agent_id,
            expected=subject.sender,
        )
    check_correlation(decision, envelope, contract.correlation, subject)
    draft = draft_of(decision, envelope, contract, requested, opens_thread=False)
    receipt = None
    recipient = decision.state.agents.get(subject.sender)
    if recipient is not None:
        priority = min(requested, decision.policy.roles[sender.role].cap)
        message_type, delivery_class = envelope.message_type, draft.delivery_class
        way = route(decision, recipient, message_type, contract, delivery_class, priority, draft.size)
        over = over_sender_or_project(decision, sender.agent, priority, draft.size)
        if isinstance(way, Route) and over is None:
            receipt = accept(decision, draft, way, Admission(Granted(priority, "confirmation"), None, None, None), None)
    confirmed = _confirm(decision, subject, payload)
    pump(decision, sender)
    return receipt or confirmed


def _subject(decision: Decision, sender: Agent, payload: Ack | Nack) -> Message:
    """Return the message that an ACK or NACK names; refuse one that cannot be confirmed or rejected."""
    if isinstance(payload, Ack):
        message_id, field = payload.acknowledged_message_id, "$.payload.acknowledgedMessageId"
    else:
        message_id, field = payload.rejected_message_id, "$.payload.rejectedMessageId"
    message = decision.state.copy_for(sender.agent, message_id)
    if message is None or not is_open_to_recipient(message):
        raise refusal(
            "E_STATE_001",
            f"{message_id[:128]} was not found: unknown, not addressed to you, or no longer kept",
            field=field,
            found=message_id,
        )
    if isinstance(payload, Ack):
        must_be_open(message, "acknowledged")
    else:
        must_be_rejectable(message)
    return message


def _confirm(decision: Decision, subject: Message, payload: Ack | Nack) -> Acknowledged | Rejected:
    if isinstance(payload, Ack):
        changed = acknowledge(decision, subject, payload.status, payload.notes or "")
        return Acknowledged(signal_id(subject), subject.state, duplicate=not changed)
    reject(
        decision,
        subject,
        payload.reason,
        payload.error_code or "",
        bool(payload.can_retry),
        payload.suggested_fix or "",
    )
    ready_at = as_datetime(subject.ready_at) if subject.state is State.QUEUED else None
    return Rejected(signal_id(subject), subject.state, ready_at)
