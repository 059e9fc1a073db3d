"""Bytes of the contents that the live state keeps: of unsettled messages, of dead letters, and of ended messages.

The size of a message is that of its payload and its metadata, as they are stored. A message is unsettled from its
acceptance until its recipient has received it and, where its contract requires an ACK, acknowledged it, or until it
ended otherwise. So a message that returns to the queue before that has its place already. A message that was received
and needs no ACK keeps its content for a late rejection; all others that have ended lose theirs.

The numbers follow from the messages: whoever adds or drops one, changes its state or its content, tells `Volume`.
"""

from collections.abc import Iterable
from itertools import islice
from typing import Final

from tocsin.core.messages.message import Message
from tocsin.core.messages.model import State

__all__ = ["Volume", "size_of"]

_HELD: Final = State.HELD
_QUEUED: Final = State.QUEUED
_OFFERED: Final = State.OFFERED
_DELIVERED: Final = State.DELIVERED
_DEAD: Final = State.DEAD


def size_of(message: Message) -> int:
    """Return the bytes of a message's payload and metadata."""
    return len(message.payload) + len(message.metadata)


class Volume:
    """Bytes of the messages of a project."""

    __slots__ = ("by_recipient", "by_sender", "dead", "kept", "kept_bytes", "unsettled")

    def __init__(self) -> None:
        #: Bytes of all unsettled messages, and the same by recipient and by sender, for those that have any.
        self.unsettled = 0
        self.by_recipient: dict[str, int] = {}
        self.by_sender: dict[str, int] = {}
        #: Bytes of dead letters.
        self.dead = 0
        #: Messages that were received, need no ACK and keep their content, in the order of their receipts.
        self.kept: dict[int, None] = {}
        self.kept_bytes = 0

    def to(self, recipient: str) -> int:
        """Return the bytes of the unsettled messages to an agent."""
        return self.by_recipient.get(recipient, 0)

    def of(self, sender: str) -> int:
        """Return the bytes of the unsettled messages from an agent."""
        return self.by_sender.get(sender, 0)

    def add(self, message: Message) -> None:
        """Count a message, as it is now."""
        size, status = len(message.payload) + len(message.metadata), message.state
        if (
            status is _QUEUED
            or status is _OFFERED
            or status is _HELD
            or (status is _DELIVERED and message.ack_required)
        ):
            self.unsettled += size
            recipient, sender = message.recipient, message.sender
            self.by_recipient[recipient] = self.by_recipient.get(recipient, 0) + size
            self.by_sender[sender] = self.by_sender.get(sender, 0) + size
        elif status is _DELIVERED:
            if size:
                self.kept[message.seq] = None
                self.kept_bytes += size
        elif status is _DEAD:
            self.dead += size

    def remove(self, message: Message) -> None:
        """Stop counting a message; call it before its state or its content changes."""
        size, status = len(message.payload) + len(message.metadata), message.state
        if (
            status is _QUEUED
            or status is _OFFERED
            or status is _HELD
            or (status is _DELIVERED and message.ack_required)
        ):
            self.unsettled -= size
            for sizes, name in ((self.by_recipient, message.recipient), (self.by_sender, message.sender)):
                left = sizes[name] - size
                if left:
                    sizes[name] = left
                else:
                    del sizes[name]
        elif status is _DELIVERED:
            if size:
                del self.kept[message.seq]
                self.kept_bytes -= size
        elif status is _DEAD:
            self.dead -= size

    def oldest(self, excess: int, most: int, messages: dict[int, Message]) -> tuple[int, ...]:
        """Return the messages, at most so many, that have kept their content longest and have those bytes in all."""
        found = 0
        for seq in self.kept:
            if excess <= 0 or found >= most:
                break
            excess -= size_of(messages[seq])
            found += 1
        return tuple(islice(self.kept, found))

    def order(self, settled: Iterable[tuple[int, int]]) -> None:
        """Restore the order of the messages that keep their content, from the queue of ended messages."""
        kept = self.kept
        for _, seq in settled:
            if seq in kept:
                del kept[seq]
                kept[seq] = None
