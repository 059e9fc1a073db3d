"""The row of one operation, and the request types that several operations share."""

from enum import StrEnum
from typing import Annotated, Any, Generic, Literal, TypeAlias, TypeVar

import msgspec
from msgspec import Meta

from tocsin.core.commands.base import CommandBase

__all__ = [
    "NO_REQUEST",
    "Access",
    "Cursor",
    "Limit",
    "NamedPage",
    "NamedPageRequest",
    "Operation",
    "Page",
    "PageRequest",
    "Request",
    "Where",
]

Item = TypeVar("Item")


class Access(StrEnum):
    """Callers that may use an operation."""

    #: Any agent with a token; rows that are not the agent's own are filtered out.
    AGENT = "agent"
    #: Directors and humans: roles that the policy lets direct.
    DIRECTOR = "director"
    #: Directors, humans and administrators.
    OVERSEER = "overseer"
    #: Holders of an admin token.
    ADMIN = "admin"


class Where(StrEnum):
    """Hosts that serve an operation."""

    #: A hub and an embedded bus.
    ANYWHERE = "anywhere"
    #: A hub only: it needs tokens, metrics or files that an embedded bus does not have.
    HUB = "hub"


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """One operation: what it is called, what it takes, what it returns and who may use it."""

    #: The same on every interface.
    name: str
    #: Struct of all parameters, with types, limits and descriptions. A command is its own request.
    request: type[msgspec.Struct]
    #: Type of the reply.
    reply: Any
    #: HTTP method and path; names in braces are fields of the request.
    http: str
    #: Subject, used to group operations.
    tag: str
    #: One sentence: verb and object; by default the docstring of the request.
    summary: str = ""
    #: A command changes the project, a question does not; by default a request that is a command is one.
    kind: Literal["command", "question", ""] = ""
    access: Access = Access.AGENT
    where: Where = Where.ANYWHERE
    #: What else an MCP client must know to use it; it is a tool only if this is set.
    tool: str = ""
    #: Name of the tool, where coding agents have a tool of their own with the operation's name.
    tool_name: str = ""
    #: Whether the same call again changes nothing more.
    idempotent: bool = False
    #: Whether it can undo or discard something.
    destructive: bool = False
    #: Whether its arguments are words for other agents, which are signed where the policy requires signatures.
    signed: bool = False

    def __post_init__(self) -> None:
        """Fill in summary and kind from the request."""
        if not self.summary:
            msgspec.structs.force_setattr(self, "summary", (self.request.__doc__ or "").split("\n")[0])
        if not self.tool_name:
            msgspec.structs.force_setattr(self, "tool_name", self.name)
        if not self.kind:
            kind = "command" if issubclass(self.request, CommandBase) else "question"
            msgspec.structs.force_setattr(self, "kind", kind)

    @property
    def method(self) -> str:
        """Return the HTTP method."""
        return self.http.split(" ")[0]

    @property
    def path(self) -> str:
        """Return the HTTP path."""
        return self.http.split(" ")[1]

    @property
    def takes_envelope(self) -> bool:
        """Tell whether it sends a message."""
        return "envelope" in self.request.__struct_fields__


class Request(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Base of the requests that are not commands."""


class NoRequest(Request, frozen=True):
    """No parameters."""


NO_REQUEST = NoRequest

#: A place in a list.
Cursor: TypeAlias = Annotated[
    int, Meta(ge=0, le=2**63 - 1, description="`next` of the previous page; leave it out for the first page.")
]
#: Page size.
Limit: TypeAlias = Annotated[int, Meta(ge=1, le=10_000, description="Maximum number of items.")]


class PageRequest(Request, frozen=True, kw_only=True):
    """Parameters of a list that is read from history."""

    after: Cursor = 0
    limit: Limit = 100
    fresh: Annotated[bool, Meta(description="Wait until the history contains everything that is durable now.")] = True


class NamedPageRequest(Request, frozen=True, kw_only=True):
    """Parameters of a list that is read from the live state."""

    after: Annotated[
        str, Meta(max_length=300, description="`next` of the previous page; leave it out for the first page.")
    ] = ""
    limit: Limit = 100


class NamedPage(msgspec.Struct, Generic[Item], frozen=True):
    """A page of a list that is read from the live state."""

    items: list[Item]
    #: Cursor of the next page; null on the last page.
    next: str | None = None


class Page(msgspec.Struct, Generic[Item], frozen=True):
    """A page of a list."""

    items: list[Item]
    #: Cursor of the next page; null on the last page.
    next: int | None = None
