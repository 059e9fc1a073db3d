"""The server of the MCP library, for one hub.

To import the library takes longer than everything else that a hub imports, so `mount` imports this module only when the
first request needs it.
"""

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import NamedTuple

from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from tocsin.gateways.mcp.direct import DirectCalls
from tocsin.gateways.mcp.server import Context, build_server
from tocsin.gateways.mcp.tool_call import ToolCall
from tocsin.hub.config import ServerConfig

__all__ = ["Library", "open_library"]


class Library(NamedTuple):
    """What answers requests: calls of the usual shape here, all others in the library."""

    manager: StreamableHTTPSessionManager
    direct: DirectCalls


@asynccontextmanager
async def open_library(tool_call_of: Callable[[Context], ToolCall], config: ServerConfig) -> AsyncIterator[Library]:
    """Serve for as long as the context lasts."""
    logging.getLogger("mcp").setLevel(logging.WARNING)
    server = build_server(tool_call_of, config.mcp_toolsets)
    manager = StreamableHTTPSessionManager(
        server,
        json_response=True,
        stateless=True,
        max_request_body_size=config.mcp_bytes_max,
    )
    async with manager.run():
        yield Library(manager, DirectCalls(server))
