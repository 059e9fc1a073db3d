"""What a client asks: each struct is one operation of the socket protocol, exactly as it travels.

Transports carry them; the one inside a process turns them into commands, the one over a socket into JSON.
"""

from typing import Any, TypeAlias

import msgspec

__all__ = [
    "Ack",
    "Bye",
    "Call",
    "Confirm",
    "Credit",
    "Hello",
    "Nack",
    "Operation",
    "Ping",
    "Processed",
    "Recall",
    "Send",
]


class _Operation(msgspec.Struct, tag_field="op", omit_defaults=True, kw_only=True):
    """Base of all operations."""

    #: Names the answer; without one there is none.
    id: int | None = None


class Hello(_Operation, tag="hello"):
    """Attach; the first operation on a link."""

    #: Offers to take before a receipt.
    window: int
    #: The session to resume.
    session: str | None = None
    #: Registers the agent as this type; null leaves it as it is registered.
    agent_type: str | None = None
    supported: tuple[str, ...] | None = None
    capabilities: tuple[str, ...] | None = None


class Send(_Operation, tag="send"):
    """Send an envelope."""

    #: As it was written, signed and will be written again.
    envelope: msgspec.Raw
    signature: str | None = None


class Confirm(_Operation, tag="confirm"):
    """Confirm receipt."""

    message_ids: list[str]


class Ack(_Operation, tag="ack"):
    """Acknowledge a message."""

    message_id: str
    status: str
    notes: str


class Nack(_Operation, tag="nack"):
    """Reject a message."""

    message_id: str
    reason: str
    code: str
    can_retry: bool
    suggested_fix: str


class Processed(_Operation, tag="processed"):
    """Say that a message has been dealt with."""

    message_id: str


class Recall(_Operation, tag="recall"):
    """Take a message back."""

    message_id: str


class Credit(_Operation, tag="credit"):
    """Say how many offers to take before a receipt; none pauses pushing."""

    window: int


class Ping(_Operation, tag="ping"):
    """Show life, and ask what waits."""


class Call(_Operation, tag="call"):
    """Ask for anything else that the hub's table of operations has."""

    operation: str
    path: dict[str, str] = {}
    query: dict[str, Any] = {}
    body: dict[str, Any] = {}
    #: In place of a body, where the operation takes one: as it was written and signed.
    envelope: msgspec.Raw = msgspec.Raw(b"")
    signature: str | None = None


class Bye(_Operation, tag="bye"):
    """Leave: what was not confirmed goes back to the queue."""


Operation: TypeAlias = Hello | Send | Confirm | Ack | Nack | Processed | Recall | Credit | Ping | Call | Bye
