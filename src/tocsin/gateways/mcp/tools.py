"""The tools: the rows of the table of operations that have a text for models, and the composites."""

from typing import Any

import msgspec

from tocsin.gateways.mcp.composites import COMPOSITES, HANDLERS, Outcome, send_draft
from tocsin.gateways.mcp.drafts import arguments_with_draft
from tocsin.gateways.mcp.text import reply_text
from tocsin.gateways.mcp.tool_call import ToolCall
from tocsin.wire.arguments import argument_names, read_arguments
from tocsin.wire.operation import Operation
from tocsin.wire.table import OPERATIONS

__all__ = ["TOOLS", "description_of", "run_tool", "tool_named", "tool_row"]


def tool_row(operation: Operation) -> Operation:
    """Return the row of an operation's tool; an operation that sends a message takes a draft."""
    row = COMPOSITES.get(operation.name, operation)
    if row.takes_envelope:
        row = msgspec.structs.replace(row, request=arguments_with_draft(row))
    return row


#: Names that models guess, and the arguments that they may mean, the likeliest first.
_ALIASES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("message", "content", "body", "msg", "question"), ("text",)),
    **dict.fromkeys(("recipient", "receiver", "target", "to_agent", "agent_id", "agent"), ("to",)),
    **dict.fromkeys(("resources", "resource", "paths", "path", "files", "file"), ("exclusive",)),
    **dict.fromkeys(("thread", "thread_id", "conversation_id"), ("correlation_id",)),
    **dict.fromkeys(("id", "reply_to", "in_reply_to", "signal_id"), ("message_id",)),
    **dict.fromkeys(("urgency", "level"), ("priority",)),
    **dict.fromkeys(("lease_id",), ("lease",)),
    "ttl": ("ttl_s",),
    "timeout": ("wait_s", "timeout_s"),
}
#: Arguments that are lists of names.
_LISTS = frozenset({"exclusive", "shared", "resources", "capabilities", "participants", "options"})
#: Rows of the tools by name; the request is the tool's arguments.
TOOLS: dict[str, Operation] = {
    operation.tool_name: tool_row(operation)
    for operation in (*OPERATIONS.values(), COMPOSITES["reply_message"])
    if operation.tool
}
#: Names of each tool's arguments.
_ARGUMENTS = {row.name: frozenset(argument_names(row.request)) for row in TOOLS.values()}
#: Tools by earlier names, which can be called until the next version.
_EARLIER = {row.name: row for name, row in TOOLS.items() if row.name != name}


def tool_named(name: str) -> Operation | None:
    """Return the row of a tool by its name, or by an earlier one; null if there is none."""
    return TOOLS.get(name) or _EARLIER.get(name)


def description_of(row: Operation) -> str:
    """Return the description of a tool."""
    return f"{row.summary} {row.tool}"


def _renamed(row: Operation, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments by their right names, for names that models guess; a single name stands for a list."""
    if arguments.keys() <= _ARGUMENTS[row.name] and _LISTS.isdisjoint(arguments):
        return arguments
    known = argument_names(row.request)
    found: dict[str, Any] = {}
    for name, value in arguments.items():
        right = name
        if name not in known:
            meant = [meant for meant in _ALIASES.get(name, ()) if meant in known and meant not in arguments]
            right = meant[0] if meant else name
        found[right] = [value] if right in _LISTS and isinstance(value, str) else value
    return found


async def run_tool(tool_call: ToolCall, row: Operation, arguments: dict[str, Any]) -> Outcome:
    """Check a tool's arguments and run it; a refusal is raised."""
    arguments = _renamed(row, arguments)
    given = read_arguments(row, arguments)
    handler = HANDLERS.get(row.name)
    if handler is not None:
        return await handler(tool_call, given)
    operation = OPERATIONS[row.name]
    if operation.takes_envelope:
        _, _, reply = await send_draft(tool_call, operation, given)
    else:
        reply = await tool_call.ask(row.name, arguments)
    return Outcome(reply, reply_text(row.reply, reply))
