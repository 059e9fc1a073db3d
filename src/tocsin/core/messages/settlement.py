"""Settlement of delivered messages: receipts, ACK, NACK, processed, and their timeouts.

A confirmation implies the ones before it: an ACK implies the receipt, a response implies the ACK. Confirming twice
changes nothing. An agent can confirm only its own copy.

Requirement: APM §4.2, §4.3.
"""

from typing import Final

from tocsin.core import events as ev
from tocsin.core.commands import (
    Acknowledge,
    Acknowledged,
    Confirm,
    Confirmed,
    Done,
    MarkProcessed,
    Reject,
    Rejected,
)
from tocsin.core.decision import Decision
from tocsin.core.errors import CATALOGUE, TocsinError, refusal
from tocsin.core.messages.cursors import offers_of
from tocsin.core.messages.delivery import clear_in_flight, end_offer, pump, requeue
from tocsin.core.messages.endings.dead_letters import die
from tocsin.core.messages.lifecycle import advance
from tocsin.core.messages.message import Message, is_open_to_recipient, signal_id
from tocsin.core.messages.model import State
from tocsin.core.policy import microseconds
from tocsin.core.protocol.timestamps import as_datetime
from tocsin.core.queueing.queue_manager import observe
from tocsin.core.scheduling import ack_due, ack_timeout_us, move, receipt_due, receipt_timeout_us, schedule
from tocsin.core.state import Agent, ProjectState

__all__ = [
    "acknowledge",
    "apply_acknowledged",
    "apply_delivered",
    "apply_processed",
    "apply_rejected",
    "decide_acknowledge",
    "decide_confirm",
    "decide_processed",
    "decide_reject",
    "fire_ack",
    "fire_receipt",
    "follow_ack",
    "follow_receipt",
    "mark_received",
    "must_be_open",
    "must_be_rejectable",
    "process",
    "reject",
]

_SETTLED: Final = frozenset({State.ACKNOWLEDGED, State.PROCESSED})
_QUEUED: Final = State.QUEUED
_OFFERED: Final = State.OFFERED
_DELIVERED: Final = State.DELIVERED
_STATUSES: Final = ("received", "queued", "processed")


def decide_confirm(decision: Decision, command: Confirm) -> Confirmed:
    """Record receipts: of messages by their ids, and of drains by their cursors."""
    me = decision.me()
    limit = decision.policy.limits.batch_max
    if len(command.message_ids) > limit:
        raise refusal("E_ADMISSION_008", f"too many receipts: at most {limit} at a time", retryable=False)
    confirmed = 0
    unknown: list[str] = []
    for message_id in command.message_ids:
        message = decision.state.copy_for(me.agent, message_id)
        if message is None or not message.offers:
            unknown.append(message_id)
        else:
            confirmed += arrive(decision, message, "receipt")
    confirmed += _confirm_cursors(decision, me, command.receipt, unknown)
    pump(decision, me)
    return Confirmed(confirmed, tuple(unknown))


def follow_receipt(decision: Decision, message: Message) -> None:
    """Do what follows from a receipt that was applied: adapt the decay rate, offer what waits."""
    if not message.ack_required:
        observe(decision)
    pump(decision, decision.me())


def follow_ack(decision: Decision) -> None:
    """Do what follows from a required ACK that was applied: adapt the decay rate, offer what waits."""
    observe(decision)
    pump(decision, decision.me())


def _confirm_cursors(decision: Decision, me: Agent, receipt: str, unknown: list[str]) -> int:
    """Confirm the offers of each cursor that a receipt quotes; add the cursors that are not the agent's to `unknown`.

    A message is confirmed only by its last offer. One that was returned to the queue for another reason than a missing
    receipt was rejected or not acknowledged after that offer: it is to be delivered again.
    """
    limit = decision.policy.limits.window_max
    offers: dict[int, int] = {}
    for cursor in receipt.replace(",", " ").split():
        found = offers_of(me, cursor, limit)
        if found is None:
            unknown.append(cursor)
        else:
            offers.update(found)
    if len(offers) > limit:
        raise refusal(
            "E_ADMISSION_008", f"too many receipts: quote at most {limit} messages at a time", retryable=False
        )
    confirmed = 0
    for number, offer in offers.items():
        message = decision.state.messages.get(number)
        if message is None or message.recipient != me.agent or message.offers != offer:
            continue
        failure = decision.state.failures.get(number)
        if message.state is _OFFERED or failure is None or failure.reason == "receipt_timeout":
            confirmed += arrive(decision, message, "receipt")
    return confirmed


def arrive(decision: Decision, message: Message, how: str) -> bool:
    """Record that a message has arrived; return whether that changed anything."""
    if message.state is not _OFFERED and message.state is not _QUEUED:
        return False
    offered_at = message.offered_at
    decision.emit(ev.MessageDelivered(decision.now, message.seq, how))
    if not message.ack_required and offered_at:
        observe(decision)
    return True


def decide_acknowledge(decision: Decision, command: Acknowledge) -> Acknowledged:
    """Record an ACK."""
    me = decision.me()
    if command.status not in _STATUSES:
        raise refusal(
            "E_VALIDATION_003",
            f"status is {command.status!r}: it must be one of {', '.join(_STATUSES)}",
            field="$.status",
            found=command.status,
            expected="one of " + ", ".join(_STATUSES),
        )
    message = _mine(decision, me.agent, command.message_id)
    changed = acknowledge(decision, message, command.status, decision.text(command.notes, "$.notes"))
    pump(decision, me)
    return Acknowledged(signal_id(message), message.state, duplicate=not changed)


def acknowledge(decision: Decision, message: Message, status: str, notes: str = "") -> bool:
    """Acknowledge a message; return whether that changed anything."""
    must_be_open(message, "acknowledged")
    arrive(decision, message, "ack")
    changed = message.state is _DELIVERED
    if changed:
        offered_at = message.offered_at or message.delivered_at
        decision.emit(
            ev.MessageAcknowledged(decision.now, message.seq, status, max(0, decision.now - offered_at), notes)
        )
        if message.ack_required:
            observe(decision)
    if status == "processed" and message.state is State.ACKNOWLEDGED:
        _processed(decision, message, "ack")
        changed = True
    return changed


def decide_processed(decision: Decision, command: MarkProcessed) -> Done:
    """Record that the recipient has processed a message."""
    me = decision.me()
    message = _mine(decision, me.agent, command.message_id)
    must_be_open(message, "processed")
    process(decision, message, "processed")
    pump(decision, me)
    return Done()


def process(decision: Decision, message: Message, how: str) -> None:
    """Mark a message as processed, with the confirmations that this implies."""
    mark_received(decision, message, how)
    if message.state in (State.DELIVERED, State.ACKNOWLEDGED):
        _processed(decision, message, how)


def mark_received(decision: Decision, message: Message, how: str) -> None:
    """Mark a message as delivered, and as acknowledged if it awaits an ACK."""
    arrive(decision, message, "response" if how == "response" else "ack")
    if message.ack_required and message.state is _DELIVERED:
        acknowledge(decision, message, "response" if how == "response" else "processed")


def _processed(decision: Decision, message: Message, how: str) -> None:
    decision.emit(ev.MessageProcessed(decision.now, message.seq, how, max(0, decision.now - message.delivered_at)))


def decide_reject(decision: Decision, command: Reject) -> Rejected:
    """Record a NACK."""
    me = decision.me()
    message = _mine(decision, me.agent, command.message_id)
    reject(
        decision,
        message,
        decision.text(command.reason, "$.reason"),
        decision.text(command.code, "$.code"),
        command.can_retry,
        decision.text(command.suggested_fix, "$.suggestedFix"),
    )
    pump(decision, me)
    ready_at = as_datetime(message.ready_at) if message.state is State.QUEUED else None
    return Rejected(signal_id(message), message.state, ready_at)


def reject(decision: Decision, message: Message, reason: str, code: str, can_retry: bool, suggested_fix: str) -> None:
    """Reject a message: queue it again if a retry is left, else make it a dead letter."""
    must_be_rejectable(message)
    arrive(decision, message, "nack")
    decision.emit(ev.MessageRejected(decision.now, message.seq, reason, code, can_retry, suggested_fix))
    contract = decision.state.contract(message)
    if can_retry and message.attempts < contract.retries_max:
        ready_at = decision.now + contract.backoff_us(message.attempts + 1)
        requeue(decision, message, "nack", ready_at, 0.0, contract.retries_max)
    else:
        known = code if code in CATALOGUE else "E_VALIDATION_004"
        detail = f"{message.recipient} rejected {message.message_id}: {reason}"
        die(decision, message, "rejected", known, detail, attempts_max=contract.retries_max if can_retry else 0)


def fire_receipt(decision: Decision, seq: int) -> None:
    """Withdraw an offer that was not confirmed in time."""
    message = decision.state.messages.get(seq)
    if message is None or message.state is not State.OFFERED:
        return
    due = receipt_due(decision.state, message)
    if decision.now < due:
        decision.state.timers.receipts.schedule(seq, due)
        return
    contract, delivery = decision.state.contract(message), decision.policy.delivery
    if not decision.state.session(message.session or "").pushes:
        # A poll is paced by its caller, and an answer can be lost several times in a row.
        retries_max, backoff_us = max(contract.retries_max, delivery.poll_retries_max), 0
    elif contract.timeout_s is not None:
        retries_max, backoff_us = contract.retries_max, contract.backoff_us(message.attempts + 1)
    else:
        waits = delivery.channel_backoff_s
        retries_max = delivery.channel_retries_max
        backoff_us = microseconds(waits[min(message.attempts, len(waits) - 1)])
    timeout_s = receipt_timeout_us(decision.state, message) / 1_000_000
    if message.attempts < retries_max:
        requeue(decision, message, "receipt_timeout", decision.now + backoff_us, timeout_s, retries_max)
    else:
        detail = f"{message.recipient} confirmed none of {message.offers} offers of {message.message_id}"
        code = "E_ROUTING_003"
        die(decision, message, "receipt_timeout", code, detail, attempts_max=retries_max, threshold_s=timeout_s)
    pump(decision, decision.state.agents[message.recipient])


def fire_ack(decision: Decision, seq: int) -> None:
    """Retry a delivery that was not acknowledged in time."""
    message = decision.state.messages.get(seq)
    if message is None or message.state is not State.DELIVERED or not message.ack_required:
        return
    due = ack_due(decision.state, message)
    if decision.now < due:
        decision.state.timers.acks.schedule(seq, due)
        return
    contract = decision.state.contract(message)
    timeout_s = ack_timeout_us(decision.state, message) / 1_000_000
    if message.attempts < contract.retries_max:
        ready_at = decision.now + contract.backoff_us(message.attempts + 1)
        requeue(decision, message, "ack_timeout", ready_at, timeout_s, contract.retries_max)
    else:
        detail = f"{message.recipient} did not acknowledge {message.message_id} within {timeout_s:g} s"
        detail = f"{detail}, {message.attempts} retries used"
        retries_max = contract.retries_max
        die(decision, message, "ack_timeout", "E_PROTOCOL_004", detail, attempts_max=retries_max, threshold_s=timeout_s)


def _mine(decision: Decision, agent: str, message_id: str) -> Message:
    message = decision.state.copy_for(agent, message_id)
    if message is None or not is_open_to_recipient(message):
        raise _not_found(message_id)
    return message


def _not_found(message_id: str) -> TocsinError:
    return refusal(
        "E_STATE_001",
        f"{message_id[:128]} was not found: unknown, not addressed to you, or no longer kept",
        found=message_id[:128],
    )


def must_be_rejectable(message: Message) -> None:
    """Refuse to reject a message that was acknowledged or has ended."""
    if message.state in _SETTLED:
        raise refusal("E_STATE_002", f"{message.message_id} is already {message.state}: it cannot be rejected")
    must_be_open(message, "rejected")
    if message.digest is not None:
        raise refusal("E_STATE_002", f"the content of {message.message_id} is no longer kept: it cannot be rejected")


def must_be_open(message: Message, what: str) -> None:
    """Refuse to confirm a message that was expired, recalled or is dead."""
    if message.state in (State.EXPIRED, State.RECALLED, State.DEAD):
        raise refusal("E_STATE_002", f"{message.message_id} is {message.state}: it cannot be {what}")


def apply_delivered(state: ProjectState, event: ev.MessageDelivered) -> None:
    """Mark the message as delivered."""
    message = state.message(event.message)
    if message.state is _OFFERED:
        end_offer(state, message)
        if message.ack_required:
            advance(message, ev.MessageDelivered)
        else:
            state.volume.remove(message)
            advance(message, ev.MessageDelivered)
            state.volume.add(message)
    else:
        move(state, event.message, ev.MessageDelivered)
        clear_in_flight(state, message)
    at = event.at
    message.delivered_at = at
    message.backing_off = False
    if message.ack_required:
        schedule(state, message)
        return
    if message.offered_at:
        state.note_latency(at, at - message.offered_at)
    state.settle(message, at)


def apply_acknowledged(state: ProjectState, event: ev.MessageAcknowledged) -> None:
    """Mark the message as acknowledged."""
    message = move(state, event.message, ev.MessageAcknowledged)
    message.acked_at = event.at
    if message.ack_required:
        state.note_latency(event.at, event.latency_us)
    state.settle(message, event.at)


def apply_processed(state: ProjectState, event: ev.MessageProcessed) -> None:
    """Mark the message as processed."""
    message = move(state, event.message, ev.MessageProcessed)
    message.processed_at = event.at
    state.settle(message, event.at)


def apply_rejected(state: ProjectState, event: ev.MessageRejected) -> None:
    """Change nothing: a requeue or a death follows and is applied on its own."""
    state.message(event.message)
