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
from collections.abc import Iterable
from pathlib import Path
from typing import Any, get_type_hints
from zlib import crc32

import msgspec

from tocsin import zstd
from tocsin.core import events as ev
from tocsin.core.events import EVENT_TYPES, Event, encode_events
from tocsin.core.protocol.contracts import DeliveryClass
from tocsin.lab.traces.message_history import MessageHistory, RefusedSend

__all__ = [
    "APPLY",
    "TICK",
    "ConsumerAction",
    "ConsumerModel",
    "EnvelopeDraft",
    "Poller",
    "Step",
    "Trace",
    "decoded",
    "encoded",
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


class EnvelopeDraft(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """An envelope as far as it is known from events; unset fields are filled in by the policy."""

    message_id: str
    receiver: str
    receiver_type: str
    sender_type: str
    message_type: str
    version: str
    sent_at: int
    #: Name of a priority in the version's vocabulary, if the sender named one.
    priority: str | None = None
    correlation_id: str | None = None
    delivery_class: DeliveryClass | None = None
    importance: int | None = None
    decay_rate: float | None = None
    metadata: bytes = b"{}"
    payload: bytes = b"{}"


class Step(msgspec.Struct, array_like=True, gc=False):
    """One recorded command."""

    at: int
    agent: str
    role: str
    #: Name of the command.
    ask: str
    #: Its fields by name, without the envelope.
    body: dict[str, Any]
    #: Its envelope, if it has one.
    envelope: EnvelopeDraft | None = None
    #: Ids that the bus issued in it, in order.
    ids: tuple[str, ...] = ()
    #: Number of its events.
    events: int = 0
    #: Fingerprint of its events.
    digest: int = 0
    #: Anchors; a batch of receipts has one per message.
    after: tuple[str, ...] = ()
    #: Delay after each anchor, microseconds.
    delay_us: tuple[int, ...] = ()
    #: Whether its agent did nothing else meanwhile; the delay then counts from when the agent is free.
    serial: bool = False
    #: Of a heartbeat: whether the call may have been a drain, because nothing was waiting.
    polls: bool = False


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
    #: Recorded histories of the messages at the end of the window.
    histories: list[MessageHistory]
    refused: list[RefusedSend]
    #: Number of recorded events.
    events: int
    consumers: list[ConsumerModel] = []
    pollers: list[Poller] = []
    #: Number of escalations opened, as recorded.
    escalations: int = 0
    #: Median delay of the hub's clock after a timer was due, microseconds.
    lag_us: int = 0
    #: Longest delay of the hub's clock, microseconds.
    lag_max_us: int = 0
    #: Whether it was recorded; a scenario's trace is not.
    recorded: bool = True


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(Trace)
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


def encoded(trace: Trace) -> bytes:
    """Encode a trace."""
    return zstd.compress(_ENCODER.encode(trace), _LEVEL)


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
