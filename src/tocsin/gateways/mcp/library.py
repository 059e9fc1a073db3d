"""The server of the MCP library, for one hub.

To import the library takes longer than everything else that a hub imports, so `mount` imports this module only when the
first request needs it.
"""

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple, TypeAlias

from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel

from tocsin import __version__
from tocsin.gateways.mcp.direct import DirectCalls
from tocsin.gateways.mcp.methods import METHODS, Toolsets
from tocsin.gateways.mcp.protocol import DESCRIPTION, INSTRUCTIONS, NAME, TITLE, MethodError, stamped
from tocsin.gateways.mcp.tool_call import ToolCall
from tocsin.hub.config import ServerConfig

__all__ = ["Context", "Library", "open_library"]

Context: TypeAlias = ServerRequestContext[Any, Any]
ToolCallOf: TypeAlias = Callable[[Context], ToolCall]


class Library(NamedTuple):
    """What answers requests: calls of the usual shape here, all others in the library."""

    manager: StreamableHTTPSessionManager
    direct: DirectCalls


@asynccontextmanager
async def open_library(tool_call_of: ToolCallOf, config: ServerConfig) -> AsyncIterator[Library]:
    """Serve for as long as the context lasts."""
    logging.getLogger("mcp").setLevel(logging.WARNING)
    server = _server(tool_call_of, config.mcp_toolsets)
    manager = StreamableHTTPSessionManager(
        server,
        json_response=True,
        stateless=True,
        max_request_body_size=config.mcp_bytes_max,
    )
    async with manager.run():
        yield Library(manager, DirectCalls(server))


def _server(tool_call_of: ToolCallOf, toolsets: Toolsets) -> Server[Any]:
    """Make the server; `tool_call_of` begins the tool call of a request."""

    def handled(method: str) -> Any:
        async def handle(context: Context, params: Any) -> dict[str, Any]:
            given = params.model_dump(by_alias=True, mode="json") if isinstance(params, BaseModel) else {}
            try:
                result = await METHODS[method](tool_call_of(context), toolsets, given)
            except MethodError as error:
                raise MCPError(error.code, error.message, error.data) from None
            return stamped(method, result) if context.protocol_version in MODERN_PROTOCOL_VERSIONS else result

        return handle

    return Server(
        NAME,
        version=__version__,
        title=TITLE,
        description=DESCRIPTION,
        instructions=INSTRUCTIONS,
        # No argument is also a header, so the library has no schema to check headers against.
        get_tool_input_schema=lambda name: None,
        on_list_tools=handled("tools/list"),
        on_call_tool=handled("tools/call"),
        on_list_resources=handled("resources/list"),
        on_list_resource_templates=handled("resources/templates/list"),
        on_read_resource=handled("resources/read"),
    )
