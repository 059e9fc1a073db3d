"""Operations that read the history of messages, and dead letters."""

from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from tocsin.core import commands as cmd
from tocsin.core.commands.base import AgentName, MessageRef, TypeFilter
from tocsin.core.protocol.contracts import DeliveryClass
from tocsin.core.protocol.priority import AnyPriorityName, PriorityName
from tocsin.wire.explanations import Reason
from tocsin.wire.operation import Access, Limit, Operation, Page, PageRequest, Request

__all__ = [
    "OPERATIONS",
    "CountDeadLetters",
    "DeadLetterGroup",
    "DeadLetterRecord",
    "DeadLetterSummary",
    "FindDeadLetters",
    "FindMessages",
    "GetMessage",
    "HistoryEntry",
    "ListInbox",
    "ListThread",
    "MessageFields",
    "MessageHistory",
    "MessageRecord",
    "MessageSummary",
    "RedriveMatching",
    "RedrivenMatching",
    "SearchMessages",
]

_States = Annotated[str, Meta(max_length=200, description="States, separated by commas.")]
_Words = Annotated[str, Meta(max_length=1000, description="Words of the payload.")]
_Text = Annotated[str, Meta(max_length=200)]


class GetMessage(Request, frozen=True):
    """Look up a message."""

    message_id: Annotated[
        MessageRef, Meta(description="The message_id of the message, or the signal_id of one copy of a broadcast.")
    ]
    fresh: Annotated[bool, Meta(description="Wait until the history contains everything that is durable now.")] = True
    limit: Annotated[Limit, Meta(description="Maximum number of copies, the newest first.")] = 100


class ListInbox(PageRequest, frozen=True, kw_only=True):
    """List the caller's messages without taking them out of the inbox."""

    states: _States = "queued,offered"


class ListThread(PageRequest, frozen=True, kw_only=True):
    """List the messages of a thread, oldest first."""

    correlation_id: Annotated[str, Meta(min_length=1, max_length=256, description="The correlationId of the thread.")]


class SearchMessages(PageRequest, frozen=True, kw_only=True):
    """Search messages by words of their payload, newest first."""

    q: _Words = ""


class FindMessages(SearchMessages, frozen=True, kw_only=True):
    """Find messages by their properties and by words of their payload, newest first."""

    states: _States = ""
    level: Annotated[PriorityName | None, Meta(description="Current priority, including boosts.")] = None
    sender: Annotated[AgentName | None, Meta(description="The sender.")] = None
    recipient: Annotated[AgentName | None, Meta(description="The recipient.")] = None
    type: Annotated[TypeFilter | None, Meta(description="The message type.")] = None
    delivery_class: Annotated[Literal["sync", "async"] | None, Meta(description="The delivery class.")] = None
    correlation_id: Annotated[
        Annotated[str, Meta(max_length=256)] | None, Meta(description="The correlationId of the thread.")
    ] = None
    publish_path: Annotated[
        Literal["pushed_to_ws", "buffered_for_piggyback", "queued_offline", "unknown"] | None,
        Meta(description="How it was handled when sent; `unknown` matches rows without a recorded path."),
    ] = None
    since: Annotated[datetime | None, Meta(description="Accepted at or after this time, ISO 8601.")] = None
    until: Annotated[datetime | None, Meta(description="Accepted before this time, ISO 8601.")] = None


class MessageFields(msgspec.Struct, frozen=True, kw_only=True):
    """Properties of one recipient's copy of a message."""

    signal_id: str
    message_id: str
    sender: str
    recipient: str
    #: Message type.
    type: str
    #: Priority as admitted.
    priority: AnyPriorityName
    #: Current priority, including boosts.
    level: AnyPriorityName
    state: str
    delivery_class: DeliveryClass
    correlation_id: str | None
    #: Null if it was not recorded.
    publish_path: str | None
    recipient_state: str
    #: Retries used.
    attempts: int
    created_at: datetime | None
    expires_at: datetime | None
    #: When its last state was reached, if it has ended.
    ended_at: datetime | None = None


class MessageSummary(MessageFields, frozen=True, kw_only=True):
    """One recipient's copy of a message, with the beginning of its text."""

    #: Beginning of the text, or of the payload as JSON if it has none.
    preview: str


class MessageRecord(MessageFields, frozen=True, kw_only=True):
    """One recipient's copy of a message."""

    offered_at: datetime | None
    delivered_at: datetime | None
    acked_at: datetime | None
    processed_at: datetime | None
    expired_at: datetime | None
    recalled_at: datetime | None
    dead_at: datetime | None
    payload: Any
    metadata: Any


class HistoryEntry(msgspec.Struct, frozen=True):
    """One event in the history of a message."""

    #: Its sequence number in the journal.
    seq: int
    at: datetime | None
    #: Name of the event.
    kind: str
    #: The other fields of the event.
    facts: dict[str, Any]
    #: What happened and why, in a sentence.
    text: str = ""
    #: The rule behind it, what was measured and the limit; null for an event that no rule decides.
    reason: Reason | None = None


class MessageHistory(msgspec.Struct, frozen=True):
    """A message and its events, oldest first."""

    message: MessageRecord
    history: list[HistoryEntry]


class DeadLetterRecord(msgspec.Struct, frozen=True):
    """A message that could not be delivered, and why."""

    message: MessageRecord
    failures: int
    first_failed_at: datetime | None
    last_failed_at: datetime | None
    reason: str | None
    code: str | None
    history: list[HistoryEntry]
    #: Why it died, in words: the recipient's own reason if it rejected the message.
    detail: str = ""


class CountDeadLetters(Request, frozen=True, kw_only=True):
    """Count dead letters by reason and code, largest group first."""

    reason: Annotated[_Text | None, Meta(description="Why they died, such as retries_exhausted.")] = None
    code: Annotated[_Text | None, Meta(description="Code of the last failure.")] = None
    type: Annotated[_Text | None, Meta(description="The message type.")] = None
    recipient: Annotated[_Text | None, Meta(description="The recipient.")] = None


class FindDeadLetters(CountDeadLetters, frozen=True, kw_only=True):
    """Find dead letters by reason, code, type or recipient."""

    after: Annotated[int, Meta(ge=0, le=10**9, description="`next` of the previous page.")] = 0
    limit: Limit = 100


class RedriveMatching(CountDeadLetters, frozen=True, kw_only=True):
    """Queue matching dead letters again, as many as one command may."""


class DeadLetterSummary(msgspec.Struct, frozen=True):
    """A dead letter with the beginning of its text."""

    signal_id: str
    message_id: str
    sender: str
    recipient: str
    #: Message type.
    type: str
    priority: AnyPriorityName
    reason: str
    code: str
    failures: int
    #: Retries used.
    attempts: int
    dead_at: datetime | None
    #: Whether its recipient is still registered; only then it can be redriven.
    redrivable: bool
    #: Why it died, in words: the recipient's own reason if it rejected the message.
    detail: str
    #: Beginning of the text, or of the payload as JSON if it has none.
    preview: str


class DeadLetterGroup(msgspec.Struct, frozen=True):
    """Dead letters with the same reason and code."""

    reason: str
    code: str
    letters: int
    oldest_at: datetime | None
    newest_at: datetime | None
    #: Number of dead letters by message type.
    types: dict[str, int]


class RedrivenMatching(cmd.Redriven, frozen=True):
    """Dead letters that were queued again, those that were refused, and how many are left."""

    left: int = 0


OPERATIONS = (
    Operation(
        name="find_messages",
        request=FindMessages,
        reply=Page[MessageSummary],
        http="GET /v1/messages",
        tag="history",
    ),
    Operation(
        name="get_message",
        summary="Show all copies of a message that the caller may see, newest first.",
        request=GetMessage,
        reply=list[MessageRecord],
        http="GET /v1/messages/{message_id}",
        tag="history",
        tool="Use it to find out whether what you sent was delivered or processed. It takes nothing out of an inbox.",
    ),
    Operation(
        name="trace_message",
        summary="Show the events of a message: every decision about it, in order.",
        request=GetMessage,
        reply=list[MessageHistory],
        http="GET /v1/messages/{message_id}/history",
        tag="history",
        tool="Use it to find out why a message was delayed, lowered, expired or died.",
    ),
    Operation(
        name="list_inbox",
        request=ListInbox,
        reply=Page[MessageRecord],
        http="GET /v1/inbox",
        tag="inbox",
    ),
    Operation(
        name="list_thread",
        request=ListThread,
        reply=Page[MessageRecord],
        http="GET /v1/threads/{correlation_id}",
        tag="history",
        tool="Use it to read a conversation from its beginning.",
    ),
    Operation(
        name="search_messages",
        request=SearchMessages,
        reply=Page[MessageRecord],
        http="GET /v1/search",
        tag="history",
        tool="You find what you sent or received; a director finds all messages.",
    ),
    Operation(
        name="list_dead_letters",
        summary="List dead letters with their reasons, oldest first.",
        request=PageRequest,
        reply=Page[DeadLetterRecord],
        http="GET /v1/dead-letters",
        tag="dead letters",
        tool="You see those that you sent or that were for you. Use it to find out what nobody will answer.",
    ),
    Operation(
        name="redrive_dead_letters",
        request=cmd.Redrive,
        reply=cmd.Redriven,
        http="POST /v1/dead-letters/redrive",
        tag="dead letters",
    ),
    Operation(
        name="count_dead_letters",
        request=CountDeadLetters,
        reply=list[DeadLetterGroup],
        http="GET /v1/dead-letters/groups",
        tag="dead letters",
        access=Access.DIRECTOR,
    ),
    Operation(
        name="find_dead_letters",
        request=FindDeadLetters,
        reply=Page[DeadLetterSummary],
        http="GET /v1/dead-letters/find",
        tag="dead letters",
        access=Access.DIRECTOR,
    ),
    Operation(
        name="redrive_matching",
        request=RedriveMatching,
        reply=RedrivenMatching,
        kind="command",
        http="POST /v1/dead-letters/redrive-matching",
        tag="dead letters",
        access=Access.DIRECTOR,
    ),
)
