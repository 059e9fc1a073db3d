"""Sending of messages: an envelope becomes an operation, and the hub's answer a receipt.

A send whose refusal is retryable is repeated under the same messageId if the caller asks for it.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, TypeAlias

import msgspec

from tocsin.client.connection.backoff import Retry
from tocsin.client.connection.connection import Connection
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
from tocsin.core.protocol.priority import Priority
from tocsin.wire import socket as op
from tocsin.wire.drafts import Draft, Payload, Written
from tocsin.wire.envelope_writer import EnvelopeWriter
from tocsin.wire.messages import SendReply, Sent, Settled

__all__ = ["Outcome", "Sender", "local_result"]

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
        self, connection: Connection, caller: OperationCaller, writer: EnvelopeWriter, retry: Retry | None, turn: int
    ) -> None:
        self._connection = connection
        #: Messages that are written or submitted in one turn of the event loop.
        self._turn = turn
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
            return reply if type(reply) is Receipt else local_result(reply)
        sent: Sent = await self._persistently(lambda: self._send_local(message, timeout_s), message, retry)
        return sent

    def send_plain(
        self, to: str, message_type: str, payload: Payload, priority: str | Priority | None, timeout_s: float
    ) -> "tuple[asyncio.Future[Reply], str] | None":
        """Send a message that names nothing else to a bus in this process, with the future of its reply and its id.

        Null if there is no such bus, if refusals are retried, or if the envelope has to be written.
        """
        connection = self._connection
        local = connection.local
        if local is None or self._retry is not None:
            return None
        envelope = self.writer.prepare_plain(to, message_type, payload, priority, local.message_bytes_max)
        if envelope is None:
            return None
        return connection.send_local(local, envelope, timeout_s), envelope.message_id

    async def _send_local(self, message: Envelope | Written, timeout_s: float) -> Sent:
        local = self._connection.local
        if local is None:
            raise unreachable("the project in this process is closed")
        return local_result(await self._connection.send_local(local, message, timeout_s))

    async def send_written(self, written: Written, timeout_s: float, retry: Retry | None) -> Sent:
        """Send an envelope that is written already."""
        sent: Sent
        if retry is None and self._retry is None:
            try:
                sent = await self._submit(written, timeout_s)
            except NoAnswer as error:
                error.problem.facts["message_id"] = written.message_id
                raise
            return sent
        sent = await self._persistently(lambda: self._submit(written, timeout_s), written, retry)
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
                wait_s = max(error.problem.retry_after_s or 0.0, backoff.next_s())
            await asyncio.sleep(wait_s)

    def stop_waiting(self, written: Written) -> None:
        """Cancel a request without waiting for the hub's answer; one that has ended stays as it is."""
        with contextlib.suppress(TocsinError):
            cancelled = self._caller.submit("cancel_request", {"request": written.message_id}, _DONE)
            cancelled.add_done_callback(lambda future: future.cancelled() or future.exception())

    async def send_many(self, drafts: Iterable[Draft], timeout_s: float, retry: Retry | None) -> list[Outcome]:
        """Send many messages, in order and without waiting for one before the next."""
        retry = retry or self._retry
        written = await self._write_all(drafts)
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

    async def _write_all(self, drafts: Iterable[Draft]) -> "list[Envelope | Written]":
        """Write all drafts before any is sent, so that one that cannot be written prevents all."""
        local, write, written = self._connection.local, self.writer.write, []
        for draft in drafts:
            written.append(write(draft) if local is None else self.writer.prepare(draft, local.message_bytes_max))
            if not len(written) % self._turn:
                await asyncio.sleep(0)
        return written

    async def _round(self, written: "Sequence[Envelope | Written]", timeout_s: float) -> list[Outcome]:
        """Send each of them once, with no more on their way than there is room for."""
        if self._connection.local is not None:
            return await self._round_local(written, timeout_s)
        futures: list[asyncio.Future[Any]] = []
        outcomes: list[Outcome] = []
        try:
            for item in written:
                while not self._connection.has_room and len(outcomes) < len(futures):
                    outcomes.append(await _outcome(futures[len(outcomes)]))
                futures.append(self._submit(item, timeout_s))
                if not len(futures) % self._turn:
                    await asyncio.sleep(0)
            while len(outcomes) < len(futures):
                outcomes.append(await _outcome(futures[len(outcomes)]))
        except BaseException:
            for future in futures:
                future.cancel()
            raise
        return outcomes

    async def _round_local(self, written: "Sequence[Envelope | Written]", timeout_s: float) -> list[Outcome]:
        """Send each of them once to the project in this process, some at a time, which share a future."""
        under_way: deque[tuple[asyncio.Future[list[Reply]], int]] = deque()
        outcomes: list[Outcome] = []
        try:
            for begin in range(0, len(written), self._turn):
                while under_way and not self._connection.has_room:
                    outcomes += await _outcomes(*under_way.popleft())
                local = self._connection.local
                if local is None:
                    raise unreachable("the project in this process is closed")
                some = written[begin : begin + self._turn]
                under_way.append((self._connection.send_batch(local, some, timeout_s), len(some)))
                await asyncio.sleep(0)
            while under_way:
                outcomes += await _outcomes(*under_way.popleft())
        except BaseException:
            for future, _ in under_way:
                future.cancel()
            raise
        return outcomes

    def _submit(self, written: Envelope | Written, timeout_s: float) -> "asyncio.Future[Any]":
        if isinstance(written, Envelope):
            raise unreachable("the project in this process is closed")
        operation = op.Send(id=0, envelope=written.envelope, signature=written.signature)
        future: asyncio.Future[Sent] = self._connection.submit(operation, _sent, timeout_s)
        return future


def _sent(reply: msgspec.Raw) -> Sent:
    return _REPLY.decode(reply).sent()


def local_result(reply: Reply) -> Sent:
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
    """Return the receipt or the refusal that a future holds."""
    try:
        reply: Sent = future.result() if future.done() else await future
    except TocsinError as error:
        return error
    return reply


async def _outcomes(future: "asyncio.Future[list[Reply]]", count: int) -> list[Outcome]:
    """Return the receipts and refusals that a bus in this process answered to some messages."""
    try:
        replies = await future
    except TocsinError as error:
        return [error] * count
    return [reply if type(reply) is Receipt else _local_outcome(reply) for reply in replies]


def _local_outcome(reply: Reply) -> Outcome:
    try:
        return local_result(reply)
    except TocsinError as error:
        return error
