"""Matching of received messages to the requests that wait for a response."""

import asyncio
from typing import Any

from tocsin.client.errors import error_of
from tocsin.client.messages.message import Message
from tocsin.core.commands import SYSTEM
from tocsin.core.errors import CATALOGUE, Problem, TocsinError
from tocsin.core.protocol.envelope import ANYONE

__all__ = ["Awaited", "Requests", "failure_in"]

_ACK, _NACK, _REPORT = "ACK", "NACK", "ERROR_REPORT"
#: Prefix of a request in the wait-for graph.
_WAIT = "request:"
#: Code of a rejection without a code of the catalogue.
_REJECTED = "E_TASK_003"
#: Requests that are remembered, so that late notices about them are not handed to the application.
_MADE_MAX = 1000


class Awaited:
    """A request that waits for its response."""

    def __init__(self, to: str, message_id: str, response: "asyncio.Future[Message]") -> None:
        self.to = to
        self.message_id = message_id
        self.response = response

    def fits(self, message: Message) -> bool:
        """Tell whether a message of its thread is the response, or reports that there will be none."""
        if self.response.done() or message.type == _ACK or message.message_id == self.message_id:
            return False
        if message.sender == SYSTEM.agent:
            return message.type == _REPORT and self.message_id in _about(message) and self.to != ANYONE
        if message.type == _NACK:
            return message.payload.get("rejectedMessageId") == self.message_id
        return self.to in (ANYONE, message.sender)


class Requests:
    """Requests that wait for a response, by thread."""

    def __init__(self) -> None:
        self._awaited: dict[str, list[Awaited]] = {}
        self._made: dict[str, None] = {}

    @property
    def waiting(self) -> bool:
        """Tell whether a request waits for a response."""
        return bool(self._awaited)

    def expect(self, correlation_id: str, awaited: Awaited) -> None:
        """Add a request."""
        self._made[awaited.message_id] = None
        if len(self._made) > _MADE_MAX:
            del self._made[next(iter(self._made))]
        self._awaited.setdefault(correlation_id, []).append(awaited)

    def give_up(self, correlation_id: str, awaited: Awaited) -> None:
        """Remove a request."""
        others = [other for other in self._awaited.get(correlation_id, ()) if other is not awaited]
        if others:
            self._awaited[correlation_id] = others
        else:
            self._awaited.pop(correlation_id, None)

    def match(self, message: Message) -> Awaited | None:
        """Return the request that a message answers, if any."""
        if not self._awaited:
            return None
        if message.correlation_id is None:
            return self._broken(message)
        waiting = self._awaited.get(message.correlation_id, ())
        return next((awaited for awaited in waiting if awaited.fits(message)), None)

    def _broken(self, message: Message) -> Awaited | None:
        """Return the request whose wait was ended to break a deadlock; that report has no thread."""
        if message.sender != SYSTEM.agent or message.type != _REPORT:
            return None
        for waiting in self._awaited.values():
            for awaited in waiting:
                if awaited.fits(message):
                    return awaited
        return None

    def takes(self, message: Message) -> bool:
        """Tell whether a message is a late notice about a request of this client."""
        if message.sender != SYSTEM.agent or message.type != _REPORT:
            return False
        context = message.payload.get("context")
        return isinstance(context, dict) and context.get("request") in self._made

    def fail(self, error: TocsinError) -> None:
        """Fail all requests with an error."""
        for waiting in self._awaited.values():
            for awaited in waiting:
                if not awaited.response.done():
                    awaited.response.set_exception(error)
                    awaited.response.exception()  # marks it as retrieved


def failure_in(message: Message) -> TocsinError | None:
    """Return the error that a response reports, if it does."""
    payload = message.payload
    if message.type == _NACK:
        return _failure(payload, str(payload.get("reason", "rejected")), bool(payload.get("canRetry")))
    if message.type == _REPORT and message.sender == SYSTEM.agent:
        return _failure(payload, str(payload.get("errorMessage", "the request died")), False)
    return None


def _failure(payload: dict[str, Any], detail: str, retryable: bool) -> TocsinError:
    code = payload.get("errorCode")
    return error_of(Problem(code if code in CATALOGUE else _REJECTED, detail, retryable=retryable))


def _about(message: Message) -> tuple[str | None, ...]:
    """Return the ids of the request that a report may be about: a dead message, a timeout, or a refused wait."""
    context = message.payload.get("context")
    if not isinstance(context, dict):
        return ()
    refused = context.get("refused") if context.get("victim") == message.receiver else None
    wait = refused.removeprefix(_WAIT) if isinstance(refused, str) and refused.startswith(_WAIT) else None
    return context.get("messageId"), context.get("request"), wait
