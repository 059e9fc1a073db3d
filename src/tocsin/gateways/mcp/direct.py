"""Tool calls that are answered without the MCP library's dispatch.

The library builds a session, two task groups and several validated models for each request, which costs more than the
call itself. A `tools/call` of the usual shape, in a protocol version with structured results, is therefore read and
answered here, with the result that the library would send. The library's own functions check the version, the headers
and `_meta`. Every other request, and each one that fails a check, is left to the library, which answers it or says what
is wrong with it.
"""

from functools import lru_cache
from itertools import compress
from operator import itemgetter
from typing import Any, Literal, TypeAlias

import msgspec
from mcp.server.lowlevel import Server
from mcp.server.streamable_http import check_accept_headers
from mcp.shared.inbound import (
    MCP_METHOD_HEADER,
    MCP_NAME_HEADER,
    MCP_PROTOCOL_VERSION_HEADER,
    InboundModernRoute,
    classify_inbound_request,
    find_duplicated_routing_header,
)
from mcp_types import SERVER_INFO_META_KEY
from mcp_types.methods import validate_client_request
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError
from starlette.requests import Request

from tocsin.gateways.mcp.calling import ToolResult

__all__ = ["DirectCall", "DirectCalls"]

_METHOD: Literal["tools/call"] = "tools/call"
#: Maximum size of what is checked here: `_meta`, headers and the tool's name. What was checked is kept.
_CHECKED_BYTES_MAX = 2048
#: Headers that the library checks.
_CHECKED_HEADERS = frozenset(
    name.encode() for name in ("accept", MCP_PROTOCOL_VERSION_HEADER, MCP_METHOD_HEADER, MCP_NAME_HEADER)
)
#: Parts of a header.
_NAME, _VALUE = itemgetter(0), itemgetter(1)
RawHeaders: TypeAlias = tuple[tuple[bytes, bytes], ...]
#: First version whose results have structured content.
_FIRST_STRUCTURED = "2025-06-18"
_STRUCTURED = frozenset(version for version in HANDSHAKE_PROTOCOL_VERSIONS if version >= _FIRST_STRUCTURED)
_MODERN = frozenset(MODERN_PROTOCOL_VERSIONS)


class _Parameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Parameters of a tool call."""

    name: str
    arguments: dict[str, Any] = {}
    meta: msgspec.Raw = msgspec.field(name="_meta", default=msgspec.Raw(b""))


class _Request(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A JSON-RPC request that calls a tool."""

    jsonrpc: Literal["2.0"]
    id: int | str
    method: Literal["tools/call"]
    params: _Parameters


class _ModernResult(ToolResult, frozen=True, rename="camel"):
    """A result since 2026-07-28, which has a type and names the server."""

    result_type: str = "complete"
    meta: dict[str, Any] = msgspec.field(name="_meta", default={})


class _Response(msgspec.Struct, frozen=True):
    """A JSON-RPC response."""

    jsonrpc: str
    id: int | str
    result: ToolResult


_DECODER = msgspec.json.Decoder(_Request)
_META_DECODER = msgspec.json.Decoder(dict[str, Any])


class DirectCall(msgspec.Struct, frozen=True):
    """A tool call to answer here."""

    id: int | str
    name: str
    arguments: dict[str, Any]
    #: Data about the request, such as the trace that it belongs to.
    meta: dict[str, Any]
    #: Whether its version is one without a handshake.
    modern: bool


class DirectCalls:
    """Reads and answers the tool calls of a server."""

    def __init__(self, server: Server[Any]) -> None:
        self._server_meta = {SERVER_INFO_META_KEY: server.server_info_stamp}

    def read(self, request: Request, body: bytes) -> DirectCall | None:
        """Return a tool call that can be answered here; None leaves the request to the library."""
        version = request.headers.get(MCP_PROTOCOL_VERSION_HEADER, "")
        modern = version in _MODERN
        if not (modern or version in _STRUCTURED):
            return None
        try:
            asked = _DECODER.decode(body)
            parameters, raw_meta = asked.params, bytes(asked.params.meta)
            name = parameters.name if modern else ""
            headers = _checked_headers(request.scope["headers"])
            if len(name) + len(raw_meta) + sum(map(len, map(_VALUE, headers))) > _CHECKED_BYTES_MAX:
                return None
            meta = _checked_meta(version, headers, name, raw_meta)
        except (msgspec.DecodeError, ValidationError, RecursionError, UnicodeDecodeError):
            return None
        return None if meta is None else DirectCall(asked.id, parameters.name, parameters.arguments, meta, modern)

    def answer(self, call: DirectCall, result: ToolResult) -> bytes:
        """Return the response to a call."""
        if call.modern:
            result = _ModernResult(result.content, result.structured_content, result.is_error, meta=self._server_meta)
        return msgspec.json.encode(_Response("2.0", call.id, result))


def _checked_headers(headers: list[tuple[bytes, bytes]]) -> RawHeaders:
    """Return the headers that the library checks; without a loop, because every call of a tool has a dozen headers."""
    return tuple(compress(headers, map(_CHECKED_HEADERS.__contains__, map(_NAME, headers))))


@lru_cache(maxsize=64)
def _checked_meta(version: str, headers: RawHeaders, name: str, raw: bytes) -> dict[str, Any] | None:
    """Let the library check `_meta` and the headers, and return `_meta`; None if the headers are not accepted.

    Clients send the same with each call of a tool. The name of the tool counts since 2026-07-28.
    """
    request = Request({"type": "http", "headers": [*headers]})
    if not check_accept_headers(request)[0]:
        return None
    meta = _META_DECODER.decode(raw) if raw else {}
    validate_client_request(_METHOD, version, {"name": "tool", "arguments": {}} | ({"_meta": meta} if raw else {}))
    return meta if version not in _MODERN or _is_consistent(request, name, meta) else None


def _is_consistent(request: Request, name: str, meta: dict[str, Any]) -> bool:
    """Tell whether the headers of a request agree with its body, as the library requires since 2026-07-28."""
    if find_duplicated_routing_header(request.headers.items()) is not None:
        return False
    asked = {"method": _METHOD, "params": {"name": name, "_meta": meta}}
    return isinstance(classify_inbound_request(asked, headers=request.headers), InboundModernRoute)
