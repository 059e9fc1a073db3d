"""Tracker of message histories, updated event by event while history is recorded or replayed."""

from collections.abc import Callable
from typing import Any, Final

import msgspec

from tocsin.core import events as ev
from tocsin.core.events import Event
from tocsin.lab.traces.message_history import MessageHistory
from tocsin.lab.traces.trace import RefusedSend

__all__ = ["MessageTracker"]

_ACCEPTED: Final = ev.MessageAccepted
_OFFERED: Final = ev.MessageOffered
_DELIVERED: Final = ev.MessageDelivered
_ACKNOWLEDGED: Final = ev.MessageAcknowledged
_VALUES: Final = msgspec.structs.astuple
_FIELDS: Final = ev.MessageAccepted.__struct_fields__
_AT: Final = _FIELDS.index("at")
_MESSAGE_ID: Final = _FIELDS.index("message_id")
_SENDER: Final = _FIELDS.index("sender")
_RECIPIENT: Final = _FIELDS.index("recipient")
_MESSAGE_TYPE: Final = _FIELDS.index("message_type")
_REQUESTED: Final = _FIELDS.index("requested")
_PRIORITY: Final = _FIELDS.index("priority")
_BROADCAST: Final = _FIELDS.index("broadcast")
_HELD: Final = _FIELDS.index("held")


class MessageTracker:
    """Tracks messages, refusals and counts from events."""

    def __init__(self) -> None:
        self.histories: dict[int, MessageHistory] = {}
        self.refused: list[RefusedSend] = []
        self.escalations = 0
        self.deadlocks = 0
        #: Times of the changes of the decay rate.
        self.rate_changes: list[int] = []
        self.events = 0

    def carry(self, seq: int, history: MessageHistory) -> None:
        """Add a message from before the window."""
        self.histories[seq] = history

    def follow(self, first_seq: int, events: list[Event]) -> None:
        """Update the histories with the events of one decision; `first_seq` is the number of the first."""
        self.events += len(events)
        seq = first_seq
        for event in events:
            if type(event) is _ACCEPTED:
                self.accepted(seq, event)
            elif type(event) is _OFFERED:
                self.offered(event.message, event.offer, event.at)
            elif type(event) is _DELIVERED:
                self.delivered(event.message, event.at)
            elif type(event) is _ACKNOWLEDGED:
                self.acknowledged(event.message, event.at)
            else:
                self.follow_other(event)
            seq += 1

    def accepted(self, seq: int, event: ev.MessageAccepted) -> str:
        """Begin the history of a message, by the number of its acceptance; return its messageId."""
        # All fields in one call: each attribute of a struct is a look-up.
        values: tuple[Any, ...] = _VALUES(event)
        message_id: str = values[_MESSAGE_ID]
        recipient: str = values[_RECIPIENT]
        self.histories[seq] = MessageHistory(
            message_id if values[_BROADCAST] is None else f"{message_id}:{recipient}",
            values[_SENDER],
            recipient,
            values[_MESSAGE_TYPE],
            values[_REQUESTED],
            values[_PRIORITY],
            values[_AT],
            "held" if values[_HELD] else "queued",
        )
        return message_id

    def offered(self, seq: int, offer: int, at: int) -> MessageHistory | None:
        """Update the history of a message with an offer, and return it; null if the message is unknown."""
        history = self.histories.get(seq)
        if history is not None:
            history.state = "offered"
            history.offers = offer
            if not history.first_offered_at:
                history.first_offered_at = at
        return history

    def delivered(self, seq: int, at: int) -> None:
        """Update the history of a message with its receipt."""
        history = self.histories.get(seq)
        if history is not None:
            history.state, history.delivered_at = "delivered", at

    def acknowledged(self, seq: int, at: int) -> None:
        """Update the history of a message with its ACK."""
        history = self.histories.get(seq)
        if history is not None:
            history.state, history.acked_at = "acknowledged", at

    def follow_other(self, event: Any) -> None:
        """Update the histories with an event that no other method is for."""
        follow = _FOLLOW.get(type(event))
        if follow is not None:
            follow(self, event)

    def signal(self, seq: int) -> str:
        """Return the signal id of a message; empty if it is unknown."""
        history = self.histories.get(seq)
        return "" if history is None else history.signal


def _refused(tracker: MessageTracker, event: ev.SendRefused) -> None:
    tracker.refused.append(RefusedSend(event.message_id, event.requested, event.code, event.at, event.message_type))


def _processed(tracker: MessageTracker, event: ev.MessageProcessed) -> None:
    history = tracker.histories.get(event.message)
    if history is not None:
        history.state, history.processed_at = "processed", event.at


def _requeued(tracker: MessageTracker, event: ev.MessageRequeued) -> None:
    history = tracker.histories.get(event.message)
    if history is not None:
        history.state, history.delivered_at = "queued", 0
        history.requeues += 1


def _queued_again(tracker: MessageTracker, event: ev.MessageReleased | ev.DeadLetterRedriven) -> None:
    history = tracker.histories.get(event.message)
    if history is not None:
        history.state, history.reason, history.ended_at = "queued", "", 0


def _ends(state: str) -> Callable[[MessageTracker, Any], None]:
    def end(tracker: MessageTracker, event: Any) -> None:
        history = tracker.histories.get(event.message)
        if history is not None:
            history.state, history.ended_at = state, event.at
            history.reason = getattr(event, "reason", "")

    return end


def _boosted(tracker: MessageTracker, event: ev.MessageBoosted) -> None:
    history = tracker.histories.get(event.message)
    if history is not None:
        history.boosts += 1


def _escalated(tracker: MessageTracker, event: ev.EscalationOpened) -> None:
    tracker.escalations += 1


def _deadlocked(tracker: MessageTracker, event: ev.DeadlockFound) -> None:
    tracker.deadlocks += 1


def _rate_changed(tracker: MessageTracker, event: ev.DecayRateChanged) -> None:
    tracker.rate_changes.append(event.at)


_FOLLOW: Final[dict[type, Callable[[MessageTracker, Any], None]]] = {
    ev.SendRefused: _refused,
    ev.MessageProcessed: _processed,
    ev.MessageRequeued: _requeued,
    ev.MessageReleased: _queued_again,
    ev.DeadLetterRedriven: _queued_again,
    ev.MessageExpired: _ends("expired"),
    ev.MessageRecalled: _ends("recalled"),
    ev.MessageDied: _ends("dead"),
    ev.MessageBoosted: _boosted,
    ev.EscalationOpened: _escalated,
    ev.DeadlockFound: _deadlocked,
    ev.DecayRateChanged: _rate_changed,
}
