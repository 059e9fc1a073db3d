"""The one writer of envelopes.

An envelope is written once: what is signed, sent, and sent again after a lost connection are the same bytes. For a bus
in the same process an ordinary envelope is not written at all: only its payload is encoded.
"""

import time
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
from msgspec import Raw

from tocsin.core.errors import TocsinError, refusal
from tocsin.core.protocol.envelope import ANYONE, NESTING_MAX, VERSIONS, AgentRef, Envelope, TypeName
from tocsin.core.protocol.parsing import has_brackets, is_flat
from tocsin.core.protocol.priority import PRIORITY_NAMES, VOCABULARY, Priority
from tocsin.core.protocol.timestamps import iso
from tocsin.ids import RandomIds
from tocsin.wire.drafts import AnyObject, Draft, OutgoingEnvelope, Payload, Written
from tocsin.wire.signatures import Signer

__all__ = ["EnvelopeWriter"]

_EMPTY: Final[dict[str, Any]] = {}
_VERSION: Final = VERSIONS[-1]
#: Size of an envelope without its payload, bytes, rounded up.
_OVERHEAD_BYTES: Final = 1024
#: Receivers and types whose names were checked, kept for the next message.
_CHECKED_MAX: Final = 4096
_is_object: Final = msgspec.json.Decoder(AnyObject).decode


class EnvelopeWriter:
    """Writes the envelopes of one agent."""

    def __init__(self, signer: Signer | None = None) -> None:
        self._ids = RandomIds()
        self._encode_json = msgspec.json.Encoder().encode
        self._signer = signer
        self._sender = AgentRef("", "")
        self._checked: dict[tuple[str, str], AgentRef] = {}
        #: Millisecond of the last envelope for a bus in this process, and its timestamp, which the next ones share.
        self._millisecond = 0
        self._timestamp = datetime.fromtimestamp(0, UTC)

    def introduce(self, agent: str, agent_type: str) -> None:
        """Set the sender of the envelopes."""
        self._sender = AgentRef(agent, agent_type)

    def fresh_id(self, prefix: str) -> str:
        """Return a new id."""
        return self._ids.fresh(prefix, time.time_ns() // 1000)

    def sign(self, body: bytes) -> str | None:
        """Return the signature of a body; null without a signer."""
        return None if self._signer is None else self._signer.sign(body)

    def prepare(self, draft: Draft, bytes_max: int) -> Envelope | Written:
        """Return the envelope of a draft for a bus in this process, or write one that is not ordinary.

        The payload is checked here as the bus would check it: JSON, its size and its nesting. What does not pass is
        written, so that the bus refuses it in its own words.
        """
        envelope: Envelope | None = None
        if _is_ordinary(draft):
            envelope = self.prepare_plain(draft.to, draft.type, draft.payload, draft.priority, bytes_max)
        return self.write(draft) if envelope is None else envelope

    def prepare_plain(
        self, to: str, message_type: str, payload: Payload, priority: str | Priority | None, bytes_max: int
    ) -> Envelope | None:
        """Return the envelope of a message that names nothing else; null if the bus has to check it."""
        receiver = self._checked.get((to, message_type)) or self._check_names(to, message_type)
        name = PRIORITY_NAMES[priority] if isinstance(priority, Priority) else priority
        if receiver is None or (name is not None and name not in VOCABULARY):
            return None
        try:
            body = self._encode_json(payload)
        except (TypeError, ValueError, msgspec.MsgspecError) as error:
            raise _unwritable(error) from error
        if len(body) + _OVERHEAD_BYTES > bytes_max or (not is_flat(body) and has_brackets(body, NESTING_MAX)):
            return None
        try:
            if not body.isascii():
                body.decode("utf-8")
            _is_object(body)
        except (UnicodeDecodeError, msgspec.DecodeError):
            return None
        now = time.time_ns() // 1_000_000
        if now != self._millisecond:
            self._millisecond, self._timestamp = now, datetime.fromtimestamp(now / 1000, UTC)
        message_id = self._ids.fresh("msg", now * 1000)
        return Envelope(_VERSION, message_id, self._timestamp, self._sender, receiver, message_type, Raw(body), name)

    def _check_names(self, to: str, message_type: str) -> AgentRef | None:
        """Return the receiver if it and the type are well-formed, and remember them."""
        try:
            receiver = msgspec.convert({"agentId": to, "type": ANYONE}, AgentRef)
            msgspec.convert(message_type, TypeName)
        except msgspec.ValidationError:
            return None
        if len(self._checked) >= _CHECKED_MAX:
            self._checked.clear()
        self._checked[to, message_type] = receiver
        return receiver

    def _encode(self, value: object) -> bytes:
        try:
            return self._encode_json(value)
        except (TypeError, ValueError, msgspec.MsgspecError) as error:
            raise _unwritable(error) from error

    def write(self, draft: Draft) -> Written:
        """Write a draft as an envelope, or refuse a payload that is not JSON."""
        now = time.time_ns() // 1_000_000 * 1000
        message_id = draft.message_id or self._ids.fresh("msg", now)
        priority = draft.priority
        metadata = draft.metadata or _EMPTY
        if draft.ttl_s is not None:
            metadata = {**metadata, "ttl": draft.ttl_s}
        outgoing = OutgoingEnvelope(
            VERSIONS[-1],
            message_id,
            iso(now),
            self._sender,
            AgentRef(draft.to, draft.to_type),
            draft.type,
            draft.payload,
            PRIORITY_NAMES[priority] if isinstance(priority, Priority) else priority,
            draft.correlation_id,
            metadata or None,
            _qos(draft),
        )
        envelope = Raw(self._encode(outgoing))
        signature = None if self._signer is None else self._signer.sign(bytes(envelope))
        return Written(message_id, envelope, signature)


def _unwritable(error: Exception) -> TocsinError:
    return refusal("E_VALIDATION_002", f"the message cannot be written: {error}", field="$.payload")


def _is_ordinary(draft: Draft) -> bool:
    """Tell whether a draft names only a receiver, a type, a payload and a priority."""
    return (
        draft.ttl_s is None
        and draft.correlation_id is None
        and draft.importance is None
        and draft.decay_rate is None
        and draft.delivery_class is None
        and draft.message_id is None
        and not draft.metadata
        and draft.to_type == ANYONE
    )


def _qos(draft: Draft) -> dict[str, Any] | None:
    if draft.delivery_class is None and draft.importance is None and draft.decay_rate is None:
        return None
    given = {"deliveryClass": draft.delivery_class, "importance": draft.importance, "decayRate": draft.decay_rate}
    return {name: value for name, value in given.items() if value is not None}
