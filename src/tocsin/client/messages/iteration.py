"""Iteration over the messages of an agent, with automatic receipts."""

from enum import StrEnum

from tocsin.client.messages.inbox import Inbox
from tocsin.client.messages.message import Message

__all__ = ["Messages", "Receipts"]


class Receipts(StrEnum):
    """When the receipt of a message is sent."""

    #: When it is handed to the application.
    HANDED_OVER = "handed_over"
    #: When the application takes the next one: a handler that fails gets its message again.
    HANDLED = "handled"
    #: When the application calls `confirm`, `acknowledge`, `reject`, `mark_processed` or `reply`.
    MANUAL = "manual"


class Messages:
    """The messages of an agent, as an asynchronous iterator; several iterators share the messages."""

    def __init__(self, inbox: Inbox, receipts: Receipts, timeout_s: float | None) -> None:
        self._inbox = inbox
        self._receipts = receipts
        self._timeout_s = timeout_s
        self._in_hand: Message | None = None
        inbox.listen()

    def __aiter__(self) -> "Messages":
        return self

    async def __anext__(self) -> Message:
        if self._in_hand is not None:
            self._inbox.confirm(self._in_hand)
            self._in_hand = None
        message = self._inbox.take_now() or await self._inbox.take(self._timeout_s)
        if message is None:
            raise StopAsyncIteration
        # Nothing is awaited between here and the application, so nothing can be cancelled.
        if self._receipts is Receipts.HANDED_OVER:
            self._inbox.confirm(message)
        elif self._receipts is Receipts.HANDLED:
            self._in_hand = message
        return message
