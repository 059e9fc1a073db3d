"""Messages in answers: those that were fetched, and the urgent ones that every answer carries."""

from collections.abc import Sequence
from typing import Any

import msgspec

from tocsin.core.errors import TocsinError
from tocsin.core.protocol.priority import VOCABULARY
from tocsin.gateways.mcp.text import quoted
from tocsin.gateways.mcp.tool_call import ToolCall

__all__ = [
    "URGENT",
    "Fetched",
    "Inbox",
    "ShownMessage",
    "fetch",
    "inbox_text",
    "shown",
    "urgent_inbox",
    "waiting_inbox",
]

#: Lowest priority that any answer carries.
URGENT = "Blocking"
_NOT_REGISTERED = "E_AUTH_007"


class ShownMessage(msgspec.Struct, frozen=True, omit_defaults=True, rename={"sender": "from"}):
    """A message for the agent."""

    #: To acknowledge, reject or answer it.
    message_id: str
    sender: str
    #: Message type.
    type: str
    priority: str
    sent_at: str
    #: The thread that it belongs to.
    correlation_id: str | None
    payload: dict[str, Any]
    #: Further data that was sent with it, such as a `traceparent`.
    metadata: dict[str, Any]
    #: Number of metadata entries that were too large to show; get_message shows all.
    metadata_omitted: int = 0
    #: Whether it was delivered before without a receipt, so that you may have seen it.
    repeated: bool = False
    #: Effective priority, where it was raised since it was sent.
    level: str = ""


class Inbox(msgspec.Struct, frozen=True, omit_defaults=True):
    """Messages that wait, and the urgent ones; empty if there are none."""

    #: That there are urgent messages: some clients show their model only the fields of a result.
    alert: str = ""
    #: Messages of priority Blocking and above, delivered with this answer.
    urgent: list[ShownMessage] = []
    #: Number of messages that still wait, by priority.
    waiting: dict[str, int] = {}
    #: Why the rest is not known.
    problem: str = ""
    #: How to confirm the messages of this answer.
    confirm: str = ""
    #: Names the messages of this answer; given as `receipt` with the next call of any tool, it confirms them.
    cursor: str = ""


class Fetched(msgspec.Struct, frozen=True):
    """Messages that were fetched, the number that still waits by priority, and the cursor of the messages."""

    messages: list[ShownMessage]
    waiting: dict[str, int]
    cursor: str = ""


async def fetch(
    tool_call: ToolCall, limit: int | None, at_least: str, bytes_max: int | None, message_id: str | None = None
) -> Fetched:
    """Fetch waiting messages, the most urgent first, or only the one of an id."""
    arguments = {"limit": limit, "at_least": at_least, "bytes_max": bytes_max, "message_id": message_id}
    batch = await tool_call.ask("fetch_inbox", arguments)
    most = tool_call.limits.metadata_bytes_max
    messages = [shown(item["envelope"], most, item["level"], repeated=item["repeated"]) for item in batch["deliveries"]]
    return Fetched(messages, batch["waiting"], "" if tool_call.quotes_by_itself else batch["cursor"])


async def urgent_inbox(tool_call: ToolCall) -> Inbox:
    """Fetch the urgent messages that an answer carries; raise a refusal except for an agent without an inbox."""
    limits = tool_call.limits
    try:
        fetched = await fetch(tool_call, limits.urgent_max, URGENT, limits.urgent_bytes_max)
    except TocsinError as error:
        if error.code != _NOT_REGISTERED:
            raise
        fetched = Fetched([], {})
    return waiting_inbox(fetched.waiting, fetched.cursor, fetched.messages)


def waiting_inbox(waiting: dict[str, int], cursor: str = "", urgent: Sequence[ShownMessage] = ()) -> Inbox:
    """Return the inbox of an answer; the cursor is that of the messages in its result, or of the urgent ones."""
    levels = ", ".join(dict.fromkeys(message.level or message.priority for message in urgent))
    return Inbox(
        alert=f"URGENT ({levels}), {len(urgent)} delivered with this answer: read before you continue."
        if urgent
        else "",
        urgent=[*urgent],
        waiting={name: count for name, count in waiting.items() if count},
        confirm=f'Confirm these messages: give receipt "{cursor}" with your next tool call, or they repeat.'
        if cursor
        else "",
        cursor=cursor,
    )


def shown(envelope: dict[str, Any], metadata_bytes_max: int, level: str, *, repeated: bool = False) -> ShownMessage:
    """Return a message as its recipient sees it, with as much of its metadata as fits."""
    known = envelope.get("metadata") or {}
    metadata = _fitting(known, metadata_bytes_max)
    sent_at_level = envelope.get("priority") or ""
    return ShownMessage(
        message_id=envelope["messageId"],
        sender=envelope["sender"]["agentId"],
        type=envelope["messageType"],
        priority=sent_at_level,
        sent_at=envelope["timestamp"],
        correlation_id=envelope.get("correlationId"),
        payload=envelope["payload"],
        metadata=metadata,
        metadata_omitted=len(known) - len(metadata),
        repeated=repeated,
        level=level if VOCABULARY.get(level) != VOCABULARY.get(sent_at_level) else "",
    )


def _fitting(metadata: dict[str, Any], bytes_max: int) -> dict[str, Any]:
    """Return the entries that fit, small ones first: those that the bus adds are among them."""
    sizes = {name: len(msgspec.json.encode({name: value})) for name, value in metadata.items()}
    for name in sorted(sizes, key=sizes.__getitem__):
        bytes_max -= sizes[name]
        if bytes_max < 0:
            del sizes[name]
    return {name: metadata[name] for name in sizes}


def inbox_text(inbox: Inbox) -> str:
    """Describe an inbox in lines, with its urgent messages; nothing if it is empty."""
    waiting = ", ".join(f"{count} {name}" for name, count in reversed(inbox.waiting.items()))
    lines = [
        f"Waiting for you: {waiting}; fetch_inbox returns them." if waiting else "",
        f"{inbox.alert} {quoted(inbox.urgent)}" if inbox.urgent else "",
        inbox.problem,
        inbox.confirm,
    ]
    return "\n".join(filter(None, lines))
