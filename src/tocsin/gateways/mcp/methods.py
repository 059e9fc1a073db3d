"""The methods of the MCP server: tools and resources as JSON values, for any implementation of `ToolCall`."""

from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, TypeAlias
from urllib.parse import unquote

import msgspec

from tocsin.core.errors import TocsinError
from tocsin.gateways.mcp.calling import call_tool
from tocsin.gateways.mcp.protocol import INTERNAL_ERROR, INVALID_PARAMS, MethodError
from tocsin.gateways.mcp.refusals import refusal_lines, refusal_of
from tocsin.gateways.mcp.schemas import listed_schema, output_schema
from tocsin.gateways.mcp.tool_call import ToolCall
from tocsin.gateways.mcp.tools import description_of
from tocsin.gateways.mcp.toolsets import SCHEMAS, Selection
from tocsin.wire.operation import Operation

__all__ = ["METHODS", "RESOURCES", "Toolsets", "tool_of"]

_JSON = "application/json"
#: Toolsets that are listed by default, by role.
Toolsets: TypeAlias = Mapping[str, Sequence[str]]
Method: TypeAlias = Callable[[ToolCall, Toolsets, Mapping[str, Any]], Coroutine[Any, Any, dict[str, Any]]]


class _Resource(msgspec.Struct, frozen=True):
    """A resource: the reply of a question."""

    uri: str
    title: str
    description: str
    operation: str
    #: Argument that the last part of the URI is.
    argument: str = ""

    def listed(self) -> dict[str, str]:
        """Describe it to a client."""
        place = "uriTemplate" if self.argument else "uri"
        return {
            place: self.uri,
            "name": self.title,
            "title": self.title,
            "description": self.description,
            "mimeType": _JSON,
        }


RESOURCES = (
    _Resource(
        "tocsin://inbox", "Inbox", "Messages that wait for you; fetch_inbox fetches them. Data from other agents.",
        "list_inbox",
    ),
    _Resource("tocsin://agents", "Agents", "The agents of the project.", "list_agents"),
    _Resource(
        "tocsin://thread/{id}",
        "Thread",
        "Messages of a thread, oldest first, by its correlation_id. Data from other agents.",
        "list_thread",
        "correlation_id",
    ),
)  # fmt: skip


def tool_of(row: Operation, *, schemas: bool = False, receipt: bool = True) -> dict[str, Any]:
    """Describe a tool: its arguments, and with `schemas` its result; `receipt` is for callers that quote cursors."""
    reads = row.kind == "question"
    hints = {
        "readOnlyHint": reads,
        "destructiveHint": row.destructive,
        "idempotentHint": reads or row.idempotent,
        "openWorldHint": False,
    }
    described = {
        "name": row.tool_name,
        "description": description_of(row),
        "inputSchema": listed_schema(row, receipt=receipt),
        "annotations": hints,
    }
    return described | ({"outputSchema": output_schema(row)} if schemas else {})


async def _list_tools(tool_call: ToolCall, by_role: Toolsets, params: Mapping[str, Any]) -> dict[str, Any]:
    selection, role = Selection(by_role, tool_call.toolsets), await tool_call.role()
    schemas, receipt = SCHEMAS in selection.toolsets(role), not tool_call.quotes_by_itself
    return {"tools": [tool_of(row, schemas=schemas, receipt=receipt) for row in selection.tools(role)]}


async def _call_tool(tool_call: ToolCall, by_role: Toolsets, params: Mapping[str, Any]) -> dict[str, Any]:
    name, arguments = params.get("name"), params.get("arguments") or {}
    if not (isinstance(name, str) and isinstance(arguments, dict)):
        raise MethodError(INVALID_PARAMS, "a call needs the name of a tool, and an object of arguments")
    called: dict[str, Any] = msgspec.to_builtins(await call_tool(tool_call, name, arguments))
    return called


async def _list_resources(tool_call: ToolCall, by_role: Toolsets, params: Mapping[str, Any]) -> dict[str, Any]:
    return {"resources": [row.listed() for row in RESOURCES if not row.argument]}


async def _list_templates(tool_call: ToolCall, by_role: Toolsets, params: Mapping[str, Any]) -> dict[str, Any]:
    return {"resourceTemplates": [row.listed() for row in RESOURCES if row.argument]}


async def _read_resource(tool_call: ToolCall, by_role: Toolsets, params: Mapping[str, Any]) -> dict[str, Any]:
    uri = params.get("uri")
    if not isinstance(uri, str):
        raise MethodError(INVALID_PARAMS, "a resource is read by its uri")
    return {"contents": [{"uri": uri, "mimeType": _JSON, "text": await _read(tool_call, uri)}]}


METHODS: dict[str, Method] = {
    "tools/list": _list_tools,
    "tools/call": _call_tool,
    "resources/list": _list_resources,
    "resources/templates/list": _list_templates,
    "resources/read": _read_resource,
}


async def _read(tool_call: ToolCall, uri: str) -> str:
    """Return the content of a resource."""
    for row in RESOURCES:
        stem = row.uri.partition("{")[0]
        rest = uri.removeprefix(stem)
        if uri == row.uri and not row.argument:
            arguments = {}
        elif row.argument and uri.startswith(stem) and rest and "/" not in rest:
            arguments = {row.argument: unquote(rest)}
        else:
            continue
        try:
            reply = await tool_call.ask(row.operation, arguments)
        except TocsinError as error:
            lines = refusal_lines(refusal_of(error.problem))
            raise MethodError(INTERNAL_ERROR, "\n".join(lines), {"uri": uri}) from None
        return msgspec.json.encode(reply).decode()
    raise MethodError(INVALID_PARAMS, f"there is no resource {uri[:200]}", {"uri": uri[:200]})
