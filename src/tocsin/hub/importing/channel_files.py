"""Messages of a directory of channels: `<sender>_to_<receiver>/messages.ndjson`, one envelope per line.

A channel does not record what became of a message, but the channel back does: an ACK acknowledges it, a NACK that
allows no retry makes it a dead letter. ACKs and NACKs are not imported as messages themselves.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from tocsin.core.errors import TocsinError
from tocsin.core.protocol.envelope import ANYONE, Envelope
from tocsin.core.protocol.parsing import body, metadata_of, parse_envelope, priority_of
from tocsin.core.protocol.priority import Priority
from tocsin.core.protocol.timestamps import as_microseconds
from tocsin.hub.importing.found import Found, Rejected, agent_name, type_name

__all__ = ["read_channels"]

_SEPARATOR = "_to_"
#: Time to live of an envelope that names none, seconds.
_TTL_S = 3600
#: Lines longer than this are not read into memory, bytes.
_LINE_MAX = 16 * 2**20


class _Answer(msgspec.Struct):
    """What an ACK or a NACK says."""

    at: int
    nack: bool
    status: str = ""
    reason: str = ""


def read_channels(root: Path, bytes_max: int, known: frozenset[str]) -> Iterator[Found | tuple[str, str, Any]]:
    """Yield the messages of all channels, oldest first; for a malformed line its place, what is wrong, and the line."""
    found: list[Found] = []
    answers: dict[tuple[str, str], _Answer] = {}
    files = sorted(root.glob("*/messages*.ndjson"))
    if not files:
        raise Rejected(f"{root} has no channels: expected directories like ada_to_bob with messages.ndjson")
    for file in files:
        for number, line in _lines(file):
            where = f"{file.relative_to(root)}:{number}"
            try:
                if line is None:
                    raise Rejected(f"the line has more than {_LINE_MAX} bytes")
                message = _message(where, file.parent.name, line, bytes_max, known, answers)
            except (Rejected, TocsinError) as error:
                yield where, str(error), None if line is None else line.decode("utf-8", "replace")
            else:
                if message is not None:
                    found.append(message)
    broadcasts: dict[str, Found] = {}
    for message in sorted(found, key=lambda one: (one.created_at, one.where)):
        _settle(message, answers.get((message.recipient, message.message_id)))
        if message.copies:
            first = broadcasts.setdefault(message.message_id, message)
            if first is not message:
                first.copies.append(message)
                message.copies = first.copies
    for message in sorted(found, key=lambda one: (one.created_at, one.where)):
        if not message.copies or message.copies[0] is message:
            yield message


def _lines(file: Path) -> Iterator[tuple[int, bytes | None]]:
    """Yield the lines of a file with their numbers, without blank ones; null for one that is too long."""
    with file.open("rb") as lines:
        number = 0
        while line := lines.readline(_LINE_MAX):
            number += 1
            if len(line) == _LINE_MAX and not line.endswith(b"\n"):
                while (rest := lines.readline(_LINE_MAX)) and not rest.endswith(b"\n"):
                    pass
                yield number, None
            elif line.strip():
                yield number, line.strip()


def _message(
    where: str,
    channel: str,
    line: bytes,
    bytes_max: int,
    known: frozenset[str],
    answers: dict[tuple[str, str], _Answer],
) -> Found | None:
    """Return the message of a line; an answer is recorded instead."""
    envelope = parse_envelope(line, bytes_max)
    sender = envelope.sender.agent_id
    recipient = envelope.receiver.agent_id
    if recipient == ANYONE:
        before, separator, after = channel.partition(f"{sender}{_SEPARATOR}")
        if before or not separator:
            raise Rejected(f"the receiver is *, and the channel {channel} does not name it")
        recipient = agent_name(after, "the channel's receiver")
    if envelope.message_type in ("ACK", "NACK"):
        about, answer = _answer(envelope)
        known_answer = answers.get((sender, about))
        if known_answer is None or known_answer.at <= answer.at:
            answers[sender, about] = answer
        return None
    created_at = as_microseconds(envelope.timestamp)
    metadata = metadata_of(envelope)
    ttl_s = _TTL_S if metadata.ttl is None else metadata.ttl
    message = Found(
        where=where,
        message_id=envelope.message_id,
        sender=sender,
        recipient=recipient,
        type=type_name(envelope.message_type, known),
        priority=priority_of(envelope, Priority.COORDINATE),
        payload=body(envelope.payload),
        metadata=body(envelope.metadata),
        correlation_id=envelope.correlation_id,
        created_at=created_at,
        expires_at=created_at + int(ttl_s * 1_000_000),
        sender_type=envelope.sender.type,
        recipient_type=None if envelope.receiver.type == ANYONE else envelope.receiver.type,
        version=envelope.version,
    )
    if envelope.receiver.agent_id == ANYONE:
        message.copies = [message]
    return message


def _answer(envelope: Envelope) -> tuple[str, _Answer]:
    said: dict[str, Any] = msgspec.json.decode(envelope.payload)
    nack = envelope.message_type == "NACK"
    about = said.get("rejectedMessageId" if nack else "acknowledgedMessageId")
    if not isinstance(about, str):
        raise Rejected(f"the {envelope.message_type} does not say which message it answers")
    at = as_microseconds(envelope.timestamp)
    if not nack:
        return about, _Answer(at, False, str(said.get("status", "received")))
    retry = said.get("canRetry") is not False
    return about, _Answer(at, True, "retry" if retry else "", str(said.get("reason", ""))[:500])


def _settle(message: Found, answer: _Answer | None) -> None:
    """Record what an answer says of a message."""
    if answer is None or (answer.nack and answer.status == "retry"):
        return
    at = max(answer.at, message.created_at)
    if answer.nack:
        message.dead_at, message.reason = at, answer.reason
        return
    message.delivered_at = message.acked_at = at
    if answer.status == "processed":
        message.processed_at = at
