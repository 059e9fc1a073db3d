"""Parsing and checking the bytes of a message, and reading its parts.

This module checks what an envelope alone shows: size, encoding, JSON, fields, and the vocabularies of its version. The
exchange checks what needs the project's state, such as permissions. The payload is kept as received.

Requirement: APM §1.
"""

import re
from datetime import UTC
from itertools import accumulate
from typing import Any, Final

import msgspec
from msgspec import Raw

from tocsin.core.errors import Problem, error_for, refusal
from tocsin.core.protocol import validation
from tocsin.core.protocol.envelope import (
    ANYONE,
    MESSAGE_ID,
    MESSAGE_ID_MAX,
    NESTING_MAX,
    NO_METADATA,
    TRACEPARENT,
    VERSIONS,
    AgentRef,
    Envelope,
    Metadata,
    Traced,
    unchecked,
)
from tocsin.core.protocol.priority import APM_VOCABULARY, VOCABULARY, Priority

__all__ = [
    "body",
    "check_nesting",
    "has_brackets",
    "is_flat",
    "metadata_of",
    "parse_envelope",
    "priority_of",
    "traceparent_of",
    "ttl_of",
]

_EMPTY: Final = b"{}"
# As numbers: `in` looks for a number at once, but treats a bytes object as a number first and fails.
_LINE_FEED: Final = ord("\n")
_CARRIAGE_RETURN: Final = ord("\r")
_BRACKET: Final = ord("[")
_ESCAPED_BACKSLASH: Final = b"\\\\"
_ESCAPED_QUOTE: Final = b'\\"'
#: An opening bracket as the signed byte 1, a closing one as -1, and every other byte.
_STEPS: Final = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")
_NOT_BRACKETS: Final = bytes(set(range(256)) - set(b"[{]}"))
_ENVELOPE: Final = msgspec.json.Decoder(Envelope)
_UNCHECKED: Final = msgspec.json.Decoder(unchecked(Envelope))
_IS_MESSAGE_ID: Final = re.compile(MESSAGE_ID).match
_METADATA: Final = msgspec.json.Decoder(Metadata)
_TRACED: Final = msgspec.json.Decoder(Traced)
_DEFAULTS: Final = Metadata()
#: Agents and message types that were named in valid envelopes, for the next ones; most teams are smaller than this.
_KNOWN_MAX: Final = 4096
_agents: Final[dict[tuple[str, str], AgentRef]] = {}
_types: Final[set[str]] = set()


def parse_envelope(data: bytes, bytes_max: int) -> Envelope:
    """Parse an envelope; refuse an invalid one with its error code and the expected value."""
    if len(data) > bytes_max:
        raise refusal(
            "E_VALIDATION_005",
            f"the message has {len(data)} bytes: at most {bytes_max} are allowed",
            found=f"{len(data)} bytes",
            expected=f"at most {bytes_max} bytes",
        )
    try:
        if not data.isascii():
            data.decode("utf-8")
        check_nesting(data)
        envelope = _decoded(data)
    except UnicodeDecodeError as error:
        raise _malformed(f"not UTF-8 at byte {error.start}", "valid UTF-8") from None
    except (msgspec.DecodeError, RecursionError) as error:
        raise _malformed(str(error), f"one JSON object of at most {NESTING_MAX} levels") from None
    return envelope


def _decoded(data: bytes) -> Envelope:
    """Decode and check an envelope with its payload and metadata, so that its recipient can read what is accepted."""
    try:
        envelope = _decoded_with_known_names(data)
        if envelope is None:
            envelope = _ENVELOPE.decode(data)
            _remember_names(envelope)
    except msgspec.ValidationError:
        raise error_for(_explain(data)) from None
    payload = msgspec.json.decode(envelope.payload)
    metadata_of(envelope)
    _check(envelope, payload)
    return envelope


def _decoded_with_known_names(data: bytes) -> Envelope | None:
    """Decode an envelope whose agents and type are known; null if its names have to be checked.

    Checking a name with its pattern takes longer than looking it up, and the names of a team come again and again.
    """
    found: Any = _UNCHECKED.decode(data)
    sender, receiver = found.sender, found.receiver
    known_sender = _agents.get((sender.agent_id, sender.type))
    known_receiver = _agents.get((receiver.agent_id, receiver.type))
    message_id: str = found.message_id
    if (
        known_sender is None
        or known_receiver is None
        or found.message_type not in _types
        or len(message_id) > MESSAGE_ID_MAX
        or _IS_MESSAGE_ID(message_id) is None
    ):
        return None
    return Envelope(
        found.version,
        message_id,
        found.timestamp,
        known_sender,
        known_receiver,
        found.message_type,
        found.payload,
        found.priority,
        found.correlation_id,
        found.metadata,
        found.qos,
    )


def _remember_names(envelope: Envelope) -> None:
    if len(_agents) >= _KNOWN_MAX:
        _agents.clear()
    if len(_types) >= _KNOWN_MAX:
        _types.clear()
    for agent in (envelope.sender, envelope.receiver):
        _agents[agent.agent_id, agent.type] = agent
    _types.add(envelope.message_type)


def has_brackets(data: bytes, number: int) -> bool:
    """Tell whether JSON may have that many opening brackets; with fewer it cannot be nested as deeply."""
    # Splitting searches for the few brackets of a message, where counting compares every byte.
    found = len(data.split(b"{", number)) - 1
    if _BRACKET in data:
        found += len(data.split(b"[", number)) - 1
    return found >= number


def is_flat(data: bytes) -> bool:
    """Tell whether a JSON object contains no bracket but its first; a bracket in a text counts as one."""
    return not data.rfind(b"{") and _BRACKET not in data


def check_nesting(data: bytes) -> None:
    """Refuse JSON that is nested too deeply; data without enough brackets for that is not scanned.

    It scans the text, because making its values takes ten times as long where most of them are lists.
    """
    if has_brackets(data, NESTING_MAX + 1) and _depth_of(data) > NESTING_MAX:
        raise _malformed("nested too deeply", f"one JSON object of at most {NESTING_MAX} levels")


def _depth_of(data: bytes) -> int:
    """Return the deepest nesting of JSON; of a text that is not JSON, any number."""
    # Texts are every other part between quotes, once escaped quotes are gone.
    outside = b"".join(data.replace(_ESCAPED_BACKSLASH, b"").replace(_ESCAPED_QUOTE, b"").split(b'"')[::2])
    steps = memoryview(outside.translate(_STEPS, _NOT_BRACKETS)).cast("b")
    return max(accumulate(steps), default=0)


def metadata_of(envelope: Envelope) -> Metadata:
    """Decode the metadata keys that Tocsin uses."""
    if envelope.metadata is NO_METADATA:
        return _DEFAULTS
    loose = msgspec.json.decode(envelope.metadata)
    try:
        return _METADATA.decode(envelope.metadata)
    except msgspec.ValidationError:
        raise error_for(validation.explain(Metadata, loose, "$.metadata")) from None


def ttl_of(envelope: Envelope) -> float | None:
    """Return the TTL of the metadata, seconds; null if there is none. Metadata that is not valid raises `DecodeError`.

    It is read in another way than `metadata_of` does, which explains what is not valid.
    """
    return _METADATA.decode(envelope.metadata).ttl


def traceparent_of(envelope: Envelope) -> str:
    """Return the `traceparent` of the metadata; empty if there is none or it is invalid."""
    if b"traceparent" not in bytes(envelope.metadata):
        return ""
    found = _TRACED.decode(envelope.metadata).traceparent
    return found if isinstance(found, str) and TRACEPARENT.match(found) else ""


def body(raw: Raw) -> bytes:
    """Return an object of an envelope as one line, so that it fits a line of NDJSON."""
    if raw is NO_METADATA:
        return _EMPTY
    data = bytes(raw)
    return msgspec.json.format(data, indent=-1) if _LINE_FEED in data or _CARRIAGE_RETURN in data else data


def priority_of(envelope: Envelope, default: Priority) -> Priority:
    """Return the priority that the sender asks for, on the internal scale."""
    if envelope.priority is None:
        return default
    return VOCABULARY[envelope.priority]


def _check(envelope: Envelope, payload: object) -> None:
    if envelope.version not in VERSIONS:
        raise refusal(
            "E_PROTOCOL_001",
            f"Unsupported protocol version: {envelope.version}",
            field="$.version",
            found=validation.quote(envelope.version),
            expected="one of " + ", ".join(VERSIONS),
        )
    if not isinstance(payload, dict):
        raise error_for(validation.explain(dict[str, Any], payload, "$.payload"))
    if envelope.timestamp.tzinfo is not UTC and envelope.timestamp.utcoffset():
        raise _field("E_VALIDATION_004", "$.timestamp", envelope.timestamp.isoformat(), "a timestamp in UTC")
    if envelope.sender.agent_id == ANYONE or envelope.sender.type == ANYONE:
        raise _field("E_VALIDATION_004", "$.sender", ANYONE, "one agent: only a receiver may be a wildcard")
    _check_version_fields(envelope)


def _check_version_fields(envelope: Envelope) -> None:
    """Refuse fields and names in a 1.0.0 envelope that 1.0.0 does not have."""
    old = envelope.version == VERSIONS[0]
    if envelope.priority is None:
        if old:
            raise _field("E_VALIDATION_001", "$.priority", "nothing", "one of " + ", ".join(APM_VOCABULARY))
    elif envelope.priority not in (APM_VOCABULARY if old else VOCABULARY):
        allowed = ", ".join(APM_VOCABULARY if old else VOCABULARY)
        raise _field("E_VALIDATION_003", "$.priority", validation.quote(envelope.priority), f"one of {allowed}")
    if old and envelope.qos is not None:
        raise _field("E_VALIDATION_004", "$.qos", "an object", "nothing: qos needs version 1.1.0")


def _explain(data: bytes) -> Problem:
    value = msgspec.json.decode(data)
    if isinstance(value, dict) and isinstance(value.get("version"), str) and value["version"] not in VERSIONS:
        wanted = "one of " + ", ".join(VERSIONS)
        detail = f"Unsupported protocol version: {value['version'][:32]}"
        return Problem("E_PROTOCOL_001", detail, "$.version", validation.quote(value["version"]), wanted)
    return _specific(validation.explain(Envelope, value), value)


def _specific(problem: Problem, value: Any) -> Problem:
    """Return a problem with the catalogue's own code for an invalid receiver or correlationId."""
    field = problem.field or ""
    if field == "$.correlationId" and problem.code == "E_VALIDATION_004":
        return msgspec.structs.replace(problem, code="E_PROTOCOL_003")
    if field.startswith("$.receiver"):
        receiver = value.get("receiver")
        empty = receiver == {} or (isinstance(receiver, dict) and receiver.get("agentId") == "")
        if empty or problem.code == "E_VALIDATION_004":
            return msgspec.structs.replace(problem, code="E_ROUTING_002")
    return problem


def _malformed(found: str, expected: str) -> Exception:
    return refusal("E_PROTOCOL_002", f"the message is not JSON: {found}", found=found, expected=expected)


def _field(code: str, path: str, found: str, expected: str) -> Exception:
    return refusal(code, f"{path} is {found}: it must be {expected}", field=path, found=found, expected=expected)
