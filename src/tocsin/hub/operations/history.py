"""Handlers of the operations that read the history of messages, and dead letters.

An agent sees what it sent and what it received; directors see everything. The queries know the viewer, so that a page
is full and its `next` tells nothing about messages that the caller may not see.
"""

from collections.abc import AsyncIterator, Callable
from datetime import datetime
from typing import TypeVar

from tocsin.core import commands as cmd
from tocsin.core.errors import refusal
from tocsin.core.messages.message import Message, signal_id
from tocsin.core.protocol.previews import preview
from tocsin.core.protocol.priority import PRIORITY_NAMES, VOCABULARY
from tocsin.core.protocol.timestamps import as_datetime_or_none, as_microseconds
from tocsin.core.state import ProjectState
from tocsin.hub.operations.call import Call, Handler
from tocsin.hub.operations.pages import in_turns
from tocsin.hub.operations.records import dead_letter_record, history_record, message_record, message_summary
from tocsin.journal.history import Page as Rows
from tocsin.journal.history import Signal, Wanted
from tocsin.journal.records import life_of
from tocsin.journal.tables import Tables
from tocsin.wire import history as wire
from tocsin.wire.operation import Page, PageRequest

__all__ = ["HANDLERS"]

Row = TypeVar("Row")
Record = TypeVar("Record")


def _viewer(call: Call) -> str | None:
    """Return the agent whose messages the caller may see; null for all."""
    return None if call.directs else call.agent


def _limit(call: Call, limit: int) -> int:
    return min(limit, call.project.page_max)


async def _copies(call: Call, request: wire.GetMessage, record: Callable[[Signal], Record]) -> list[Record]:
    """Return records of the copies of a message that the caller may see."""
    name, viewer = request.message_id, _viewer(call)
    limit, bytes_max = _limit(call, request.limit), call.project.page_bytes_max

    def found(tables: Tables) -> list[Record]:
        return [record(signal) for signal in tables.signals(name, viewer, limit, bytes_max=bytes_max)]

    seen = await call.project.reader.ask(found, fresh=request.fresh)
    if not seen:
        raise refusal("E_STATE_001", f"there is no message {name[:192]} that you may see", found=name[:192])
    return seen


async def _page(
    call: Call, question: Callable[[Tables], Rows[Row]], record: Callable[[Row], Record], *, fresh: bool
) -> Page[Record]:
    """Return a page of records; the reader's thread makes them, because their messages may be large."""

    def found(tables: Tables) -> Page[Record]:
        rows = question(tables)
        return Page([record(row) for row in rows.items], rows.next)

    return await call.project.reader.ask(found, fresh=fresh)


async def get_message(call: Call, request: wire.GetMessage) -> list[wire.MessageRecord]:
    """Return the copies of a message."""
    return await _copies(call, request, message_record)


async def trace_message(call: Call, request: wire.GetMessage) -> list[wire.MessageHistory]:
    """Return the copies of a message with their events."""
    return await _copies(call, request, history_record)


async def list_inbox(call: Call, request: wire.ListInbox) -> Page[wire.MessageRecord]:
    """List the caller's messages."""
    states, limit, bytes_max = request.states.split(","), _limit(call, request.limit), call.project.page_bytes_max
    return await _page(
        call,
        lambda tables: tables.mailbox(call.agent, states, request.after, limit, bytes_max=bytes_max),
        message_record,
        fresh=request.fresh,
    )


async def list_thread(call: Call, request: wire.ListThread) -> Page[wire.MessageRecord]:
    """List the messages of a thread."""
    name, limit, viewer = request.correlation_id, _limit(call, request.limit), _viewer(call)
    bytes_max = call.project.page_bytes_max
    return await _page(
        call,
        lambda tables: tables.thread(name, request.after, limit, viewer, bytes_max=bytes_max),
        message_record,
        fresh=request.fresh,
    )


async def search_messages(call: Call, request: wire.SearchMessages) -> Page[wire.MessageRecord]:
    """Search messages by words of their payload."""
    limit, viewer, bytes_max = _limit(call, request.limit), _viewer(call), call.project.page_bytes_max
    return await _page(
        call,
        lambda tables: tables.search(request.q, request.after, limit, viewer, bytes_max=bytes_max),
        message_record,
        fresh=request.fresh,
    )


async def find_messages(call: Call, request: wire.FindMessages) -> Page[wire.MessageSummary]:
    """Find messages by their properties."""
    limit, depth = _limit(call, request.limit), call.project.find_depth
    wanted = Wanted(
        words=request.q,
        states=tuple(filter(None, request.states.split(","))),
        level=None if request.level is None else int(VOCABULARY[request.level]),
        sender=request.sender,
        recipient=request.recipient,
        message_type=request.type,
        delivery_class=request.delivery_class,
        correlation_id=request.correlation_id,
        publish_path=request.publish_path,
        since_at=_microseconds(request.since),
        until_at=_microseconds(request.until),
        viewer=_viewer(call),
    )
    preview_max = call.project.preview_max
    return await _page(
        call,
        lambda tables: tables.find(wanted, request.after, limit, depth),
        lambda brief: message_summary(brief, preview_max),
        fresh=request.fresh,
    )


def _microseconds(at: datetime | None) -> int | None:
    return None if at is None else as_microseconds(at)


async def list_dead_letters(call: Call, request: PageRequest) -> Page[wire.DeadLetterRecord]:
    """List dead letters."""
    limit, viewer, bytes_max = _limit(call, request.limit), _viewer(call), call.project.page_bytes_max
    return await _page(
        call,
        lambda tables: tables.dead_letters(request.after, limit, viewer, bytes_max=bytes_max),
        dead_letter_record,
        fresh=request.fresh,
    )


def _cause(state: ProjectState, message: Message) -> tuple[str, str]:
    failure = state.failures.get(message.seq)
    return ("", "") if failure is None else (failure.reason, failure.code)


async def _matching(call: Call, wanted: wire.CountDeadLetters) -> AsyncIterator[Message]:
    """Yield the dead letters that match, oldest first."""
    state = call.state
    async for seq in in_turns(call, state.dead):
        message = state.messages.get(seq)
        if message is None or seq not in state.dead:
            continue
        reason, code = _cause(state, message)
        if (
            wanted.reason in (None, reason)
            and wanted.code in (None, code)
            and wanted.type in (None, message.type)
            and wanted.recipient in (None, message.recipient)
        ):
            yield message


async def count_dead_letters(call: Call, request: wire.CountDeadLetters) -> list[wire.DeadLetterGroup]:
    """Count dead letters by reason and code."""
    state = call.state
    groups: dict[tuple[str, str], list[Message]] = {}
    async with call.project.listing:
        async for message in _matching(call, request):
            groups.setdefault(_cause(state, message), []).append(message)
    counted = [_group(reason, code, letters) for (reason, code), letters in groups.items()]
    await call.durable()
    return sorted(counted, key=lambda group: -group.letters)


def _group(reason: str, code: str, letters: list[Message]) -> wire.DeadLetterGroup:
    types = [message.type for message in letters]
    died = [message.dead_at for message in letters]
    return wire.DeadLetterGroup(
        reason=reason,
        code=code,
        letters=len(letters),
        oldest_at=as_datetime_or_none(min(died)),
        newest_at=as_datetime_or_none(max(died)),
        types={name: types.count(name) for name in sorted(set(types))},
    )


async def find_dead_letters(call: Call, request: wire.FindDeadLetters) -> Page[wire.DeadLetterSummary]:
    """Find dead letters."""
    state, limit = call.state, _limit(call, request.limit)
    number, found = 0, list[Message]()
    async with call.project.listing:
        async for message in _matching(call, request):
            number += 1
            if number > request.after:
                found.append(message)
            if len(found) > limit:
                break
    following = request.after + limit if found[limit:] else None
    found = found[:limit]
    details = await _details(call, [message.seq for message in found])
    preview_max = call.project.preview_max
    page = Page([_summary(state, message, details.get(message.seq, ""), preview_max) for message in found], following)
    await call.durable()
    return page


async def _details(call: Call, seqs: list[int]) -> dict[int, str]:
    """Return why messages died, in words, by sequence number."""
    lives = await call.project.reader.ask(lambda tables: tables.lives(seqs), fresh=True) if seqs else {}
    return {seq: detail for seq, life in lives.items() if (detail := _last_detail(life))}


def _last_detail(life: bytes) -> str:
    deaths = [event for event in life_of(life) if event.get("kind") == "MessageDied"]
    return str(deaths[-1].get("detail", "")) if deaths else ""


def _summary(state: ProjectState, message: Message, detail: str, preview_max: int) -> wire.DeadLetterSummary:
    failure = state.failures.get(message.seq)
    reason, code = _cause(state, message)
    return wire.DeadLetterSummary(
        signal_id=signal_id(message),
        message_id=message.message_id,
        sender=message.sender,
        recipient=message.recipient,
        type=message.type,
        priority=PRIORITY_NAMES[message.priority],
        reason=reason,
        code=code,
        failures=0 if failure is None else failure.count,
        attempts=message.attempts,
        dead_at=as_datetime_or_none(message.dead_at),
        redrivable=message.recipient in state.agents,
        detail=detail,
        preview=preview(message.payload, preview_max),
    )


async def redrive_matching(call: Call, request: wire.RedriveMatching) -> wire.RedrivenMatching:
    """Queue matching dead letters again, as many as one command may."""
    batch, names, matching = call.state.policy.limits.batch_max, list[str](), 0
    async with call.project.listing:
        async for message in _matching(call, request):
            if message.recipient in call.state.agents:
                matching += 1
                if len(names) < batch:
                    names.append(signal_id(message))
    if not names:
        return wire.RedrivenMatching((), {})
    reply: cmd.Redriven = await call.submit(cmd.Redrive(tuple(names)))
    return wire.RedrivenMatching(reply.redriven, reply.refused, matching - len(reply.redriven))


HANDLERS: dict[str, Handler] = {
    "get_message": get_message,
    "trace_message": trace_message,
    "list_inbox": list_inbox,
    "list_thread": list_thread,
    "search_messages": search_messages,
    "find_messages": find_messages,
    "list_dead_letters": list_dead_letters,
    "count_dead_letters": count_dead_letters,
    "find_dead_letters": find_dead_letters,
    "redrive_matching": redrive_matching,
}
