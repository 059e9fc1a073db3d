"""One message found in a source of an import, and what is wrong with one that cannot be taken."""

import re
from hashlib import blake2b

import msgspec

from tocsin.core.protocol.priority import Priority

__all__ = ["UNKNOWN", "Found", "Rejected", "agent_name", "correlation_of", "message_id_of", "type_name"]

#: Value of what a source does not say.
UNKNOWN = "unknown"

_AGENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.\-]{0,63}\Z")
_TYPE = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,55}\Z")
_ID = re.compile(r"msg_[0-9A-Za-z]+(?:[_\-][0-9A-Za-z]+)+\Z")
_CORRELATION = re.compile(r"[0-9A-Za-z_.\-]{1,128}\Z")
_ID_MAX = 128


class Rejected(Exception):
    """A record that cannot be imported; the text says what is wrong with it."""


class Found(msgspec.Struct):
    """One message of a source, for one recipient."""

    #: Where it was found: a row, or a file and its line.
    where: str
    message_id: str
    sender: str
    recipient: str
    type: str
    #: Null where the source does not say: the contract's priority is taken.
    priority: Priority | None
    payload: bytes
    metadata: bytes
    correlation_id: str | None
    #: Microseconds since the epoch.
    created_at: int
    #: Null if it never expires.
    expires_at: int | None
    delivery_class: str = "async"
    #: Null where it is not recorded.
    publish_path: str | None = None
    sender_type: str | None = None
    recipient_type: str | None = None
    version: str = "1.0.0"
    delivered_at: int | None = None
    acked_at: int | None = None
    processed_at: int | None = None
    expired_at: int | None = None
    recalled_at: int | None = None
    dead_at: int | None = None
    #: Why it is a dead letter.
    reason: str = ""
    #: The copies of a message to several recipients, this one included; empty for a message to one.
    copies: list["Found"] = []


def agent_name(value: object, what: str) -> str:
    """Return an agent's name; refuse one that no agent can have."""
    if not isinstance(value, str) or not _AGENT.match(value):
        raise Rejected(f"{what} is {_quoted(value)}: expected letters, digits, _, . or -, at most 64")
    return value


def type_name(value: object, known: frozenset[str]) -> str:
    """Return a message type of the project; one that it does not know becomes a custom type."""
    name = UNKNOWN if value is None else str(value)
    if name in known or name.startswith("CUSTOM_"):
        return name
    if not _TYPE.match(name):
        raise Rejected(f"the type is {_quoted(value)}: expected letters, digits or _, at most 56")
    return f"CUSTOM_{name}"


def message_id_of(value: object, source: str) -> str:
    """Return the messageId of a record: its own, or one made of the source's name and the record's id."""
    text = str(value)
    if _ID.match(text) and len(text) <= _ID_MAX:
        return text
    made = f"msg_{source}_{text}"
    if _ID.match(made) and len(made) <= _ID_MAX:
        return made
    return f"msg_{source}_{blake2b(text.encode(), digest_size=16).hexdigest()}"


def correlation_of(value: object) -> str | None:
    """Return a correlationId, or null where there is none."""
    if value is None or value == "":
        return None
    if not isinstance(value, str) or not _CORRELATION.match(value):
        raise Rejected(f"the correlation id is {_quoted(value)}: expected letters, digits, _, . or -, at most 128")
    return value


def _quoted(value: object) -> str:
    return repr(value)[:80]
