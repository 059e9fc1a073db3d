"""Traces: the commands of one project in one window, in the order in which they were decided.

A step is one recorded command. It has its time, the number and fingerprint of its events, the ids that the bus issued
in it, and, for the closed loop, what it was a reaction to: an *anchor* and a delay. Anchors are names: `o 2 msg_1` is
the second offer of a message, `a msg_1` its acceptance, `g lse_1` the grant of a lease, `x lse_1` the end of waiting
for one, `s 17` step 17, `d ses_1` the previous drain of a session. A step without an anchor has no cause that the bus
could see and keeps its recorded time.

Traces are plain data, stored in one file each.
"""

import hashlib
import os
import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, get_type_hints
from zlib import crc32

import msgspec

from tocsin import zstd
from tocsin.core import commands as cmd
from tocsin.core import events as ev
from tocsin.core.events import EVENT_TYPES, Event, encode_events
from tocsin.lab.traces.message_history import MessageHistory, history_from
from tocsin.lab.traces.recorded_envelope import RecordedAgent, RecordedEnvelope

__all__ = [
    "APPLY",
    "RECORDED",
    "TICK",
    "ConsumerAction",
    "ConsumerModel",
    "Poller",
    "RecordedMessage",
    "RefusedSend",
    "Step",
    "Trace",
    "decoded",
    "encoded",
    "encoded_consumers",
    "encoded_histories",
    "fingerprint",
    "load_trace",
    "save_trace",
    "trace_hash",
]

#: Pseudo-command that applies a recorded event whose command is not known.
APPLY = "Apply"
#: Name of the command of a timer.
TICK = "Tick"

#: Fields that are left out of fingerprints, with what takes their place: content, and words and figures that only
#: explain a decision, which journals of earlier versions lack or word differently.
_BLANK: dict[type, dict[str, Any]] = {
    ev.MessageAccepted: {
        "payload": b"", "metadata": b"", "high": 0, "messages": 0, "limit": None, "window_s": None,
    },
    ev.SendRefused: {"detail": ""},
    ev.MessageDied: {"attempts_max": 0, "threshold_s": 0.0},
    ev.DeadLetterPurged: {"limit": None},
    ev.BroadcastAccepted: {"payload": b"", "metadata": b""},
    ev.MessageReleased: {"payload": b""},
    ev.PolicyAdopted: {"policy": b""},
    ev.ApprovalRequested: {"details": ""},
    ev.EscalationOpened: {"detail": ""},
    ev.EscalationDeferred: {"detail": ""},
}  # fmt: skip


class Step(msgspec.Struct, array_like=True, gc=False):
    """One recorded command."""

    at: int
    #: Its caller; empty in a stored step.
    agent: str
    role: str
    #: Name of the command.
    ask: str
    #: Number of its caller among those of the trace; set when it is stored.
    caller: int = -1
    #: Fields of a frequent command by position, instead of `body`; the messages of a receipt. Set when it is stored.
    args: tuple[Any, ...] = ()
    #: Its envelope, if it has one.
    envelope: RecordedEnvelope | None = None
    #: Number of its events.
    events: int = 0
    #: Fingerprint of its events.
    digest: int = 0
    #: Anchors; a batch of receipts has one per message. An offer of the message that the command names is only the
    #: number of the offer in a stored step, see `_own_message`.
    after: tuple[str | int, ...] = ()
    #: Delay after each anchor, microseconds.
    delay_us: tuple[int, ...] = ()
    #: Whether its agent did nothing else meanwhile; the delay then counts from when the agent is free.
    serial: bool = False
    #: Of a heartbeat: whether the call may have been a drain, because nothing was waiting.
    polls: bool = False
    #: Ids that the bus issued in it, in order.
    ids: tuple[str, ...] = ()
    #: Fields of its command by name, without the envelope.
    body: dict[str, Any] = {}


class RefusedSend(msgspec.Struct, array_like=True, gc=False, frozen=True):
    """A refused send."""

    message_id: str
    requested: int
    code: str
    at: int = 0
    message_type: str = ""


#: The part of a recorded history that the closed loop reads: the first of `MessageHistory.values`. A tuple, because
#: its parts are read faster than the attributes of a struct.
RecordedMessage = tuple[Any, ...]
#: Names of these parts.
RECORDED = ("signal", "recipient", "state", "reason", "accepted_at", "first_offered_at", "offers")


class ConsumerAction(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One action of a consumer on a message: a receipt, an ACK, a NACK or an answer."""

    #: `Confirm`, `Acknowledge`, `Reject`, `MarkProcessed`, or `Send` for an answer.
    ask: str
    #: Fields of the command, without the message.
    body: dict[str, Any]
    delay_us: int
    serial: bool = False
    #: Of an answer: its message type.
    message_type: str = ""


class ConsumerModel(msgspec.Struct, frozen=True, array_like=True):
    """How a consumer handles messages of a type: examples, each a list of actions."""

    #: Recipient, `team-*` for all agents of a scenario's team, or `*`.
    recipient: str
    #: Message type, or `*`.
    message_type: str
    examples: list[tuple[ConsumerAction, ...]]


class Poller(msgspec.Struct, frozen=True, array_like=True):
    """A session that calls repeatedly until the end of the window."""

    agent: str
    role: str
    session: str
    #: Largest number of messages per call; 0 for heartbeats only.
    limit: int
    first_at: int
    #: Time from when its agent is free to the next call, microseconds.
    gap_us: int


class Trace(msgspec.Struct, array_like=True):
    """The commands and the recorded outcome of one project in one window."""

    project: str
    #: Name of the window: a day, a time, or a run of a scenario.
    window: str
    begins_at: int
    ends_at: int
    #: Recorded state at the start, encoded; empty if the project starts in this window.
    snapshot: bytes
    #: Policy in force at the start; null if the project starts in this window.
    policy: Any
    steps: list[Step]
    refused: list[RefusedSend]
    #: Number of recorded events.
    events: int
    #: Agent and role of the callers of stored steps.
    callers: list[tuple[str, str]] = []
    #: Number of recorded messages.
    messages: int = 0
    #: Recorded messages at the end of the window, encoded.
    message_data: bytes = b"\x90"
    #: The rest of their histories, encoded and compressed: only the open loop reads it.
    history_data: bytes = b""
    #: Consumer models, encoded and compressed: they are read when an offer was not recorded.
    consumer_data: bytes = b""
    pollers: list[Poller] = []
    #: Number of escalations opened, as recorded.
    escalations: int = 0
    #: Median delay of the hub's clock after a timer was due, microseconds.
    lag_us: int = 0
    #: Longest delay of the hub's clock, microseconds.
    lag_max_us: int = 0
    #: Whether it was recorded; a scenario's trace is not.
    recorded: bool = True

    @property
    def histories(self) -> list[MessageHistory]:
        """Decode the recorded histories."""
        rests = _HISTORIES.decode(zstd.decompress(self.history_data)) if self.history_data else []
        return [history_from((*message, *rest)) for message, rest in zip(self.recorded_messages, rests, strict=True)]

    @property
    def recorded_messages(self) -> list[RecordedMessage]:
        """Decode the part of the recorded histories that the closed loop reads."""
        messages: list[RecordedMessage] = _MESSAGES.decode(self.message_data)
        return messages

    @property
    def consumers(self) -> list[ConsumerModel]:
        """Decode the consumer models."""
        return _CONSUMERS.decode(zstd.decompress(self.consumer_data)) if self.consumer_data else []


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(Trace)
_HISTORIES = msgspec.msgpack.Decoder(list[tuple[Any, ...]])
_MESSAGES = msgspec.msgpack.Decoder(list[tuple[str, str, str, str, int, int, int]])
_CONSUMERS = msgspec.msgpack.Decoder(list[ConsumerModel])
#: Values of a step and an envelope that are not set.
_NO_STEP = msgspec.structs.astuple(Step(0, "", "", ""))
_NO_ENVELOPE = msgspec.structs.astuple(
    RecordedEnvelope("", "", datetime.min, RecordedAgent("", ""), RecordedAgent("", ""), "")
)
#: Fields of the commands that are stored by position: the frequent ones whose fields a trace keeps as they are.
_POSITIONS: dict[str, tuple[str, ...]] = {
    kind.__name__: kind.__struct_fields__
    for kind in (
        *(cmd.Acknowledge, cmd.CloseSession, cmd.Drain, cmd.Heartbeat),
        *(cmd.MarkProcessed, cmd.Recall, cmd.Reject),
    )
}
_FLOATS: dict[type, tuple[str, ...]] = {
    kind: tuple(name for name, hint in get_type_hints(kind).items() if hint in (float, float | None))
    for kind in EVENT_TYPES
}
_LEVEL = 3


def fingerprint(events: Iterable[Event]) -> int:
    """Return a fingerprint of events without payloads and explanations, which no decision depends on."""
    return crc32(encode_events([_plain(event) for event in events]))


def _plain(event: Event) -> Event:
    """Return an event without payloads and explanations, and with integers in float fields converted to floats."""
    changes: dict[str, Any] = {
        name: float(value) for name in _FLOATS[type(event)] if type(value := getattr(event, name)) is int
    }
    changes |= _BLANK.get(type(event), {})
    return msgspec.structs.replace(event, **changes) if changes else event


def encoded_histories(histories: Iterable[MessageHistory]) -> tuple[bytes, bytes]:
    """Encode the histories of a trace: the recorded messages, and the rest."""
    values, head = [history.values() for history in histories], len(RECORDED)
    rests = _ENCODER.encode([each[head:] for each in values])
    return _ENCODER.encode([each[:head] for each in values]), zstd.compress(rests, _LEVEL)


def encoded_consumers(models: Sequence[ConsumerModel]) -> bytes:
    """Encode the consumer models of a trace."""
    return zstd.compress(_ENCODER.encode(models), _LEVEL)


def encoded(trace: Trace) -> bytes:
    """Encode a trace; steps and envelopes without the defaults at their end, which then need not be decoded."""
    callers = {caller: number for number, caller in enumerate(trace.callers)}
    rows = [_row(step, callers) for step in trace.steps]
    stored = msgspec.structs.replace(trace, steps=rows, callers=list(callers))
    return zstd.compress(_ENCODER.encode(stored), _LEVEL)


def _row(step: Step, callers: dict[tuple[str, str], int]) -> list[Any]:
    """Return the values of a step as they are stored; add its caller to those of the trace."""
    caller = step.caller if step.caller >= 0 else callers.setdefault((step.agent, step.role), len(callers))
    envelope, args, body = step.envelope, step.args or _args(step.ask, step.body), step.body
    after = tuple(_anchor_row(anchor, _own_message(step.ask, args, part)) for part, anchor in enumerate(step.after))
    stored = msgspec.structs.replace(
        step,
        agent="",
        role="",
        caller=caller,
        args=args,
        after=after,
        body={} if args else body,
        envelope=None if envelope is None else _envelope_row(envelope),
    )
    return _trimmed(stored, _NO_STEP)


def _own_message(ask: str, args: tuple[Any, ...], part: int) -> Any:
    """Return the message that a step names by position: of a receipt the one with the place of the anchor."""
    place = part if ask == "Confirm" else 0
    return args[place] if place < len(args) else None


def _anchor_row(anchor: str | int, message: Any) -> str | int:
    """Return an anchor as it is stored: the number of the offer, if it is one of the step's own message."""
    if isinstance(anchor, str) and anchor.startswith("o "):
        _, offer, signal = anchor.split(" ", 2)
        return int(offer) if signal == message else anchor
    return anchor


def _envelope_row(envelope: RecordedEnvelope) -> list[Any]:
    """Return the values of an envelope as they are stored; raw metadata is only the default."""
    values = _trimmed(envelope, _NO_ENVELOPE)
    return [bytes(value) if isinstance(value, msgspec.Raw) else value for value in values]


def _trimmed(struct: msgspec.Struct, defaults: tuple[Any, ...]) -> list[Any]:
    """Return the values of a struct without the defaults at its end."""
    values = list(msgspec.structs.astuple(struct))
    while values[-1] == defaults[len(values) - 1]:
        values.pop()
    return values


def _args(ask: str, body: dict[str, Any]) -> tuple[Any, ...]:
    """Return the fields of a frequent command by position; nothing if it has to be stored by name."""
    if ask == "Confirm" and body.keys() == {"message_ids"}:
        return tuple(body["message_ids"])
    names = _POSITIONS.get(ask, ())[: len(body)]
    return tuple(body[name] for name in names) if body.keys() == set(names) else ()


def decoded(data: bytes) -> Trace:
    """Decode a trace."""
    return _DECODER.decode(zstd.decompress(data))


def save_trace(folder: Path, trace: Trace) -> Path:
    """Save a trace in a folder; its name has the project, the window and a digest."""
    data = encoded(trace)
    project = re.sub(r"[^A-Za-z0-9_.-]", "_", trace.project)
    path = folder / f"{project}.{trace.window}.{trace_hash(data)}.trace"
    folder.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(f".{os.getpid()}")
    fresh.write_bytes(data)
    fresh.replace(path)
    return path


def load_trace(path: Path) -> Trace:
    """Read a saved trace."""
    return decoded(path.read_bytes())


def trace_hash(data: bytes) -> str:
    """Return a digest of an encoded trace."""
    return hashlib.blake2b(data, digest_size=8).hexdigest()
