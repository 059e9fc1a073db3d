"""Tracker of message histories, updated event by event while history is recorded or replayed."""

from collections.abc import Callable
from typing import Any, Final

from tocsin.core import events as ev
from tocsin.core.events import Event
from tocsin.lab.traces.message_history import MessageHistory
from tocsin.lab.traces.trace import RefusedSend

__all__ = ["MessageTracker"]

_ACCEPTED: Final = ev.MessageAccepted
_OFFERED: Final = ev.MessageOffered
_DELIVERED: Final = ev.MessageDelivered
_ACKNOWLEDGED: Final = ev.MessageAcknowledged


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
        seq = first_seq
        for event in events:
            self.follow_one(seq, event)
            seq += 1

    def follow_one(self, seq: int, event: Any) -> None:
        """Update the histories with one event, by its number."""
        kind: type = type(event)
        # The frequent ones first, without a look into the table.
        if kind is _OFFERED:
            self.follow_offer(event.message, event.offer, event.at)
            return
        self.events += 1
        if kind is _ACCEPTED:
            _accepted(self, seq, event)
        elif kind is _DELIVERED:
            _delivered(self, seq, event)
        elif kind is _ACKNOWLEDGED:
            _acknowledged(self, seq, event)
        elif (follow := _FOLLOW.get(kind)) is not None:
            follow(self, seq, event)

    def follow_offer(self, seq: int, offer: int, at: int) -> MessageHistory | None:
        """Update the history of a message with an offer, and return it; null if the message is unknown."""
        self.events += 1
        history = self.histories.get(seq)
        if history is not None:
            history.state = "offered"
            history.offers = offer
            if not history.first_offered_at:
                history.first_offered_at = at
        return history

    def signal(self, seq: int) -> str:
        """Return the signal id of a message; empty if it is unknown."""
        history = self.histories.get(seq)
        return "" if history is None else history.signal


def _accepted(tracker: MessageTracker, seq: int, event: ev.MessageAccepted) -> None:
    signal = event.message_id if event.broadcast is None else f"{event.message_id}:{event.recipient}"
    tracker.histories[seq] = MessageHistory(
        signal,
        event.sender,
        event.recipient,
        event.message_type,
        event.requested,
        event.priority,
        event.at,
        "held" if event.held else "queued",
    )


def _refused(tracker: MessageTracker, seq: int, event: ev.SendRefused) -> None:
    tracker.refused.append(RefusedSend(event.message_id, event.requested, event.code, event.at, event.message_type))


def _delivered(tracker: MessageTracker, seq: int, event: ev.MessageDelivered) -> None:
    history = tracker.histories.get(event.message)
    if history is not None:
        history.state, history.delivered_at = "delivered", event.at


def _acknowledged(tracker: MessageTracker, seq: int, event: ev.MessageAcknowledged) -> None:
    history = tracker.histories.get(event.message)
    if history is not None:
        history.state, history.acked_at = "acknowledged", event.at


def _processed(tracker: MessageTracker, seq: int, event: ev.MessageProcessed) -> None:
    history = tracker.histories.get(event.message)
    if history is not None:
        history.state, history.processed_at = "processed", event.at


def _requeued(tracker: MessageTracker, seq: int, event: ev.MessageRequeued) -> None:
    history = tracker.histories.get(event.message)
    if history is not None:
        history.state, history.delivered_at = "queued", 0
        history.requeues += 1


def _queued_again(tracker: MessageTracker, seq: int, event: ev.MessageReleased | ev.DeadLetterRedriven) -> None:
    history = tracker.histories.get(event.message)
    if history is not None:
        history.state, history.reason, history.ended_at = "queued", "", 0


def _ends(state: str) -> Callable[[MessageTracker, int, Any], None]:
    def end(tracker: MessageTracker, seq: int, event: Any) -> None:
        history = tracker.histories.get(event.message)
        if history is not None:
            history.state, history.ended_at = state, event.at
            history.reason = getattr(event, "reason", "")

    return end


def _boosted(tracker: MessageTracker, seq: int, event: ev.MessageBoosted) -> None:
    history = tracker.histories.get(event.message)
    if history is not None:
        history.boosts += 1


def _escalated(tracker: MessageTracker, seq: int, event: ev.EscalationOpened) -> None:
    tracker.escalations += 1


def _deadlocked(tracker: MessageTracker, seq: int, event: ev.DeadlockFound) -> None:
    tracker.deadlocks += 1


def _rate_changed(tracker: MessageTracker, seq: int, event: ev.DecayRateChanged) -> None:
    tracker.rate_changes.append(event.at)


_FOLLOW: Final[dict[type, Callable[[MessageTracker, int, Any], None]]] = {
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
