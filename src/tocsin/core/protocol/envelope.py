"""Envelopes: parsing and checking the bytes of a message, and encoding its parts.

This module checks what an envelope alone shows: size, encoding, JSON, fields, and the vocabularies of its version. The
exchange checks what needs the project's state, such as permissions. The payload is kept as received.

Requirement: APM §1.
"""

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Raw

from tocsin.core.errors import Problem, error_for, refusal
from tocsin.core.protocol import validation
from tocsin.core.protocol.contracts import DeliveryClass
from tocsin.core.protocol.priority import APM_VOCABULARY, VOCABULARY, Priority
from tocsin.core.protocol.timestamps import EPOCH, MICROSECOND

__all__ = [
    "ANYONE",
    "NESTING_MAX",
    "NO_METADATA",
    "TRACEPARENT",
    "VERSIONS",
    "AgentRef",
    "Envelope",
    "Metadata",
    "Qos",
    "body",
    "check_nesting",
    "instant",
    "iso",
    "metadata_of",
    "parse_envelope",
    "priority_of",
    "traceparent_of",
    "ttl_of",
]

#: Supported protocol versions, oldest first.
VERSIONS = ("1.0.0", "1.1.0")
#: Wildcard of a receiver.
ANYONE = "*"
#: Maximum nesting of an envelope, itself included, that every JSON reader on the way can handle.
NESTING_MAX = 128

#: Format of a `traceparent` (W3C Trace Context).
TRACEPARENT = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}\Z")

_EMPTY = b"{}"
#: Metadata of an envelope that has none.
NO_METADATA = Raw(_EMPTY)
_LINE_FEED, _CARRIAGE_RETURN = b"\n\r"

#: An agent's id is also part of file names, so it contains no character that is special in a path.
AgentId = Annotated[str, Meta(pattern=r"^(?:\*|[A-Za-z0-9][A-Za-z0-9_.\-]{0,63})\Z")]
AgentType = Annotated[str, Meta(pattern=r"^(?:\*|[A-Za-z][A-Za-z0-9_\-]{0,63})\Z")]
MessageId = Annotated[str, Meta(pattern=r"^msg_[0-9A-Za-z]+(?:[_\-][0-9A-Za-z]+)+\Z", max_length=128)]
CorrelationId = Annotated[str, Meta(pattern=r"^[0-9A-Za-z_.\-]+\Z", max_length=128)]
TypeName = Annotated[str, Meta(pattern=r"^[A-Za-z][A-Za-z0-9_]*\Z", max_length=64)]
Tag = Annotated[str, Meta(max_length=64)]


class AgentRef(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """An agent as named in an envelope."""

    agent_id: AgentId
    type: AgentType


class Metadata(msgspec.Struct, frozen=True, rename="camel"):
    """Metadata keys that Tocsin uses; other keys are passed through."""

    #: Retries so far: as counted by the sender on the way in, by Tocsin on the way out.
    retry_count: Annotated[int, Meta(ge=0)] = 0
    #: Time to live, seconds; the contract's by default.
    ttl: Annotated[float, Meta(gt=0)] | None = None
    #: Tags for categorization.
    tags: Annotated[list[Tag], Meta(max_length=32)] = []


class _Traced(msgspec.Struct):
    """The part of metadata that is read to find a trace; it may hold any value."""

    traceparent: Any = None


class Qos(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Quality-of-service fields that version 1.1.0 adds; they override the contract for one message."""

    delivery_class: DeliveryClass | None = None
    #: Importance from 1 to 10; orders messages within a priority level.
    importance: Annotated[int, Meta(ge=1, le=10)] | None = None
    #: Share of the importance lost per decay interval.
    decay_rate: Annotated[float, Meta(ge=0, le=1)] | None = None


class Envelope(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A message as its sender wrote it (APM §1.2)."""

    version: str
    message_id: MessageId
    timestamp: Annotated[datetime, Meta(tz=True)]
    sender: AgentRef
    receiver: AgentRef
    message_type: TypeName
    payload: Raw
    #: A name from the version's vocabulary; optional in 1.1.0.
    priority: str | None = None
    correlation_id: CorrelationId | None = None
    metadata: Raw = NO_METADATA
    qos: Qos | None = None


_ENVELOPE = msgspec.json.Decoder(Envelope)
_METADATA = msgspec.json.Decoder(Metadata)
_TRACED = msgspec.json.Decoder(_Traced)
_DEFAULTS = Metadata()


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
        if data.count(b"{") + data.count(b"[") > NESTING_MAX:
            check_nesting(msgspec.json.decode(data))
        envelope = _decoded(data)
    except UnicodeDecodeError as error:
        raise _malformed(f"not UTF-8 at byte {error.start}", "valid UTF-8") from None
    except (msgspec.DecodeError, RecursionError) as error:
        raise _malformed(str(error), f"one JSON object of at most {NESTING_MAX} levels") from None
    return envelope


def _decoded(data: bytes) -> Envelope:
    """Decode and check an envelope with its payload and metadata, so that its recipient can read what is accepted."""
    try:
        envelope = _ENVELOPE.decode(data)
    except msgspec.ValidationError:
        raise error_for(_explain(data)) from None
    payload = msgspec.json.decode(envelope.payload)
    metadata_of(envelope)
    _check(envelope, payload)
    return envelope


def check_nesting(document: Any) -> None:
    """Refuse data that is nested too deeply; data without enough brackets for that is not scanned."""
    level: list[Any] = [document]
    for _ in range(NESTING_MAX):
        level = [
            part
            for value in level
            if isinstance(value, dict | list)
            for part in (value.values() if isinstance(value, dict) else value)
        ]
        if not level:
            return
    if any(isinstance(value, dict | list) for value in level):
        raise _malformed("nested too deeply", f"one JSON object of at most {NESTING_MAX} levels")


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


def instant(moment: datetime) -> int:
    """Convert a datetime to microseconds since the epoch."""
    return (moment - EPOCH) // MICROSECOND


def iso(moment_us: int) -> str:
    """Convert microseconds since the epoch to an ISO 8601 UTC timestamp, in milliseconds if that is exact."""
    seconds, rest = divmod(moment_us, 1_000_000)
    return f"{_second(seconds)}.{rest // 1000:03d}Z" if rest % 1000 == 0 else f"{_second(seconds)}.{rest:06d}Z"


@lru_cache(maxsize=4096)
def _second(seconds: int) -> str:
    """Format a whole second; cached, because timestamps formatted at one time mostly share a few of them."""
    return (EPOCH + timedelta(seconds=seconds)).isoformat(timespec="seconds")[:-6]
