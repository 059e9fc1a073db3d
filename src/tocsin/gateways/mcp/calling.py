"""The call of a tool by name: its result, or a refusal, with the agent's inbox."""

import logging
from collections.abc import Awaitable, Callable, Container
from functools import partial
from typing import Any, TypeAlias

import msgspec

from tocsin.core.errors import Problem, TocsinError, refusal
from tocsin.core.protocol.validation import nearest
from tocsin.gateways.mcp.drafts import ENVELOPE_ARGUMENTS
from tocsin.gateways.mcp.inbox import Inbox, inbox_text, urgent_inbox, waiting_inbox
from tocsin.gateways.mcp.refusals import INTERNAL_ERROR, refusal_lines, refusal_of
from tocsin.gateways.mcp.schemas import RECEIPT_ARGUMENT
from tocsin.gateways.mcp.text import NOTE
from tocsin.gateways.mcp.tool_call import ToolCall
from tocsin.gateways.mcp.tools import TOOLS, run_tool, tool_named
from tocsin.wire.operation import Operation

__all__ = ["TextContent", "ToolResult", "call_tool"]

_log = logging.getLogger("tocsin.mcp")
#: Returns the inbox of an answer.
InboxOf: TypeAlias = Callable[[], Awaitable[Inbox]]


class TextContent(msgspec.Struct, frozen=True):
    """A text for the model."""

    text: str
    type: str = "text"


class ToolResult(msgspec.Struct, frozen=True, rename="camel"):
    """The result of a tool call; encodes to the `CallToolResult` of MCP."""

    content: tuple[TextContent, ...]
    structured_content: dict[str, Any]
    is_error: bool


async def call_tool(
    tool_call: ToolCall, name: str, arguments: dict[str, Any], inbox_of: InboxOf | None = None
) -> ToolResult:
    """Run a tool; results carry the inbox, unless it is empty, and every call can quote cursors as `receipt`."""
    row = tool_named(name)
    inbox_of = inbox_of or partial(urgent_inbox, tool_call)
    try:
        if row is None:
            raise _unknown_tool(name)
        arguments = await _receipt_confirmed(tool_call, arguments)
        outcome = await run_tool(tool_call, row, arguments)
    except TocsinError as error:
        return await _refused(inbox_of, error.problem, row, arguments)
    except Exception:
        _log.exception("%s failed", name)
        problem = Problem(INTERNAL_ERROR, "the server failed to answer; its log has the reason")
        return await _refused(inbox_of, problem, row)
    reply = outcome.reply if isinstance(outcome.reply, dict) else {"items": outcome.reply}
    inbox = await _inbox(inbox_of) if outcome.waiting is None else waiting_inbox(outcome.waiting, outcome.cursor)
    return _result(outcome.text, reply, inbox)


async def _receipt_confirmed(tool_call: ToolCall, arguments: dict[str, Any]) -> dict[str, Any]:
    """Confirm the cursors that a call quotes, and return its other arguments."""
    receipt = arguments.get(RECEIPT_ARGUMENT)
    if receipt is None:
        return arguments
    if not isinstance(receipt, str):
        raise refusal(
            "E_VALIDATION_002", "$.receipt must be text", field="$.receipt", expected="the cursor of an answer"
        )
    await tool_call.confirm(receipt)
    return {name: value for name, value in arguments.items() if name != RECEIPT_ARGUMENT}


def _unknown_tool(name: str) -> TocsinError:
    near = nearest(name, TOOLS)
    expected = f"did you mean {near!r}?" if near else "one of " + ", ".join(TOOLS)
    return refusal("E_VALIDATION_003", f"{name[:64]!r} is not a tool; {expected}", found=name[:64], expected=expected)


async def _refused(
    inbox_of: InboxOf, problem: Problem, row: Operation | None, given: Container[str] = ()
) -> ToolResult:
    arguments = () if row is None else row.request.__struct_fields__
    names = ENVELOPE_ARGUMENTS | ({"$.messageId": "reply_id"} if "reply_id" in arguments else {})
    if "to_type" not in given:
        # The recipient is of the wrong type for the message: the type of the message was given, or its default.
        names["$.receiver.type"] = "type"
    refused = refusal_of(problem, arguments, names)
    reply = {"problem": msgspec.to_builtins(refused)}
    return _result("\n".join(refusal_lines(refused)), reply, await _inbox(inbox_of), is_error=True)


async def _inbox(inbox_of: InboxOf) -> Inbox:
    """Fetch the urgent messages; a result is not lost because that fails."""
    try:
        return await inbox_of()
    except TocsinError as error:
        _log.info("the inbox could not be read: %s", error)
        return Inbox(problem="The number of waiting messages is not known.")


def _result(text: str, reply: dict[str, Any], inbox: Inbox, *, is_error: bool = False) -> ToolResult:
    whole = "\n".join(filter(None, (text, inbox_text(inbox))))
    waiting = msgspec.to_builtins(inbox)
    first = ({"inbox": waiting} if waiting else {}) | ({"note": NOTE} if NOTE in whole else {})
    return ToolResult((TextContent(whole),), first | reply, is_error)
