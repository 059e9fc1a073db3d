"""Questions about the past: messages, their lives, threads, search and dead letters.

An agent sees what it sent and what came for it; whoever directs sees everything. A page may therefore hold fewer items
than asked for; `next` says whether there are more.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from tocsin.core import commands as cmd
from tocsin.core.errors import refusal
from tocsin.core.protocol.priority import VOCABULARY
from tocsin.gateways.http.operation import Call, Operation
from tocsin.gateways.http.problems import ProblemDocument, document_of
from tocsin.gateways.http.views import (
    BriefView,
    DeadLetterView,
    LifeView,
    MessageView,
    brief_view,
    dead_letter_view,
    life_view,
    message_view,
)
from tocsin.journal.history import Brief, Page, Signal, Wanted
from tocsin.journal.tables import Tables

__all__ = ["OPERATIONS"]

Cursor = Annotated[int, Meta(ge=0, le=2**63 - 1)]


class Freshness(msgspec.Struct, frozen=True):
    """How new an answer must be."""

    #: Whether to wait until the history knows all that is durable now.
    fresh: bool = True


class Paging(msgspec.Struct, frozen=True):
    """Which page."""

    #: `next` of the page before.
    after: Cursor = 0
    #: At most this many.
    limit: Annotated[int, Meta(ge=1)] = 100
    #: Whether to wait until the history knows all that is durable now.
    fresh: bool = True


class Searching(Paging, frozen=True):
    """What for, and which page."""

    #: Words of the payload.
    q: Annotated[str, Meta(max_length=1000)] = ""


class Peeking(Paging, frozen=True):
    """Which messages, and which page."""

    #: States, separated by commas.
    states: Annotated[str, Meta(max_length=200)] = "queued,offered"


class Finding(Searching, frozen=True):
    """Which messages, and which page; what is not said is not asked about."""

    #: States, separated by commas.
    states: Annotated[str, Meta(max_length=200)] = ""
    #: Priority as it counts now.
    level: Literal["Info", "Coordinate", "Blocking", "Critical", "DirectorOverride"] | None = None
    sender: Annotated[str, Meta(max_length=64)] | None = None
    recipient: Annotated[str, Meta(max_length=64)] | None = None
    message_type: Annotated[str, Meta(max_length=128)] | None = None
    delivery_class: Literal["sync", "async"] | None = None
    correlation_id: Annotated[str, Meta(max_length=256)] | None = None
    #: `unknown` finds rows from before there was such a column.
    publish_path: Literal["pushed_to_ws", "buffered_for_piggyback", "queued_offline", "unknown"] | None = None
    #: Accepted from then on, ISO 8601.
    since: datetime | None = None
    #: Accepted before then, ISO 8601.
    until: datetime | None = None


class BriefPage(msgspec.Struct, frozen=True):
    """Messages without their content, and where to go on; a page may be empty though there are more."""

    items: list[BriefView]
    #: Cursor of the next page; null where this is the last.
    next: int | None


class MessagePage(msgspec.Struct, frozen=True):
    """Messages, and where to go on."""

    items: list[MessageView]
    #: Cursor of the next page; null where this is the last.
    next: int | None


class DeadLetterPage(msgspec.Struct, frozen=True):
    """Dead letters, and where to go on."""

    items: list[DeadLetterView]
    #: Cursor of the next page; null where this is the last.
    next: int | None


class RedriveBody(msgspec.Struct, frozen=True):
    """Which dead letters."""

    signal_ids: list[str]


class RedrivenView(msgspec.Struct, frozen=True):
    """What was queued again, and what was not, with the reason."""

    redriven: list[str]
    refused: dict[str, ProblemDocument]


def _may_see(call: Call, signal: Signal | Brief) -> bool:
    return call.directs or call.grant.agent in (signal.sender, signal.recipient)


def _limit(call: Call) -> int:
    limit: int = call.query.limit
    return min(limit, call.hub.config.page_max)


async def _signals(call: Call) -> list[Signal]:
    message_id = call.path["message_id"]
    found = await call.hub.reader.ask(lambda tables: tables.signals(message_id), fresh=call.query.fresh)
    seen = [signal for signal in found if _may_see(call, signal)]
    if not seen:
        raise refusal("E_STATE_001", f"{message_id[:192]} is not there, or not yours", found=message_id[:192])
    return seen


async def _page(call: Call, question: Callable[[Tables], Page[Signal]]) -> MessagePage:
    page = await call.hub.reader.ask(question, fresh=call.query.fresh)
    return MessagePage([message_view(signal) for signal in page.items if _may_see(call, signal)], page.next)


async def message(call: Call) -> list[MessageView]:
    """Look a message up: every copy that the caller may see, newest first."""
    return [message_view(signal) for signal in await _signals(call)]


async def life(call: Call) -> list[LifeView]:
    """Tell everything that happened to a message."""
    return [life_view(signal) for signal in await _signals(call)]


async def inbox(call: Call) -> MessagePage:
    """Look at what came for the caller, without taking it."""
    states, agent, after, limit = call.query.states.split(","), call.grant.agent, call.query.after, _limit(call)
    return await _page(call, lambda tables: tables.mailbox(agent, states, after, limit))


async def thread(call: Call) -> MessagePage:
    """List the messages of a thread, oldest first."""
    name, after, limit = call.path["correlation_id"], call.query.after, _limit(call)
    return await _page(call, lambda tables: tables.thread(name, after, limit))


async def search(call: Call) -> MessagePage:
    """Find messages by words of their payload, newest first."""
    words, before, limit = call.query.q, call.query.after, _limit(call)
    return await _page(call, lambda tables: tables.search(words, before, limit))


async def find_messages(call: Call) -> BriefPage:
    """Find messages by what they are and by words of their payload, newest first."""
    query, limit, depth = call.query, _limit(call), call.hub.config.find_depth
    wanted = Wanted(
        words=query.q,
        states=tuple(filter(None, query.states.split(","))),
        level=None if query.level is None else int(VOCABULARY[query.level]),
        sender=query.sender,
        recipient=query.recipient,
        message_type=query.message_type,
        delivery_class=query.delivery_class,
        correlation_id=query.correlation_id,
        publish_path=query.publish_path,
        since_at=_microseconds(query.since),
        until_at=_microseconds(query.until),
    )
    page = await call.hub.reader.ask(lambda tables: tables.find(wanted, query.after, limit, depth), fresh=query.fresh)
    return BriefPage([brief_view(brief) for brief in page.items if _may_see(call, brief)], page.next)


def _microseconds(at: datetime | None) -> int | None:
    """Read a time; one without a zone is UTC."""
    if at is None:
        return None
    return int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1_000_000)


async def dead_letters(call: Call) -> DeadLetterPage:
    """List the dead letters, oldest death first."""
    after, limit = call.query.after, _limit(call)
    page = await call.hub.reader.ask(lambda tables: tables.dead_letters(after, limit), fresh=call.query.fresh)
    return DeadLetterPage([dead_letter_view(item) for item in page.items if _may_see(call, item.signal)], page.next)


async def redrive(call: Call) -> RedrivenView:
    """Queue dead letters again: a director's any, a sender's own."""
    reply = await call.submit(cmd.Redrive(tuple(call.body.signal_ids)))
    if not isinstance(reply, cmd.Redriven):
        return RedrivenView([], {})
    refused = {signal: document_of(problem) for signal, problem in reply.refused.items()}
    return RedrivenView(list(reply.redriven), refused)


_ONE = "/v1/messages/{message_id}"

OPERATIONS = (
    Operation("GET", "/v1/messages", find_messages, BriefPage, query=Finding, tag="history"),
    Operation("GET", _ONE, message, list[MessageView], query=Freshness, tag="history"),
    Operation("GET", _ONE + "/life", life, list[LifeView], query=Freshness, tag="history"),
    Operation("GET", "/v1/inbox", inbox, MessagePage, query=Peeking, tag="inbox"),
    Operation("GET", "/v1/threads/{correlation_id}", thread, MessagePage, query=Paging, tag="history"),
    Operation("GET", "/v1/search", search, MessagePage, query=Searching, tag="history"),
    Operation("GET", "/v1/dead-letters", dead_letters, DeadLetterPage, query=Paging, tag="dead letters"),
    Operation("POST", "/v1/dead-letters/redrive", redrive, RedrivenView, body=RedriveBody, tag="dead letters"),
)
