"""A message that has come to an agent that does not await."""

# `type` is what everyone calls a message's type.
# ruff: noqa: A002

from typing import Unpack

from tocsin.client.envelopes import Options, Payload
from tocsin.client.loop_thread import LoopThread
from tocsin.client.message import Arrived, Message
from tocsin.client.replies import Acknowledged, Nothing, Rejected, Sent

__all__ = ["SyncMessage"]


class SyncMessage(Arrived):
    """One message, and what its recipient can do about it."""

    __slots__ = ("_background", "_message")

    def __init__(self, background: LoopThread, message: Message) -> None:
        super().__init__(
            message.signal_id, message.offer, message._received, message.attempt, message.ttl_s, message.interrupts
        )
        self._background = background
        self._message = message

    def confirm(self) -> None:
        """Let the receipt go; the inbox does it by itself unless told otherwise."""
        self._background.soon(self._message.confirm)

    def ack(self, status: str = "received", notes: str = "") -> Acknowledged:
        """Acknowledge it: `received`, `queued` or `processed`."""
        return self._background.run(self._message.ack(status, notes))

    def nack(self, reason: str, *, can_retry: bool = False, code: str = "", suggested_fix: str = "") -> Rejected:
        """Reject it, for now (`can_retry`) or for good."""
        rejected = self._message.nack(reason, can_retry=can_retry, code=code, suggested_fix=suggested_fix)
        return self._background.run(rejected)

    def processed(self) -> Nothing:
        """Say that it has been dealt with."""
        return self._background.run(self._message.processed())

    def reply(self, payload: Payload, *, type: str | None = None, **options: Unpack[Options]) -> Sent:
        """Answer in its thread; `options` are as in `Agent.send`."""
        return self._background.run(self._message.reply(payload, type=type, **options))
