"""Envelopes as a client writes and reads them (APM §1): the one place where ids and timestamps are made.

An envelope is written once. What is signed, sent, and sent again after a drop are the same bytes.
"""

import hashlib
import hmac
import time
from datetime import datetime
from typing import Any, TypeAlias, TypedDict

import msgspec
from msgspec import Raw

from tocsin.core.errors import refusal
from tocsin.core.protocol.contracts import DeliveryClass
from tocsin.core.protocol.envelope import ANYONE, VERSIONS, AgentRef, iso
from tocsin.core.protocol.priority import Priority, liminal_name
from tocsin.ids import RandomIds

__all__ = ["Draft", "EnvelopeReader", "EnvelopeWriter", "Options", "Payload", "Received", "Signer", "Written"]

#: Anything that is a JSON object when it is written: a mapping, a struct, or JSON itself.
Payload: TypeAlias = dict[str, Any] | msgspec.Struct | Raw

_PURPOSE = b"tocsin signature v1"
_SCHEME = "v1="
_TOKEN_PARTS = 3
_EMPTY: dict[str, Any] = {}


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    """A message to be sent: what the application says of it; the contract of its type says the rest."""

    #: An agent, or `*` for all.
    to: str
    type: str
    payload: Payload = {}
    #: A name of any vocabulary, or a level.
    priority: str | Priority | None = None
    #: Time to live, seconds.
    ttl_s: float | None = None
    #: The thread that it belongs to.
    correlation_id: str | None = None
    #: 1 to 10, inside its priority.
    importance: int | None = None
    #: Share of the importance lost per decay interval.
    decay_rate: float | None = None
    #: `sync` fails at once where the recipient is not there.
    delivery_class: DeliveryClass | str | None = None
    #: With `to="*"`: only agents of this type.
    to_type: str = ANYONE
    #: Further metadata, carried along.
    metadata: dict[str, Any] = {}
    #: Made where it is not given; the same again is the same message.
    message_id: str | None = None


class Options(TypedDict, total=False):
    """What may be said of a message beside receiver, type and payload: the other fields of a `Draft`."""

    priority: str | Priority | None
    ttl_s: float | None
    correlation_id: str | None
    importance: int | None
    decay_rate: float | None
    delivery_class: DeliveryClass | str | None
    to_type: str
    metadata: dict[str, Any]
    message_id: str | None


class Written(msgspec.Struct, frozen=True, gc=False):
    """An envelope, ready to go."""

    message_id: str
    envelope: Raw
    signature: str | None


class _Outgoing(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    version: str
    message_id: str
    timestamp: str
    sender: AgentRef
    receiver: AgentRef
    message_type: str
    payload: Payload
    priority: str | None = None
    correlation_id: str | None = None
    metadata: dict[str, Any] | None = None
    qos: dict[str, Any] | None = None


class Signer:
    """Signs what an agent sends, with a key that follows from its token (`docs/concepts/security.md`)."""

    def __init__(self, token: str) -> None:
        self.renew(token)

    def renew(self, token: str) -> None:
        """Sign with another token from now on."""
        parts = token.split("_", _TOKEN_PARTS - 1)
        if len(parts) != _TOKEN_PARTS:
            raise refusal("E_AUTH_001", "signing needs a token", expected="tcs_<id>_<secret>")
        digest = hashlib.sha256(parts[-1].encode()).digest()
        self._key = hmac.digest(digest, _PURPOSE, hashlib.sha256)

    def sign(self, body: bytes) -> str:
        """Return the signature of some bytes."""
        return _SCHEME + hmac.digest(self._key, body, hashlib.sha256).hex()


class EnvelopeWriter:
    """Writes the envelopes of one agent."""

    def __init__(self, signer: Signer | None = None) -> None:
        self._ids = RandomIds()
        self._encoder = msgspec.json.Encoder()
        self._signer = signer
        self._sender = AgentRef("", "")

    def introduce(self, agent: str, agent_type: str) -> None:
        """Say who the sender is."""
        self._sender = AgentRef(agent, agent_type)

    def fresh_id(self, prefix: str) -> str:
        """Make an id that was never used."""
        return self._ids.fresh(prefix, time.time_ns() // 1000)

    def write(self, draft: Draft) -> Written:
        """Write a draft down."""
        now = time.time_ns() // 1_000_000 * 1000
        message_id = draft.message_id or self._ids.fresh("msg", now)
        priority = draft.priority
        metadata = draft.metadata or _EMPTY
        if draft.ttl_s is not None:
            metadata = {**metadata, "ttl": draft.ttl_s}
        envelope = Raw(
            self._encoder.encode(
                _Outgoing(
                    VERSIONS[-1],
                    message_id,
                    iso(now),
                    self._sender,
                    AgentRef(draft.to, draft.to_type),
                    draft.type,
                    draft.payload,
                    liminal_name(priority) if isinstance(priority, Priority) else priority,
                    draft.correlation_id,
                    metadata or None,
                    _qos(draft),
                )
            )
        )
        signature = None if self._signer is None else self._signer.sign(bytes(envelope))
        return Written(message_id, envelope, signature)


def _qos(draft: Draft) -> dict[str, Any] | None:
    if draft.delivery_class is None and draft.importance is None and draft.decay_rate is None:
        return None
    said = {"deliveryClass": draft.delivery_class, "importance": draft.importance, "decayRate": draft.decay_rate}
    return {name: value for name, value in said.items() if value is not None}


class _Metadata(msgspec.Struct, frozen=True, rename="camel"):
    retry_count: int = 0
    ttl: float | None = None


class _Qos(msgspec.Struct, frozen=True, rename="camel"):
    delivery_class: DeliveryClass | None = None
    importance: int | None = None
    decay_rate: float | None = None


class Received(msgspec.Struct, frozen=True, rename="camel"):
    """An envelope that has come, its payload and metadata still as they travelled."""

    message_id: str
    timestamp: datetime
    sender: AgentRef
    receiver: AgentRef
    message_type: str
    payload: Raw
    priority: str | None = None
    correlation_id: str | None = None
    metadata: Raw = Raw(b"{}")
    qos: _Qos = _Qos()


class EnvelopeReader:
    """Reads what comes."""

    def __init__(self) -> None:
        self._envelopes = msgspec.json.Decoder(Received)
        self._metadata = msgspec.json.Decoder(_Metadata)

    def read(self, envelope: Raw) -> tuple[Received, int, float | None]:
        """Return an envelope, the retries so far, and its time to live in seconds."""
        received = self._envelopes.decode(envelope)
        known = self._metadata.decode(received.metadata)
        return received, known.retry_count, known.ttl
