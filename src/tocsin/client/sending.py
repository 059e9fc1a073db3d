"""Sending: drafts become envelopes, envelopes become operations, and the hub's answer becomes a receipt.

A send that may succeed later is tried again where the caller says so, under the same messageId.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import msgspec

from tocsin.client import operations as op
from tocsin.client.backoff import Retry
from tocsin.client.connection import Connection
from tocsin.client.envelopes import Draft, EnvelopeWriter, Written
from tocsin.client.errors import NoAnswer
from tocsin.client.replies import Nothing, SendReply, Sent
from tocsin.client.teamwork_replies import Requested
from tocsin.core.errors import TocsinError, refusal

__all__ = ["Outcome", "Sender"]

_REPLY = msgspec.json.Decoder(SendReply)
_REQUESTED = msgspec.json.Decoder(Requested)
_NOTHING = msgspec.json.Decoder(Nothing)
_NEVER = Retry(attempts_max=1)
#: How a hub says that no answer to a type is foreseen: its code and the field.
_UNANSWERED = ("E_VALIDATION_003", "$.messageType")

#: What became of one message of many: its receipt, or the refusal that a single send would have raised.
Outcome: TypeAlias = Sent | TocsinError


class Sender:
    """Sends for one agent."""

    def __init__(self, connection: Connection, writer: EnvelopeWriter, retry: Retry | None) -> None:
        self._connection = connection
        self._retry = retry
        self.writer = writer

    def write(self, draft: Draft) -> Written:
        """Write a draft down, or refuse a payload that is no JSON."""
        try:
            return self.writer.write(draft)
        except (TypeError, ValueError, msgspec.MsgspecError) as error:
            raise refusal("E_VALIDATION_002", f"the message cannot be written: {error}", field="$.payload") from error

    async def send(self, written: Written, timeout_s: float, retry: Retry | None) -> Sent:
        """Send one message; raise what it is refused with."""
        reply: SendReply = await self._persistently(lambda: self._submit(written, timeout_s), written, retry)
        return reply.sent()

    async def ask(
        self, written: Written, known_s: float, timeout_s: float, retry: Retry | None, *, boost: bool, escalate: bool
    ) -> bool:
        """Send a message as a request that the hub knows of; say whether it does, or nothing answers this type."""
        query = {"timeout_s": known_s, "boost_on_timeout": boost, "escalate": escalate}
        call = op.Call(operation="send_request", query=query, envelope=written.envelope, signature=written.signature)
        try:
            await self._persistently(lambda: self._connection.submit(call, _REQUESTED, timeout_s), written, retry)
        except TocsinError as error:
            if (error.problem.code, error.problem.field) != _UNANSWERED:
                raise
            return False
        return True

    async def _persistently(
        self, submit: "Callable[[], asyncio.Future[Any]]", written: Written, retry: Retry | None
    ) -> Any:
        """Do something under a messageId, again where it may succeed later and the caller says so."""
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

    def wait_no_longer(self, written: Written, timeout_s: float) -> None:
        """Let the hub know that a response is not awaited any more; where it knows already, nothing changes."""
        call = op.Call(operation="cancel_request", path={"request": written.message_id})
        with contextlib.suppress(TocsinError):
            told = self._connection.submit(call, _NOTHING, timeout_s)
            told.add_done_callback(lambda future: future.cancelled() or future.exception())

    async def send_many(self, drafts: Iterable[Draft], timeout_s: float, retry: Retry | None) -> list[Outcome]:
        """Send many messages, in order and without waiting for one before the next."""
        retry = retry or self._retry
        written = [self.write(draft) for draft in drafts]
        outcomes = await self._round(written, timeout_s)
        if retry is None:
            return outcomes
        backoff = retry.backoff()
        while True:
            refused = {number: told for number, told in enumerate(outcomes) if isinstance(told, TocsinError)}
            again = {number: error for number, error in refused.items() if retry.worth(error, backoff)}
            if not again:
                return outcomes
            asked = max(error.problem.retry_after_s or 0.0 for error in again.values())
            await asyncio.sleep(max(asked, backoff.next_s()))
            told = await self._round([written[number] for number in again], timeout_s)
            for number, outcome in zip(again, told, strict=True):
                outcomes[number] = outcome

    async def _round(self, written: Sequence[Written], timeout_s: float) -> list[Outcome]:
        """Send all of them once, with no more under way than there is room for."""
        futures: list[asyncio.Future[SendReply]] = []
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

    def _submit(self, written: Written, timeout_s: float) -> "asyncio.Future[SendReply]":
        operation = op.Send(envelope=written.envelope, signature=written.signature)
        future: asyncio.Future[SendReply] = self._connection.submit(operation, _REPLY, timeout_s)
        return future


async def _outcome(future: "asyncio.Future[SendReply]") -> Outcome:
    try:
        return (await future).sent()
    except TocsinError as error:
        return error
