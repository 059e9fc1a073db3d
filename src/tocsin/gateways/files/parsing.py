"""Parsing of a file agent's lines into commands.

The exchange checks whether the sender may send a message, and to whom. This module has only the rules of files: the
directory gives sender and receiver, a line may have no messageId, and a message to the bus can recall another one.
"""

import msgspec

from tocsin.core import commands as cmd
from tocsin.core.commands import Command
from tocsin.core.errors import Problem, TocsinError, refusal
from tocsin.core.protocol.envelope import Envelope
from tocsin.core.protocol.parsing import parse_envelope
from tocsin.gateways.files.answers import LineRef, derived_id
from tocsin.gateways.files.names import BUS, directory_of
from tocsin.gateways.files.reading import Item

__all__ = ["RECALL", "Channel", "ParsedLine", "parse_line"]

#: A message of this type to the bus recalls the message that its payload names.
RECALL = "CUSTOM_RECALL"
#: The longest id that is repeated in an answer.
_ID_MAX = 128


class Channel(msgspec.Struct, frozen=True):
    """Sender and receiver of a directory's lines."""

    agent: str
    receiver: str
    #: Whether the hub accepts signed messages only.
    signed_only: bool


class ParsedLine(msgspec.Struct, frozen=True):
    """Result of parsing a line: a command or a problem; neither for an empty line."""

    command: Command | None = None
    problem: Problem | None = None
    message_id: str | None = None
    correlation_id: str | None = None


def parse_line(item: Item, line_ref: LineRef, channel: Channel, bytes_max: int) -> ParsedLine:
    """Parse a line into a command or a problem."""
    if item.fault is not None:
        return ParsedLine(problem=item.fault)
    line = item.line.strip()
    if not line:
        return ParsedLine()
    try:
        envelope = _envelope_of(line, line_ref, bytes_max)
    except TocsinError as error:
        return ParsedLine(None, error.problem, *_names_in(line))
    names = (envelope.message_id, envelope.correlation_id)
    try:
        _check(envelope, channel)
        return ParsedLine(_command_of(envelope, channel), None, *names)
    except TocsinError as error:
        return ParsedLine(None, error.problem, *names)


def _envelope_of(line: bytes, line_ref: LineRef, bytes_max: int) -> Envelope:
    """Parse an envelope; one without a messageId gets one derived from its position and content."""
    try:
        return parse_envelope(line, bytes_max)
    except TocsinError as error:
        if error.problem.field != "$.messageId" or b'"messageId"' in line:
            raise
    completed = b'{"messageId":"%b",%b' % (derived_id(line_ref, line).encode(), line[1:].lstrip())
    return parse_envelope(completed, bytes_max + len(completed) - len(line))


def _check(envelope: Envelope, channel: Channel) -> None:
    if channel.signed_only:
        raise refusal("E_AUTH_006", "this hub accepts signed envelopes only, and a line cannot be signed")
    if channel.receiver not in (BUS, envelope.receiver.agent_id):
        raise refusal(
            "E_ROUTING_002",
            f"this channel goes to {channel.receiver}, the line is addressed to {envelope.receiver.agent_id}",
            field="$.receiver.agentId",
            found=envelope.receiver.agent_id,
            expected=f"{channel.receiver}, or a line in {directory_of(channel.agent, BUS)}",
        )
    if b"journalSeq" in bytes(envelope.metadata) and "journalSeq" in msgspec.json.decode(envelope.metadata):
        raise refusal(
            "E_VALIDATION_004",
            "$.metadata.journalSeq is set by the hub: this line is a copy of one that it wrote",
            field="$.metadata.journalSeq",
            expected="a line of your own",
        )


def _command_of(envelope: Envelope, channel: Channel) -> Command:
    if envelope.receiver.agent_id != BUS or envelope.message_type != RECALL:
        return cmd.Send(envelope)
    sender = envelope.sender.agent_id
    if sender != channel.agent:
        raise refusal(
            "E_AUTH_002", f"the line names {sender} as its sender, but the channel belongs to {channel.agent}"
        )
    message_id = msgspec.json.decode(envelope.payload).get("messageId")
    if not isinstance(message_id, str):
        raise refusal("E_VALIDATION_001", "$.payload.messageId is missing", field="$.payload.messageId")
    return cmd.Recall(message_id)


def _names_in(line: bytes) -> tuple[str | None, str | None]:
    """Return messageId and correlationId of a line that is not a valid envelope, if it has them."""
    try:
        value = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None, None
    if not isinstance(value, dict):
        return None, None
    ids = [value.get(name) for name in ("messageId", "correlationId")]
    message_id, correlation_id = (found[:_ID_MAX] if isinstance(found, str) and found else None for found in ids)
    return message_id, correlation_id
