"""HTTP operations on dead letters by cause: counting, listing, and redriving in bulk.

They read the live state, which has every dead letter that can be redriven. A bulk redrive takes as many as one command
may, and returns how many are left, so that the caller can repeat it.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Annotated

import msgspec
from msgspec import Meta

from tocsin.core import commands as cmd
from tocsin.core.errors import refusal
from tocsin.core.messages.model import Message, signal_id
from tocsin.core.protocol.priority import Priority, liminal_name
from tocsin.core.state import ProjectState
from tocsin.gateways.http.history import RedrivenView
from tocsin.gateways.http.operation import Call, Operation
from tocsin.gateways.http.problems import document_of
from tocsin.gateways.http.views import moment

__all__ = ["OPERATIONS"]

Words = Annotated[str, Meta(max_length=200)]


class Sort(msgspec.Struct, frozen=True):
    """Filter of dead letters; all given fields must match."""

    #: Reason, such as `retries_exhausted`.
    reason: Words | None = None
    #: Code of the last failure.
    code: Words | None = None
    message_type: Words | None = None
    recipient: Words | None = None


class SortPage(Sort, frozen=True):
    """Filter of dead letters, and a page."""

    #: `next` of the page before.
    after: Annotated[int, Meta(ge=0, le=10**9)] = 0
    #: At most this many.
    limit: Annotated[int, Meta(ge=1)] = 100


class LetterView(msgspec.Struct, frozen=True):
    """A dead letter."""

    signal_id: str
    message_id: str
    sender: str
    recipient: str
    message_type: str
    priority: str
    reason: str
    code: str
    #: Number of failures, retries used, and the time at which it became a dead letter.
    failures: int
    attempts: int
    dead_at: str | None
    #: Whether it can be redriven: its recipient must still be registered.
    redrivable: bool


class LetterPage(msgspec.Struct, frozen=True):
    """Dead letters, oldest first, and the next page."""

    items: list[LetterView]
    next: int | None


class GroupView(msgspec.Struct, frozen=True):
    """Dead letters with the same reason and code."""

    reason: str
    code: str
    letters: int
    #: Times at which the oldest and the newest became dead letters.
    oldest_at: str | None
    newest_at: str | None
    #: Number by message type.
    message_types: dict[str, int]


class BulkView(RedrivenView, frozen=True):
    """Messages that were queued again, those that were not, and the number left that match the filter."""

    left: int


def _may_see_all(call: Call) -> ProjectState:
    if not call.directs:
        raise refusal("E_AUTH_003", f"{call.caller.agent} may not see all dead letters: a director or a human may")
    return call.hub.host.exchange.state


def _cause(state: ProjectState, message: Message) -> tuple[str, str]:
    failure = state.failures.get(message.seq)
    return ("", "") if failure is None else (failure.reason, failure.code)


def _of(state: ProjectState, sort: Sort) -> Iterator[Message]:
    """Return the dead letters that match a filter, oldest first."""
    for seq in state.dead:
        message = state.messages[seq]
        reason, code = _cause(state, message)
        if (
            sort.reason in (None, reason)
            and sort.code in (None, code)
            and sort.message_type in (None, message.type)
            and sort.recipient in (None, message.recipient)
        ):
            yield message


async def dead_letter_groups(call: Call) -> list[GroupView]:
    """Count the dead letters by reason and code, most first: for directors and humans."""
    state = _may_see_all(call)
    groups: dict[tuple[str, str], list[Message]] = {}
    for message in _of(state, Sort()):
        groups.setdefault(_cause(state, message), []).append(message)
    views = [_group(reason, code, letters) for (reason, code), letters in groups.items()]
    await call.durable()
    return sorted(views, key=lambda group: -group.letters)


def _group(reason: str, code: str, letters: list[Message]) -> GroupView:
    kinds = [message.type for message in letters]
    died = [message.dead_at for message in letters]
    types = {kind: kinds.count(kind) for kind in sorted(set(kinds))}
    return GroupView(reason, code, len(letters), moment(min(died)), moment(max(died)), types)


async def find_dead_letters(call: Call) -> LetterPage:
    """List dead letters that match a filter: for directors and humans."""
    state, query = _may_see_all(call), call.query
    limit = min(query.limit, call.hub.config.page_max)
    found = list(islice(_of(state, query), query.after, query.after + limit + 1))
    page = LetterPage(
        [_view(state, message) for message in found[:limit]], query.after + limit if found[limit:] else None
    )
    await call.durable()
    return page


def _view(state: ProjectState, message: Message) -> LetterView:
    failure = state.failures.get(message.seq)
    reason, code = _cause(state, message)
    return LetterView(
        signal_id=signal_id(message),
        message_id=message.message_id,
        sender=message.sender,
        recipient=message.recipient,
        message_type=message.type,
        priority=liminal_name(Priority(message.priority)),
        reason=reason,
        code=code,
        failures=0 if failure is None else failure.count,
        attempts=message.attempts,
        dead_at=moment(message.dead_at),
        redrivable=message.recipient in state.agents,
    )


async def redrive_sort(call: Call) -> BulkView:
    """Redrive dead letters that match a filter, as many as one command may: for directors and humans."""
    state, sort = _may_see_all(call), call.body
    most = state.policy.limits.batch_max
    names = [signal_id(message) for message in islice(_redrivable(state, sort), most)]
    if not names:
        return BulkView([], {}, 0)
    reply = await call.submit(cmd.Redrive(tuple(names)))
    if not isinstance(reply, cmd.Redriven):
        return BulkView([], {}, 0)
    refused = {signal: document_of(problem) for signal, problem in reply.refused.items()}
    left = sum(1 for _ in _redrivable(call.hub.host.exchange.state, sort))
    return BulkView(list(reply.redriven), refused, left)


def _redrivable(state: ProjectState, sort: Sort) -> Iterator[Message]:
    return (message for message in _of(state, sort) if message.recipient in state.agents)


_HERE = "/v1/dead-letters"

OPERATIONS = (
    Operation("GET", _HERE + "/groups", dead_letter_groups, list[GroupView], tag="dead letters"),
    Operation("GET", _HERE + "/find", find_dead_letters, LetterPage, query=SortPage, tag="dead letters"),
    Operation("POST", _HERE + "/redrive-sort", redrive_sort, BulkView, body=Sort, tag="dead letters"),
)
