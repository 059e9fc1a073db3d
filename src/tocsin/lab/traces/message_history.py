"""Histories of messages, as replays keep them.

A message is identified by its signal id, not by its sequence number, because numbers differ under another policy.
"""

from typing import Any

__all__ = ["MessageHistory", "history_from"]


class MessageHistory:
    """The history of one message, up to the end of the window; times in microseconds since the epoch, 0 for none."""

    __slots__ = (
        "accepted_at", "acked_at", "boosts", "delivered_at", "ended_at", "first_offered_at", "message_type", "offers",
        "priority", "processed_at", "reason", "recipient", "requested", "requeues", "sender", "signal", "state",
    )  # fmt: skip

    def __init__(
        self,
        signal: str,
        sender: str,
        recipient: str,
        message_type: str,
        requested: int,
        priority: int,
        accepted_at: int,
        state: str,
        reason: str = "",
        first_offered_at: int = 0,
        delivered_at: int = 0,
        acked_at: int = 0,
        processed_at: int = 0,
        ended_at: int = 0,
        offers: int = 0,
        boosts: int = 0,
        requeues: int = 0,
    ) -> None:
        self.signal = signal
        self.sender = sender
        self.recipient = recipient
        self.message_type = message_type
        #: Priority requested, which does not depend on the policy.
        self.requested = requested
        self.priority = priority
        self.accepted_at = accepted_at
        #: State, as in `docs/concepts/lifecycle.md`.
        self.state = state
        #: Reason of its expiry or dead-lettering.
        self.reason = reason
        self.first_offered_at = first_offered_at
        self.delivered_at = delivered_at
        self.acked_at = acked_at
        self.processed_at = processed_at
        #: Time at which it expired, was recalled or became a dead letter.
        self.ended_at = ended_at
        self.offers = offers
        self.boosts = boosts
        self.requeues = requeues

    def values(self) -> tuple[Any, ...]:
        """Return all fields as a trace stores them, those of a recorded message first."""
        return (
            *(self.signal, self.recipient, self.state, self.reason),
            *(self.accepted_at, self.first_offered_at, self.offers),
            *(self.sender, self.message_type, self.requested, self.priority),
            *(self.delivered_at, self.acked_at, self.processed_at, self.ended_at, self.boosts, self.requeues),
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MessageHistory) and self.values() == other.values()

    def __hash__(self) -> int:
        return hash(self.signal)

    def __repr__(self) -> str:
        return f"MessageHistory{self.values()!r}"

    @property
    def outcome(self) -> tuple[str, str]:
        """Return its state at the end, and the reason if it ended unread."""
        return self.state, self.reason


def history_from(values: tuple[Any, ...]) -> MessageHistory:
    """Return a stored history."""
    signal, recipient, state, reason, accepted_at, first_offered_at, offers, sender, message_type = values[:9]
    requested, priority, delivered_at, acked_at, processed_at, ended_at, boosts, requeues = values[9:]
    return MessageHistory(
        signal, sender, recipient, message_type, requested, priority, accepted_at, state, reason,
        first_offered_at, delivered_at, acked_at, processed_at, ended_at, offers, boosts, requeues,
    )  # fmt: skip
