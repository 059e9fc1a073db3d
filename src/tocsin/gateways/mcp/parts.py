"""Messages that are fetched by their id, in parts if they are too large for one answer.

Coding agents cut the result of a tool above a size of their own, and the model does not see the rest. So a message that
is too large is read part by part, and is handed out only with the last part: a message that was not read to its end is
not received.
"""

from typing import Any

import msgspec

from tocsin.core.errors import refusal
from tocsin.gateways.mcp.inbox import Fetched, ShownMessage, fetch
from tocsin.gateways.mcp.tool_call import ToolCall

__all__ = ["MessagePart", "fetch_part"]


#: States in which a message is not handed out any more, although it may never have been received.
_ENDED = frozenset({"expired", "recalled", "dead"})


class MessagePart(msgspec.Struct, frozen=True, rename={"sender": "from"}):
    """A part of a message that is too large for one answer."""

    message_id: str
    sender: str
    #: Message type.
    type: str
    priority: str
    correlation_id: str | None
    part: int
    #: Number of its parts.
    parts: int
    #: This part of the payload, which is JSON.
    text: str
    #: How to get the next part; the message counts as received with the last one.
    next: str


async def fetch_part(tool_call: ToolCall, message_id: str, part: int) -> tuple[Fetched, MessagePart | None]:
    """Return a message for the caller, or a part of it; it is handed out with its last part."""
    record = await _own(tool_call, message_id)
    payload = msgspec.json.encode(record["payload"])
    bytes_max = tool_call.limits.inbox_bytes_max
    # A part is shown as text within JSON, where quotation marks and backslashes take twice their size.
    pieces = [payload] if len(payload) <= bytes_max else _pieces(payload, max(4, bytes_max // 2))
    if part > len(pieces):
        detail = f"{message_id[:192]} has {len(pieces)} part{'s' if pieces[1:] else ''}"
        raise refusal("E_VALIDATION_004", detail, field="$.part", found=str(part), expected=f"1 to {len(pieces)}")
    if part < len(pieces):
        waiting = (await tool_call.ask("peek_inbox", {"limit": 1}))["waiting"]
        following = msgspec.json.encode({"message_id": message_id, "part": part + 1}).decode()
        return Fetched([], waiting), _part(record, pieces, part, f"call fetch_inbox with {following}")
    fetched = await fetch(tool_call, 1, "Info", None, message_id)
    if len(pieces) == 1:
        if all(message.message_id != record["message_id"] for message in fetched.messages):
            fetched = Fetched([*fetched.messages, _shown_again(record)], fetched.waiting, fetched.cursor)
        return fetched, None
    others = [message for message in fetched.messages if message.message_id != record["message_id"]]
    return Fetched(others, fetched.waiting, fetched.cursor), _part(record, pieces, part, "this is the last part")


async def _own(tool_call: ToolCall, message_id: str) -> dict[str, Any]:
    """Return the caller's copy of a message."""
    me = (await tool_call.sender()).agent_id
    for record in await tool_call.ask("get_message", {"message_id": message_id}):
        if record["recipient"] == me and record["state"] != "held":
            found: dict[str, Any] = record
            if found["state"] in _ENDED:
                raise refusal("E_STATE_002", f"{found['message_id']} is {found['state']}: it cannot be fetched")
            return found
    raise refusal("E_STATE_001", f"{message_id[:192]} is not a message to you", found=message_id[:192])


def _pieces(payload: bytes, bytes_max: int) -> list[bytes]:
    """Cut UTF-8 text between characters."""
    pieces = []
    while payload:
        end = min(bytes_max, len(payload))
        while end < len(payload) and payload[end] & 0xC0 == 0x80:
            end -= 1
        pieces.append(payload[:end])
        payload = payload[end:]
    return pieces


def _part(record: dict[str, Any], pieces: list[bytes], part: int, following: str) -> MessagePart:
    return MessagePart(
        message_id=record["message_id"],
        sender=record["sender"],
        type=record["type"],
        priority=record["level"],
        correlation_id=record["correlation_id"],
        part=part,
        parts=len(pieces),
        text=pieces[part - 1].decode(),
        next=following,
    )


def _shown_again(record: dict[str, Any]) -> ShownMessage:
    """Return a message that no longer waits: it is on its way to the caller, or was received."""
    return ShownMessage(
        message_id=record["message_id"],
        sender=record["sender"],
        type=record["type"],
        priority=record["level"],
        sent_at=record["created_at"],
        correlation_id=record["correlation_id"],
        payload=record["payload"],
        metadata={},
        metadata_omitted=len(record["metadata"] or {}),
        repeated=True,
    )
