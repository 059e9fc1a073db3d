"""Sending of messages: an envelope becomes an operation, and the hub's answer a receipt.

A send whose refusal is retryable is repeated under the same messageId if the caller asks for it.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, TypeAlias

import msgspec

from tocsin.client.backoff import Retry
from tocsin.client.connection import Connection
from tocsin.client.errors import NoAnswer, error_of, unreachable
from tocsin.client.operation_caller import OperationCaller
from tocsin.core.commands import (
    Acknowledged,
    BroadcastReceipt,
    Done,
    Receipt,
    Registered,
    Rejected,
    Reply,
    Requested,
)
from tocsin.core.errors import InvariantViolation, Problem, TocsinError
from tocsin.core.protocol.envelope import Envelope
from tocsin.wire import socket as op
from tocsin.wire.drafts import Draft, EnvelopeWriter, Written
from tocsin.wire.messages import SendReply, Sent, Settled

__all__ = ["Outcome", "Sender"]

_REPLY = msgspec.json.Decoder(SendReply)
_REQUESTED = msgspec.json.Decoder(Requested)
_DONE = msgspec.json.Decoder(Done)
_NEVER = Retry(attempts_max=1)
#: Code and field of the refusal of a request whose message type has no answer.
_UNANSWERED = ("E_VALIDATION_003", "$.messageType")

#: The result of one message of many: its receipt, or the refusal that a single send would raise.
Outcome: TypeAlias = Sent | TocsinError


class Sender:
    """Sends for one agent."""

    def __init__(
        self, connection: Connection, caller: OperationCaller, writer: EnvelopeWriter, retry: Retry | None
    ) -> None:
        self._connection = connection
        self._caller = caller
        self._retry = retry
        self.writer = writer

    async def send(self, draft: Draft, timeout_s: float, retry: Retry | None) -> Sent:
        """Send one message; a refusal is raised."""
        connection = self._connection
        local = connection.local
        if local is None:
            return await self.send_written(self.writer.write(draft), timeout_s, retry)
        message = self.writer.prepare(draft, local.message_bytes_max)
        if retry is None and self._retry is None:
            try:
                reply = await connection.send_local(local, message, timeout_s)
            except NoAnswer as error:
                error.problem.facts["message_id"] = message.message_id
                raise
            return reply if type(reply) is Receipt else _local_result(reply)
        sent: Sent = await self._persistently(lambda: self._send_local(message, timeout_s), message, retry)
        return sent

    async def _send_local(self, message: Envelope | Written, timeout_s: float) -> Sent:
        local = self._connection.local
        if local is None:
            raise unreachable("the project in this process is closed")
        return _local_result(await self._connection.send_local(local, message, timeout_s))

    async def send_written(self, written: Written, timeout_s: float, retry: Retry | None) -> Sent:
        """Send an envelope that is written already."""
        sent: Sent = await self._persistently(lambda: self._submit(written, timeout_s), written, retry)
        return sent

    async def request(
        self, written: Written, timeout_s: float, retry: Retry | None, *, boost: bool, escalate: bool
    ) -> bool:
        """Send a message as a request; return false if its type has no answer, so that the hub cannot wait for one."""
        arguments = {"timeout_s": timeout_s, "boost_on_timeout": boost, "escalate": escalate}

        def submit() -> "asyncio.Future[Requested]":
            return self._caller.submit("send_request", arguments, _REQUESTED, written=written)

        try:
            await self._persistently(submit, written, retry)
        except TocsinError as error:
            if (error.problem.code, error.problem.field) != _UNANSWERED:
                raise
            return False
        return True

    async def _persistently(
        self, submit: "Callable[[], Awaitable[Any]]", written: Envelope | Written, retry: Retry | None
    ) -> Any:
        """Send a message, and again as long as the retry policy allows."""
        retry = retry or self._retry
        backoff = (retry or _NEVER).backoff()
        while True:
            try:
                return await submit()
            except TocsinError as error:
                if isinstance(error, NoAnswer):
                    error.problem.facts["message_id"] = written.message_id
                if retry is None or not retry.worth(error, backoff):
                    raise
                await asyncio.sleep(max(error.problem.retry_after_s or 0.0, backoff.next_s()))

    def stop_waiting(self, written: Written) -> None:
        """Cancel a request without waiting for the hub's answer; one that has ended stays as it is."""
        with contextlib.suppress(TocsinError):
            cancelled = self._caller.submit("cancel_request", {"request": written.message_id}, _DONE)
            cancelled.add_done_callback(lambda future: future.cancelled() or future.exception())

    async def send_many(self, drafts: Iterable[Draft], timeout_s: float, retry: Retry | None) -> list[Outcome]:
        """Send many messages, in order and without waiting for one before the next."""
        retry = retry or self._retry
        local = self._connection.local
        written: list[Envelope | Written]
        if local is None:
            written = [self.writer.write(draft) for draft in drafts]
        else:
            bytes_max = local.message_bytes_max
            written = [self.writer.prepare(draft, bytes_max) for draft in drafts]
        outcomes = await self._round(written, timeout_s)
        if retry is None:
            return outcomes
        backoff = retry.backoff()
        while True:
            refused = {number: outcome for number, outcome in enumerate(outcomes) if isinstance(outcome, TocsinError)}
            again = {number: error for number, error in refused.items() if retry.worth(error, backoff)}
            if not again:
                return outcomes
            asked = max(error.problem.retry_after_s or 0.0 for error in again.values())
            await asyncio.sleep(max(asked, backoff.next_s()))
            retried = await self._round([written[number] for number in again], timeout_s)
            for number, outcome in zip(again, retried, strict=True):
                outcomes[number] = outcome

    async def _round(self, written: "Sequence[Envelope | Written]", timeout_s: float) -> list[Outcome]:
        """Send each of them once, with no more on their way than there is room for."""
        futures: list[asyncio.Future[Any]] = []
        outcomes: list[Outcome] = []
        try:
            for item in written:
                while not self._connection.has_room and len(outcomes) < len(futures):
                    outcomes.append(await _outcome(futures[len(outcomes)]))
                futures.append(self._submit(item, timeout_s))
            while len(outcomes) < len(futures):
                outcomes.append(await _outcome(futures[len(outcomes)]))
        except BaseException:
            for future in futures:
                future.cancel()
            raise
        return outcomes

    def _submit(self, written: Envelope | Written, timeout_s: float) -> "asyncio.Future[Any]":
        local = self._connection.local
        if local is not None:
            return self._connection.send_local(local, written, timeout_s)
        if isinstance(written, Envelope):
            raise unreachable("the project in this process is closed")
        operation = op.Send(id=0, envelope=written.envelope, signature=written.signature)
        future: asyncio.Future[Sent] = self._connection.submit(operation, _sent, timeout_s)
        return future


def _sent(reply: msgspec.Raw) -> Sent:
    return _REPLY.decode(reply).sent()


def _local_result(reply: Reply) -> Sent:
    """Return what a bus in this process answered to a send; a refusal is raised."""
    if type(reply) is Receipt:
        return reply
    if isinstance(reply, Problem):
        raise error_of(reply)
    if isinstance(reply, Acknowledged | Rejected):
        return Settled(reply.signal_id, reply.state)
    if isinstance(reply, BroadcastReceipt | Registered):
        return reply
    raise InvariantViolation(f"a send was answered with {type(reply).__name__}")


async def _outcome(future: "asyncio.Future[Any]") -> Outcome:
    """Return the receipt or the refusal that a future holds, from a hub or from a bus in this process."""
    try:
        reply = future.result() if future.done() else await future
        if type(reply) is Receipt:
            return reply
        return reply if isinstance(reply, BroadcastReceipt | Registered | Settled) else _local_result(reply)
    except TocsinError as error:
        return error
