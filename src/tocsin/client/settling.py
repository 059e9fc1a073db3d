"""What a recipient says of its messages: receipts, ACK, NACK, processed, replies.

Each of them implies the receipt. A rejected message is forgotten here, so that it is seen when it comes again.
"""

from typing import Any, Unpack

import msgspec

from tocsin.client import operations as op
from tocsin.client.connection import Connection
from tocsin.client.envelopes import Draft, Options, Payload
from tocsin.client.inbox import Inbox
from tocsin.client.message import Message
from tocsin.client.replies import Acknowledged, Nothing, Rejected, Sent
from tocsin.client.sending import Sender
from tocsin.core.errors import RequestError

__all__ = ["Settler"]

_ACKNOWLEDGED = msgspec.json.Decoder(Acknowledged)
_REJECTED = msgspec.json.Decoder(Rejected)
_NOTHING = msgspec.json.Decoder(Nothing)

#: The type of a reply that does not say: by the type that it answers, and of all others.
_REPLY_TYPES = {"TASK_ASSIGNMENT": "TASK_UPDATE"}
_REPLY_TYPE = "CUSTOM_REPLY"


class Settler:
    """Settles the messages of one agent."""

    def __init__(self, connection: Connection, inbox: Inbox, sender: Sender, timeout_s: float) -> None:
        self._connection = connection
        self._inbox = inbox
        self._sender = sender
        self._timeout_s = timeout_s

    def confirm(self, message: Message) -> None:
        """Let a receipt go, if it has not gone yet."""
        self._inbox.confirm(message)

    async def acknowledge(self, message: Message, status: str, notes: str) -> Acknowledged:
        """Acknowledge a message."""
        operation = op.Ack(message_id=message.signal_id, status=status, notes=notes)
        told: Acknowledged = await self._settle(message, operation, _ACKNOWLEDGED)
        return told

    async def reject(self, message: Message, reason: str, code: str, can_retry: bool, suggested_fix: str) -> Rejected:
        """Reject a message; where it may be tried again, it may come again before the answer does."""
        if can_retry:
            self._inbox.forget(message)
        operation = op.Nack(
            message_id=message.signal_id, reason=reason, code=code, can_retry=can_retry, suggested_fix=suggested_fix
        )
        told: Rejected = await self._settle(message, operation, _REJECTED)
        if not can_retry:
            self._inbox.forget(message)
        return told

    async def processed(self, message: Message) -> Nothing:
        """Say that a message has been dealt with."""
        told: Nothing = await self._settle(message, op.Processed(message_id=message.signal_id), _NOTHING)
        return told

    async def reply(
        self, message: Message, payload: Payload, message_type: str | None, **options: Unpack[Options]
    ) -> Sent:
        """Answer a message in its thread; one without a thread opens it under its messageId."""
        options.setdefault("correlation_id", message.correlation_id or message.message_id)
        kind = message_type or _REPLY_TYPES.get(message.type, _REPLY_TYPE)
        draft = Draft(to=message.sender, type=kind, payload=payload, **options)
        sent = await self._sender.send(self._sender.write(draft), self._timeout_s, None)
        self._inbox.confirm(message)
        return sent

    async def _settle(self, message: Message, operation: op.Operation, decoder: "msgspec.json.Decoder[Any]") -> Any:
        try:
            told = await self._connection.submit(operation, decoder, self._timeout_s)
        except RequestError:
            self._inbox.settled(message)  # it is past that: nothing more can be said of it
            raise
        self._inbox.settled(message)
        return told
