"""Description of the HTTP endpoints that are not operations: documents, health, MCP and the dashboard."""

from typing import Any

import msgspec

__all__ = ["Endpoint"]


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """One HTTP endpoint beside the operations, as OpenAPI describes it."""

    #: HTTP method and path.
    http: str
    name: str
    summary: str
    tag: str
    #: Media types by status; empty without a body.
    answers: dict[int, tuple[str, ...]]
    #: Whether it needs no token.
    public: bool = False
    #: Type of the request body; null without one.
    body: Any = None
    #: Type of a JSON reply; null for any object.
    reply: Any = None
    #: Required headers and their descriptions.
    headers: dict[str, str] = {}
    #: The protocol that is used over it, if it has its own.
    protocol: str | None = None
