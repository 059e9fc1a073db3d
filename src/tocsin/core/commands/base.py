"""The caller of a command, the base of all commands, and the field types that they share."""

from typing import Annotated, Any, TypeAlias

import msgspec
from msgspec import Meta

from tocsin.core.protocol.priority import PriorityName

__all__ = [
    "SYSTEM",
    "AgentName",
    "Caller",
    "CommandBase",
    "Duration",
    "Json",
    "MessageRef",
    "Name",
    "PriorityName",
    "TypeFilter",
]


class Caller(msgspec.Struct, frozen=True):
    """Identity and role of whoever issues a command, as its token grants them."""

    agent: str
    #: `director`, `primary`, `clone`, `human`, or `system` for the bus itself.
    role: str
    #: Agent types that it may register as, the default first; null for any.
    types: tuple[str, ...] | None = None


#: The bus itself: its timers, its first policy, its notices.
SYSTEM = Caller("tocsin", "system")


class CommandBase(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Base of all commands; a command is also the request of its operation."""


#: A duration in seconds, up to a century.
Duration: TypeAlias = Annotated[float, Meta(ge=0, le=3.2e9)]
#: An id or a name of something that exists.
Name: TypeAlias = Annotated[str, Meta(min_length=1, max_length=256)]
#: The name of an agent.
AgentName: TypeAlias = Annotated[str, Meta(min_length=1, max_length=64)]
#: The type of an agent or a message.
TypeFilter: TypeAlias = Annotated[str, Meta(min_length=1, max_length=128)]
#: A message, by its messageId or by the signal id of one copy.
MessageRef: TypeAlias = Annotated[str, Meta(min_length=1, max_length=256)]
#: A JSON object.
Json: TypeAlias = dict[str, Any]
