"""A trace: one project's one window, as the things that came from outside, in the order in which they were decided.

A step is one command of history. It says when it was asked, which events it led to (how many, and their fingerprint),
which ids the bus gave away in it, and, for the closed loop, what it was a reaction to: an *anchor* and a delay. Anchors
are names: `o 2 msg_1` is the second offer of a message, `a msg_1` its acceptance, `g lse_1` the grant of a lease,
`x lse_1` the end of waiting for one, `s 17` step 17 itself, `d ses_1` the drain before in that session. A step without
an anchor came from nowhere that the bus could see and keeps its time.

Traces are plain data in one file each; nothing here decides or waits.
"""

import hashlib
import os
import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, get_type_hints
from zlib import crc32

import msgspec

from tocsin import zstd
from tocsin.core import commands as cmd
from tocsin.core import events as ev
from tocsin.core.commands import Command
from tocsin.core.events import EVENT_TYPES, Event, encode_events
from tocsin.core.protocol.contracts import DeliveryClass
from tocsin.core.protocol.envelope import AgentRef, Envelope, Qos
from tocsin.lab.traces.message_tracker import MessageHistory, RefusedSend

__all__ = [
    "APPLY",
    "TICK",
    "ConsumerAction",
    "ConsumerModel",
    "EnvelopeDraft",
    "Poller",
    "Step",
    "Trace",
    "command_of",
    "decoded",
    "encoded",
    "fingerprint",
    "load_trace",
    "offer_anchor",
    "save_trace",
    "trace_hash",
]

#: The pseudo-command that applies a recorded event: one that only history knows of.
APPLY = "Apply"
TICK = "Tick"

_BLANK: dict[type, tuple[str, ...]] = {
    ev.MessageAccepted: ("payload", "metadata"),
    ev.BroadcastAccepted: ("payload", "metadata"),
    ev.MessageReleased: ("payload",),
    ev.PolicyAdopted: ("policy",),
    ev.ApprovalRequested: ("details",),
}


class EnvelopeDraft(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """An envelope as far as events tell it; what is not said is the policy's to fill in."""

    message_id: str
    receiver: str
    receiver_type: str
    sender_type: str
    message_type: str
    version: str
    sent_at: int
    #: A priority of the version's vocabulary, where the sender named one.
    priority: str | None = None
    correlation_id: str | None = None
    delivery_class: DeliveryClass | None = None
    importance: int | None = None
    decay_rate: float | None = None
    metadata: bytes = b"{}"
    payload: bytes = b"{}"


class Step(msgspec.Struct, array_like=True, gc=False):
    """One command of history."""

    at: int
    agent: str
    role: str
    #: Name of the command.
    ask: str
    #: Its fields, by name, the envelope aside.
    body: dict[str, Any]
    #: Its envelope, where it has one.
    envelope: EnvelopeDraft | None = None
    #: Ids that the bus gave away in it, in order.
    ids: tuple[str, ...] = ()
    #: Events that it led to.
    events: int = 0
    #: Their fingerprint.
    digest: int = 0
    #: What it was a reaction to; a batch of receipts has one for each message.
    after: tuple[str, ...] = ()
    #: How long after, microseconds, one for each anchor.
    delay_us: tuple[int, ...] = ()
    #: Whether its agent did nothing else meanwhile: the delay counts from when the agent is free.
    serial: bool = False
    #: Of a heartbeat: whether the call could have drained, because nothing was waiting.
    polls: bool = False


class ConsumerAction(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One thing that a consumer does with a message: a receipt, an ACK, a NACK, or an answer."""

    #: `Confirm`, `Acknowledge`, `Reject`, `MarkProcessed`, or `Send` for an answer.
    ask: str
    #: Fields of the command, its message aside.
    body: dict[str, Any]
    delay_us: int
    serial: bool = False
    #: Of an answer: its message type.
    message_type: str = ""


class ConsumerModel(msgspec.Struct, frozen=True, array_like=True):
    """How a kind of consumer treats a kind of message: examples, each a list of moves."""

    #: Recipient, `team-*` for all of a scenario's team, or `*`.
    recipient: str
    #: Message type, or `*`.
    message_type: str
    examples: list[tuple[ConsumerAction, ...]]


class Poller(msgspec.Struct, frozen=True, array_like=True):
    """A session that calls again and again, as long as the window lasts."""

    agent: str
    role: str
    session: str
    #: Messages that it takes at a time; 0 where it only shows that it lives.
    limit: int
    first_at: int
    #: Time from when the agent is free to its next call, microseconds.
    gap_us: int


class Trace(msgspec.Struct, array_like=True):
    """One project's one window."""

    project: str
    #: The day, or the scenario's run.
    window: str
    begins_at: int
    ends_at: int
    #: The recorded state at its beginning, encoded; empty where the project begins here.
    snapshot: bytes
    #: The policy in force at its beginning; null where the project begins here.
    policy: Any
    steps: list[Step]
    #: What became of the messages, as recorded at the window's end.
    histories: list[MessageHistory]
    refused: list[RefusedSend]
    #: Events recorded.
    events: int
    consumers: list[ConsumerModel] = []
    pollers: list[Poller] = []
    #: Escalations that were opened, as recorded.
    escalations: int = 0
    #: How late the hub's clock came to what was due, microseconds: mostly, and at most.
    lag_us: int = 0
    lag_max_us: int = 0
    #: Whether there is history to be faithful to; a scenario has none.
    recorded: bool = True


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(Trace)
_COMMANDS: dict[str, Any] = {
    name: kind
    for name, kind in vars(cmd).items()
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct) and hasattr(kind, "__struct_fields__")
}
_FLOATS: dict[type, tuple[str, ...]] = {
    kind: tuple(name for name, hint in get_type_hints(kind).items() if hint in (float, float | None))
    for kind in EVENT_TYPES
}
_LEVEL = 3
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NOTHING = b"{}"


def offer_anchor(offer: int, signal: str) -> str:
    """Name the n-th offer of a message."""
    return f"o {offer} {signal}"


def envelope_of(envelope: EnvelopeDraft, sender: str) -> Envelope:
    """Return the envelope that a letter stands for."""
    qos = None
    extra = {} if envelope.metadata == _NOTHING else {"metadata": msgspec.Raw(envelope.metadata)}
    if envelope.delivery_class is not None or envelope.importance is not None or envelope.decay_rate is not None:
        qos = Qos(envelope.delivery_class, envelope.importance, envelope.decay_rate)
    return Envelope(
        version=envelope.version,
        message_id=envelope.message_id,
        timestamp=_EPOCH + timedelta(microseconds=envelope.sent_at),
        sender=AgentRef(sender, envelope.sender_type),
        receiver=AgentRef(envelope.receiver, envelope.receiver_type),
        message_type=envelope.message_type,
        payload=msgspec.Raw(envelope.payload),
        priority=envelope.priority,
        correlation_id=envelope.correlation_id,
        qos=qos,
        **extra,
    )


def command_of(step: Step) -> Command:
    """Return the command that a step stands for."""
    kind = _COMMANDS[step.ask]
    if step.envelope is None:
        command: Command = msgspec.convert(step.body, kind, builtin_types=(bytes,))
        return command
    sent: Command = kind(envelope=envelope_of(step.envelope, step.agent), **step.body)
    return sent


def fingerprint(events: Iterable[Event]) -> int:
    """Fingerprint events, content aside: segments do not carry it, and no decision depends on it."""
    return crc32(encode_events([_plain(event) for event in events]))


def _plain(event: Event) -> Event:
    """Return an event without content, and with numbers as they come back from a file: a whole float is a float."""
    changes: dict[str, Any] = {
        name: float(value) for name in _FLOATS[type(event)] if type(value := getattr(event, name)) is int
    }
    for name in _BLANK.get(type(event), ()):
        changes[name] = "" if name == "details" else b""
    return msgspec.structs.replace(event, **changes) if changes else event


def encoded(trace: Trace) -> bytes:
    """Write a trace down."""
    return zstd.compress(_ENCODER.encode(trace), _LEVEL)


def decoded(data: bytes) -> Trace:
    """Read a trace back."""
    return _DECODER.decode(zstd.decompress(data))


def save_trace(folder: Path, trace: Trace) -> Path:
    """Keep a trace in a folder, under a name that says what it is of and what is in it."""
    data = encoded(trace)
    project = re.sub(r"[^A-Za-z0-9_.-]", "_", trace.project)
    path = folder / f"{project}.{trace.window}.{trace_hash(data)}.trace"
    folder.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(f".{os.getpid()}")
    fresh.write_bytes(data)
    fresh.replace(path)
    return path


def load_trace(path: Path) -> Trace:
    """Read a trace that was kept."""
    return decoded(path.read_bytes())


def trace_hash(data: bytes) -> str:
    """Return a short name for a trace's content."""
    return hashlib.blake2b(data, digest_size=8).hexdigest()
