"""What became of each message, followed event by event: of history while it is recorded, of a replay while it runs.

A life is named by its signal id, not by its number, because under another policy other numbers are given.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from tocsin.core import events as ev
from tocsin.core.commands import SYSTEM
from tocsin.core.events import Event

__all__ = ["Life", "Refused", "Tally"]


class Life(msgspec.Struct, array_like=True, gc=False):
    """One message, as far as the window goes."""

    signal: str
    sender: str
    recipient: str
    message_type: str
    #: Priority asked for, which no policy changes.
    requested: int
    priority: int
    accepted_at: int
    #: Where it is, as in `docs/concepts/lifecycle.md`.
    state: str
    #: Why it ended: of expiry or death.
    reason: str = ""
    first_offered_at: int = 0
    delivered_at: int = 0
    acked_at: int = 0
    processed_at: int = 0
    #: When it expired, was recalled or died.
    ended_at: int = 0
    offers: int = 0
    boosts: int = 0
    requeues: int = 0

    @property
    def outcome(self) -> tuple[str, str]:
        """Return how it stands at the end: its state, and why where it ended unread."""
        return self.state, self.reason


class Refused(msgspec.Struct, array_like=True, gc=False, frozen=True):
    """A send that was not accepted."""

    message_id: str
    requested: int
    code: str


class Tally:
    """Follows events; number them as the journal does."""

    def __init__(self) -> None:
        self.lives: dict[int, Life] = {}
        self.refused: list[Refused] = []
        self.escalations = 0
        self.deadlocks = 0
        self.events = 0

    def carry(self, seq: int, life: Life) -> None:
        """Enter a message that was there before the window."""
        self.lives[seq] = life

    def follow(self, first_seq: int, events: list[Event]) -> None:
        """Let the lives follow the events of one decision."""
        self.events += len(events)
        for seq, event in enumerate(events, first_seq):
            follow = _FOLLOW.get(type(event))
            if follow is not None:
                follow(self, seq, event)

    def signal(self, seq: int) -> str:
        """Return the name of a message; empty where it was never seen."""
        life = self.lives.get(seq)
        return "" if life is None else life.signal


def _accepted(tally: Tally, seq: int, event: ev.MessageAccepted) -> None:
    signal = event.message_id if event.broadcast is None else f"{event.message_id}:{event.recipient}"
    tally.lives[seq] = Life(
        signal,
        event.sender,
        event.recipient,
        event.message_type,
        event.requested,
        event.priority,
        event.at,
        "held" if event.held else "queued",
    )


def _refused(tally: Tally, seq: int, event: ev.SendRefused) -> None:
    tally.refused.append(Refused(event.message_id, event.requested, event.code))


def _offered(tally: Tally, seq: int, event: ev.MessageOffered) -> None:
    life = tally.lives.get(event.message)
    if life is not None:
        life.state = "offered"
        life.offers = event.offer
        if not life.first_offered_at:
            life.first_offered_at = event.at


def _delivered(tally: Tally, seq: int, event: ev.MessageDelivered) -> None:
    life = tally.lives.get(event.message)
    if life is not None:
        life.state, life.delivered_at = "delivered", event.at


def _acknowledged(tally: Tally, seq: int, event: ev.MessageAcknowledged) -> None:
    life = tally.lives.get(event.message)
    if life is not None:
        life.state, life.acked_at = "acknowledged", event.at


def _processed(tally: Tally, seq: int, event: ev.MessageProcessed) -> None:
    life = tally.lives.get(event.message)
    if life is not None:
        life.state, life.processed_at = "processed", event.at


def _requeued(tally: Tally, seq: int, event: ev.MessageRequeued) -> None:
    life = tally.lives.get(event.message)
    if life is not None:
        life.state, life.delivered_at = "queued", 0
        life.requeues += 1


def _queued_again(tally: Tally, seq: int, event: ev.MessageReleased | ev.DeadLetterRedriven) -> None:
    life = tally.lives.get(event.message)
    if life is not None:
        life.state, life.reason, life.ended_at = "queued", "", 0


def _ends(state: str) -> Callable[[Tally, int, Any], None]:
    def end(tally: Tally, seq: int, event: Any) -> None:
        life = tally.lives.get(event.message)
        if life is not None:
            life.state, life.ended_at = state, event.at
            life.reason = getattr(event, "reason", "")

    return end


def _boosted(tally: Tally, seq: int, event: ev.MessageBoosted) -> None:
    life = tally.lives.get(event.message)
    if life is not None:
        life.boosts += 1


def _escalated(tally: Tally, seq: int, event: ev.EscalationOpened) -> None:
    tally.escalations += 1


def _deadlocked(tally: Tally, seq: int, event: ev.DeadlockFound) -> None:
    tally.deadlocks += 1


_FOLLOW: dict[type, Callable[[Tally, int, Any], None]] = {
    ev.MessageAccepted: _accepted,
    ev.SendRefused: _refused,
    ev.MessageOffered: _offered,
    ev.MessageDelivered: _delivered,
    ev.MessageAcknowledged: _acknowledged,
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
}


def is_notice(life: Life) -> bool:
    """Tell whether the bus itself sent it."""
    return life.sender == SYSTEM.agent
