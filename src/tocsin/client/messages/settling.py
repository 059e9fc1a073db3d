"""Receipts, acknowledgements, rejections and replies of a recipient.

Each of them implies the receipt. A rejected message is forgotten here, so that it is handed out when it is delivered
again.
"""

from collections.abc import Callable
from typing import Any, Unpack

import msgspec

from tocsin.client.connection.connection import Connection
from tocsin.client.messages.inbox import Inbox
from tocsin.client.messages.message import Message
from tocsin.client.messages.sending import Sender
from tocsin.core.commands import Acknowledged, AckStatus, Done, Rejected
from tocsin.core.errors import RequestError
from tocsin.wire import socket as op
from tocsin.wire.drafts import Draft, Options, Payload
from tocsin.wire.messages import Sent

__all__ = ["Settler"]

_ACKNOWLEDGED = msgspec.json.Decoder(Acknowledged)
_REJECTED = msgspec.json.Decoder(Rejected)
_DONE = msgspec.json.Decoder(Done)

#: Default type of a reply, by the type that it answers, and of all others.
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
        """Confirm the receipt of a message, unless it is confirmed already."""
        self._inbox.confirm(message)

    async def acknowledge(self, message: Message, status: AckStatus, notes: str) -> Acknowledged:
        """Acknowledge a message."""
        operation = op.Acknowledge(id=0, message_id=message.signal_id, status=status, notes=notes)
        reply: Acknowledged = await self._settle(message, operation, _ACKNOWLEDGED.decode)
        return reply

    async def reject(self, message: Message, reason: str, code: str, can_retry: bool, suggested_fix: str) -> Rejected:
        """Reject a message; with `can_retry` it may be delivered again before the answer arrives."""
        if can_retry:
            self._inbox.forget(message)
        operation = op.Reject(
            id=0,
            message_id=message.signal_id,
            reason=reason,
            code=code,
            can_retry=can_retry,
            suggested_fix=suggested_fix,
        )
        reply: Rejected = await self._settle(message, operation, _REJECTED.decode)
        if not can_retry:
            self._inbox.forget(message)
        return reply

    async def mark_processed(self, message: Message) -> Done:
        """Mark a message as processed."""
        operation = op.MarkProcessed(id=0, message_id=message.signal_id)
        reply: Done = await self._settle(message, operation, _DONE.decode)
        return reply

    async def reply(
        self, message: Message, payload: Payload, message_type: str | None, **options: Unpack[Options]
    ) -> Sent:
        """Answer a message in its thread; a message without a thread starts one under its messageId."""
        options.setdefault("correlation_id", message.correlation_id or message.message_id)
        kind = message_type or _REPLY_TYPES.get(message.type, _REPLY_TYPE)
        draft = Draft(to=message.sender, type=kind, payload=payload, **options)
        sent = await self._sender.send(draft, self._timeout_s, None)
        self._inbox.confirm(message)
        return sent

    async def _settle(self, message: Message, operation: op.Operation, decode: Callable[[msgspec.Raw], Any]) -> Any:
        try:
            reply = await self._connection.submit(operation, decode, self._timeout_s)
        except RequestError:
            self._inbox.settled(message)  # the hub refused it for good: nothing more can be done with the message
            raise
        self._inbox.settled(message)
        return reply
