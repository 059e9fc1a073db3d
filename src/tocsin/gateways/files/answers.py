"""Replies to a file agent's lines: a receipt for each, and a NACK or an ERROR_REPORT for a refused one.

Refusals are envelopes from the bus in the channel to the agent (APM §2.5, §2.8). Receipts are in a file of their own
beside them, because the protocol has no message for them. The ids are derived from the line that is answered, so that a
reply that is written again after a crash can be recognised.
"""

from hashlib import blake2b
from typing import Any

import msgspec

from tocsin.core import commands as cmd
from tocsin.core.errors import Problem
from tocsin.core.protocol.envelope import VERSIONS
from tocsin.core.protocol.priority import Priority, apm_name, priority_name
from tocsin.core.protocol.timestamps import iso
from tocsin.gateways.files.names import BUS, MESSAGES, RECEIPTS, directory_of
from tocsin.gateways.files.writing import Line
from tocsin.wire.messages import SendReply

__all__ = ["Addressee", "LineRef", "answers_to", "derived_id", "report"]

_JSON = msgspec.json.Encoder()
#: Refusals that become an ERROR_REPORT instead of a NACK, although the line has an id (APM §3.1, §3.5).
_REPORTED = frozenset({"E_ROUTING_001", "E_ROUTING_003", "E_ROUTING_004"})
#: `errorType` by the family of an E_ code (APM §2.5).
_ERROR_TYPES = {"VALIDATION": "ValidationError", "PROTOCOL": "ValidationError", "ROUTING": "DependencyError"}


class Addressee(msgspec.Struct, frozen=True):
    """The agent that is answered, and the id of the hub's journal."""

    agent: str
    type: str
    version: str
    journal_id: str


class LineRef(msgspec.Struct, frozen=True):
    """The line of a channel that is answered."""

    channel: str
    generation: int
    offset: int

    def id_of(self, what: str, data: bytes = b"") -> str:
        """Return an id that is the same whenever the same line is read."""
        place = f"{self.channel}\0{self.generation}\0{self.offset}\0".encode()
        return f"msg_{what}_{blake2b(place + data, digest_size=12).hexdigest()}"


def derived_id(line_ref: LineRef, line: bytes) -> str:
    """Return the messageId for a line without one."""
    return line_ref.id_of("file", line)


def answers_to(
    line_ref: LineRef,
    reply: cmd.Reply,
    addressee: Addressee,
    now: int,
    message_id: str | None,
    correlation_id: str | None,
) -> list[Line]:
    """Return the receipt of a line, and its refusal if it was refused."""
    lines = [_receipt(line_ref, reply, addressee, now, message_id)]
    problem = reply if isinstance(reply, Problem) else _partly_failed(reply)
    if problem is not None:
        if message_id is None or problem.code in _REPORTED:
            lines.append(report(line_ref, problem, addressee, now, message_id, correlation_id))
        else:
            lines.append(_nack(line_ref, problem, addressee, now, message_id, correlation_id))
    return lines


def report(
    line_ref: LineRef,
    problem: Problem,
    addressee: Addressee,
    now: int,
    message_id: str | None = None,
    correlation_id: str | None = None,
) -> Line:
    """Return an ERROR_REPORT (APM §2.5)."""
    entry = problem.entry
    context: dict[str, Any] = {
        "channel": line_ref.channel,
        "generation": line_ref.generation,
        "offset": line_ref.offset,
    }
    if message_id is not None:
        context["messageId"] = message_id
    payload = {
        "errorType": _ERROR_TYPES.get(problem.code.split("_")[1], "SystemError"),
        "errorCode": problem.code,
        "errorMessage": problem.detail,
        "severity": entry.severity.lower(),
        "context": context | _clues(problem),
        "recoverable": entry.recoverable,
        "suggestedAction": problem.expected or entry.remedy,
    }
    return _envelope(line_ref, "report", "ERROR_REPORT", Priority.BLOCKING, payload, addressee, now, correlation_id)


def _nack(
    line_ref: LineRef, problem: Problem, addressee: Addressee, now: int, message_id: str, correlation_id: str | None
) -> Line:
    payload = {
        "rejectedMessageId": message_id,
        "reason": problem.detail,
        "errorCode": problem.code,
        "timestamp": iso(now),
        "canRetry": problem.retryable,
        "suggestedFix": problem.expected or problem.entry.remedy,
    }
    return _envelope(line_ref, "nack", "NACK", Priority.COORDINATE, payload, addressee, now, correlation_id)


def _envelope(
    line_ref: LineRef,
    what: str,
    message_type: str,
    priority: Priority,
    payload: dict[str, Any],
    addressee: Addressee,
    now: int,
    correlation_id: str | None,
) -> Line:
    old = addressee.version == VERSIONS[0]
    key = line_ref.id_of(what, addressee.journal_id.encode())
    envelope: dict[str, Any] = {
        "version": addressee.version,
        "messageId": key,
        "timestamp": iso(now),
        "sender": {"agentId": BUS, "type": "System"},
        "receiver": {"agentId": addressee.agent, "type": addressee.type},
        "messageType": message_type,
        "priority": apm_name(priority) if old else priority_name(priority),
        "payload": payload,
        "metadata": {},
    }
    if correlation_id is not None:
        envelope["correlationId"] = correlation_id
    return Line(directory_of(BUS, addressee.agent), MESSAGES, _JSON.encode(envelope), key=key)


def _receipt(line_ref: LineRef, reply: cmd.Reply, addressee: Addressee, now: int, message_id: str | None) -> Line:
    key = line_ref.id_of("receipt", addressee.journal_id.encode()).removeprefix("msg_")
    document: dict[str, Any] = {
        "receiptId": key,
        "at": iso(now),
        "channel": line_ref.channel,
        "generation": line_ref.generation,
        "offset": line_ref.offset,
        "messageId": message_id,
    }
    document |= {"recall": reply} if isinstance(reply, cmd.RecallResult) else msgspec.to_builtins(SendReply.of(reply))
    return Line(directory_of(BUS, addressee.agent), RECEIPTS, _JSON.encode(document), key=key)


def _partly_failed(reply: cmd.Reply) -> Problem | None:
    if not isinstance(reply, cmd.BroadcastReceipt) or not reply.failed:
        return None
    left_out = ", ".join(f"{agent}: {problem.code}" for agent, problem in list(reply.failed.items())[:5])
    return Problem("E_ROUTING_004", f"{len(reply.failed)} recipients were left out ({left_out})", retryable=False)


def _clues(problem: Problem) -> dict[str, Any]:
    clues = {"field": problem.field, "found": problem.found, "expected": problem.expected}
    return {name: value for name, value in clues.items() if value is not None} | problem.facts
