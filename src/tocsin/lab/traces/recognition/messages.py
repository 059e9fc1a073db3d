"""Recognition of sends, receipts, confirmations and drains."""

from collections.abc import Sequence
from itertools import takewhile

from tocsin.core import events as ev
from tocsin.core.commands import SYSTEM
from tocsin.core.events import Event
from tocsin.core.messages.message import Message, signal_id
from tocsin.lab.traces.envelopes import DECIDED_ANEW, accepted_envelope, refused_envelope, subject_of
from tocsin.lab.traces.recognition.agents import closing, drain, drain_under_way, retiring
from tocsin.lab.traces.recognition.base import AHEAD, FOLLOWS, TICKS, EventReader, Opener, Opening, always

__all__ = ["MESSAGES"]


def _requeued(reader: EventReader, event: ev.MessageRequeued, index: int) -> Opening:
    if event.cause == "nack":
        return FOLLOWS
    if event.cause != "session_ended":
        return TICKS
    session = reader.message(event.message).session
    for later_index, later in enumerate(reader.ahead(index), index + 1):
        if isinstance(later, ev.SessionClosed) and later.session == session:
            return closing(reader, later, later_index)
    return FOLLOWS


def _refused(reader: EventReader, event: ev.SendRefused, index: int) -> Opening:
    envelope = refused_envelope(reader.state, event) if event.code in DECIDED_ANEW else None
    if envelope is None or event.recipient == "*":
        return reader.apply(event)
    step = reader.by(event.at, event.sender, "Send")
    step.envelope = envelope
    return step


def _gaming(reader: EventReader, event: ev.GamingDetected | ev.GamingCleared, index: int) -> Opening:
    """Open the send in which gaming was detected or cleared; its event comes next."""
    rest = reader.ahead(index)
    if not rest:
        return FOLLOWS
    return reader.reopen(index + 1)


def _accepted(reader: EventReader, event: ev.MessageAccepted, index: int) -> Opening:
    if event.sender == SYSTEM.agent or event.broadcast is not None:
        return FOLLOWS
    rest = list(takewhile(_not_sent, reader.ahead(index)))
    envelope = accepted_envelope(reader.state, event, rest)
    if envelope is None:
        return reader.apply(event)
    if event.rule == "confirmation":
        subject = subject_of(reader.state, event, rest)
        if subject is not None:
            kinds = (ev.MessageDelivered, ev.MessageAcknowledged, ev.MessageProcessed, ev.MessageRejected)
            reader.expect(*((kind, subject.seq) for kind in kinds))
    request = next((e for e in rest if isinstance(e, ev.RequestOpened) and e.request == event.message_id), None)
    if request is None:
        step = reader.by(event.at, event.sender, "Send")
    else:
        usual = reader.state.policy.requests.timeout_s
        timeout_s = None if request.timeout_s == usual else request.timeout_s
        how = {"timeout_s": timeout_s, "boost_on_timeout": request.boost, "escalate": request.escalate}
        step = reader.by(event.at, event.sender, "SendRequest", **how)
    step.envelope = envelope
    return step


def _not_sent(event: Event) -> bool:
    """Return whether an event is not the start of another send at the same time."""
    if isinstance(event, ev.MessageAccepted):
        return event.sender == SYSTEM.agent or event.broadcast is not None
    return not isinstance(event, ev.BroadcastAccepted | ev.SendRefused)


def _broadcast(reader: EventReader, event: ev.BroadcastAccepted, index: int) -> Opening:
    rest = reader.ahead(index)
    copy = rest[0] if rest else None
    if not isinstance(copy, ev.MessageAccepted):
        return reader.apply(event)
    envelope = accepted_envelope(reader.state, copy, rest, event)
    if envelope is None:
        return reader.apply(event)
    topic = next(
        (
            later
            for later in reader.events[index + 1 : index + 2 + 4 * max(event.accepted, AHEAD)]
            if isinstance(later, ev.TopicPublished) and later.message_id == event.broadcast
        ),
        None,
    )
    if topic is None:
        step = reader.by(event.at, event.sender, "Send")
    else:
        step = reader.by(event.at, event.sender, "Publish", topic=topic.topic, guarantee=topic.guarantee)
    step.envelope = envelope
    return step


def _published(reader: EventReader, event: ev.TopicPublished, index: int) -> Opening:
    step = reader.under_way("Publish", event.at)
    if step is not None and step.envelope is not None and step.envelope.message_id == event.message_id:
        return FOLLOWS
    return reader.apply(event)


def _offered(reader: EventReader, event: ev.MessageOffered, index: int) -> Opening:
    if event.pushed:
        return FOLLOWS
    step = reader.step
    if step is not None and drain_under_way(reader, event.at, event.session):
        step.body["limit"] = step.body["limit"] + 1 if "at_least" not in step.body else 1
        step.body.pop("at_least", None)
        return FOLLOWS
    session = reader.state.session(event.session)
    same = step is not None and step.at == event.at
    if session.pushes and (same or reader.tick_is_due(event.at)):
        return FOLLOWS
    opened = drain(reader, event.at, event.session)
    opened.body.pop("at_least", None)
    return opened


def _delivered(reader: EventReader, event: ev.MessageDelivered, index: int) -> Opening:
    message = reader.message(event.message)
    if event.how in ("receipt", "next_call"):
        batch = reader.under_way("Confirm", event.at)
        if batch is not None and batch.agent == message.recipient and _only_receipts(reader, index):
            batch.body["message_ids"].append(signal_id(message))
            return FOLLOWS
        return reader.by(event.at, message.recipient, "Confirm", message_ids=[signal_id(message)])
    if event.how == "response":
        return FOLLOWS
    return _settling(reader, event.at, message, reader.ahead(index))


def _only_receipts(reader: EventReader, index: int) -> bool:
    """Return whether the previous event is of the same batch of receipts."""
    before = reader.events[index - 1]
    return isinstance(before, ev.MessageDelivered | ev.DecayRateChanged)


def _settling(reader: EventReader, at: int, message: Message, rest: Sequence[Event]) -> Opening:
    """Return the command that settled a message, from the events with it: ACK, NACK, processed, or work begun."""
    seq = message.seq
    kinds = (ev.MessageAcknowledged, ev.MessageProcessed, ev.MessageRejected, ev.WorkBegun)
    mine = [later for later in rest if getattr(later, "message", getattr(later, "work", None)) == seq]
    begun = next((later for later in mine if isinstance(later, ev.WorkBegun)), None)
    rejected = next((later for later in mine if isinstance(later, ev.MessageRejected)), None)
    acked = next((later for later in mine if isinstance(later, ev.MessageAcknowledged)), None)
    processed = next((later for later in mine if isinstance(later, ev.MessageProcessed)), None)
    name = signal_id(message)
    reader.expect(*((kind, seq) for kind in kinds))
    if begun is not None:
        reader.expected.add((ev.WorkBegun, 0))
        return reader.by(at, message.recipient, "BeginWork", message_id=name, interruptible=begun.interruptible)
    if rejected is not None:
        return reader.by(
            at,
            message.recipient,
            "Reject",
            message_id=name,
            reason=rejected.reason,
            code=rejected.code,
            can_retry=rejected.can_retry,
            suggested_fix=rejected.suggested_fix,
        )
    if acked is None and processed is not None and processed.how == "processed":
        return reader.by(at, message.recipient, "MarkProcessed", message_id=name)
    status, notes = ("received", "") if acked is None else (acked.status, acked.notes)
    if processed is not None and processed.how == "ack":
        status = "processed"
    return reader.by(at, message.recipient, "Acknowledge", message_id=name, status=status, notes=notes)


def _settled(
    reader: EventReader, event: ev.MessageAcknowledged | ev.MessageRejected | ev.MessageProcessed, index: int
) -> Opening:
    if getattr(event, "status", "") == "response" or getattr(event, "how", "") == "response":
        return FOLLOWS
    return _settling(reader, event.at, reader.message(event.message), (event, *reader.ahead(index)))


def _expired(reader: EventReader, event: ev.MessageExpired, index: int) -> Opening:
    """Distinguish an expiry by the sweeper from one found by a drain or a recall."""
    step = reader.step
    if step is not None and step.at == event.at:
        return FOLLOWS
    message = reader.message(event.message)
    for later in reader.ahead(index):
        if isinstance(later, ev.RecallRefused) and later.message_id == signal_id(message):
            return reader.by(event.at, later.by, "Recall", message_id=later.message_id)
        if isinstance(later, ev.MessageOffered) and reader.message(later.message).recipient == message.recipient:
            session = reader.state.session(later.session)
            return FOLLOWS if session.pushes else drain(reader, event.at, later.session)
        if not isinstance(later, ev.MessageExpired):
            break
    return TICKS


def _recalled(reader: EventReader, event: ev.MessageRecalled, index: int) -> Opening:
    message = reader.message(event.message)
    step = reader.under_way("Recall", event.at)
    if step is not None and step.body["message_id"] == message.message_id:
        return FOLLOWS
    return reader.by(event.at, event.by, "Recall", message_id=message.message_id)


def _recall_refused(reader: EventReader, event: ev.RecallRefused, index: int) -> Opening:
    step = reader.under_way("Recall", event.at)
    if step is not None and step.body["message_id"] == event.message_id and step.agent == event.by:
        return FOLLOWS
    return reader.by(event.at, event.by, "Recall", message_id=event.message_id)


def _died(reader: EventReader, event: ev.MessageDied, index: int) -> Opening:
    if event.reason == "recipient_gone":
        return retiring(reader, index)
    return TICKS if event.reason in ("ack_timeout", "receipt_timeout") else FOLLOWS


def _redriven(reader: EventReader, event: ev.DeadLetterRedriven, index: int) -> Opening:
    return reader.by(event.at, event.by, "Redrive", signal_ids=[signal_id(reader.message(event.message))])


def _purged(reader: EventReader, event: ev.DeadLetterPurged, index: int) -> Opening:
    return TICKS if event.reason == "age" else FOLLOWS


def _forgotten(reader: EventReader, event: ev.MessagesForgotten, index: int) -> Opening:
    """Distinguish forgetting by the sweeper from forgetting in a decision that reached a limit."""
    state, retention = reader.state, reader.state.policy.retention
    batch = retention.batch
    trims = (
        (event.settled, len(state.settled) >= retention.settled_max + batch),
        (event.acknowledged, len(state.acknowledged) >= retention.acknowledged_max + batch),
        (event.threads, len(state.threads) >= state.policy.limits.threads_max + batch),
    )
    if event.contents or (all(count == over * batch for count, over in trims) and any(over for _, over in trims)):
        return FOLLOWS
    return TICKS


def _rate(reader: EventReader, event: ev.DecayRateChanged, index: int) -> Opening:
    return TICKS if event.rule == "idle" else FOLLOWS


def _boosted(reader: EventReader, event: ev.MessageBoosted, index: int) -> Opening:
    return TICKS if event.rule == "aging" else FOLLOWS


MESSAGES: dict[type, Opener] = {
    ev.SendRefused: _refused,
    ev.BroadcastAccepted: _broadcast,
    ev.MessageAccepted: _accepted,
    ev.MessageOffered: _offered,
    ev.MessageDelivered: _delivered,
    ev.MessageAcknowledged: _settled,
    ev.MessageRejected: _settled,
    ev.MessageProcessed: _settled,
    ev.MessageRequeued: _requeued,
    ev.MessageReady: always(TICKS),
    ev.MessageExpired: _expired,
    ev.MessageRecalled: _recalled,
    ev.RecallRefused: _recall_refused,
    ev.MessageBoosted: _boosted,
    ev.MessageDied: _died,
    ev.DeadLetterRedriven: _redriven,
    ev.DeadLetterPurged: _purged,
    ev.MessagesForgotten: _forgotten,
    ev.GamingDetected: _gaming,
    ev.GamingCleared: _gaming,
    ev.AgentCharged: always(FOLLOWS),
    ev.NoticeFolded: always(FOLLOWS),
    ev.DecayRateChanged: _rate,
    ev.TopicPublished: _published,
}
