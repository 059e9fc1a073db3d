"""The tools: the rows of the table of operations that have a text for models, and the composites."""

from typing import Any

import msgspec

from tocsin.gateways.mcp.composites import COMPOSITES, HANDLERS, Outcome, send_draft
from tocsin.gateways.mcp.drafts import arguments_with_draft
from tocsin.gateways.mcp.text import reply_text
from tocsin.gateways.mcp.tool_call import ToolCall
from tocsin.wire.arguments import read_arguments
from tocsin.wire.operation import Operation
from tocsin.wire.table import OPERATIONS

__all__ = ["TOOLS", "description_of", "run_tool", "tool_row"]


def tool_row(operation: Operation) -> Operation:
    """Return the row of an operation's tool; an operation that sends a message takes a draft."""
    row = COMPOSITES.get(operation.name, operation)
    if row.takes_envelope:
        row = msgspec.structs.replace(row, request=arguments_with_draft(row))
    return row


#: Rows of the tools by name; the request is the tool's arguments.
TOOLS: dict[str, Operation] = {
    operation.name: tool_row(operation)
    for operation in (*OPERATIONS.values(), COMPOSITES["reply_message"])
    if operation.tool
}


def description_of(row: Operation) -> str:
    """Return the description of a tool."""
    return f"{row.summary} {row.tool}"


async def run_tool(tool_call: ToolCall, row: Operation, arguments: dict[str, Any]) -> Outcome:
    """Check a tool's arguments and run it; a refusal is raised."""
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
