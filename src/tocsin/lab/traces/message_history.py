"""Histories of messages and refused sends, as traces and replays keep them.

A message is identified by its signal id, not by its sequence number, because numbers differ under another policy.
"""

import msgspec

__all__ = ["MessageHistory", "RefusedSend"]


class MessageHistory(msgspec.Struct, array_like=True, gc=False):
    """The history of one message, up to the end of the window; times in microseconds since the epoch, 0 for none."""

    signal: str
    sender: str
    recipient: str
    message_type: str
    #: Priority requested, which does not depend on the policy.
    requested: int
    priority: int
    accepted_at: int
    #: State, as in `docs/concepts/lifecycle.md`.
    state: str
    #: Reason of its expiry or dead-lettering.
    reason: str = ""
    first_offered_at: int = 0
    delivered_at: int = 0
    acked_at: int = 0
    processed_at: int = 0
    #: Time at which it expired, was recalled or became a dead letter.
    ended_at: int = 0
    offers: int = 0
    boosts: int = 0
    requeues: int = 0

    @property
    def outcome(self) -> tuple[str, str]:
        """Return its state at the end, and the reason if it ended unread."""
        return self.state, self.reason


class RefusedSend(msgspec.Struct, array_like=True, gc=False, frozen=True):
    """A refused send."""

    message_id: str
    requested: int
    code: str
    at: int = 0
    message_type: str = ""
