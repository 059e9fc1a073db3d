"""Commands of recorded steps, as the exchange takes them."""

from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec

from tocsin.core import commands as cmd
from tocsin.core.commands import Command
from tocsin.core.protocol.envelope import NO_METADATA, AgentRef, Envelope, Qos
from tocsin.lab.traces.trace import EnvelopeDraft, Step

__all__ = ["command_of"]

_COMMANDS: Final[dict[str, Any]] = {
    name: kind
    for name, kind in vars(cmd).items()
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct) and hasattr(kind, "__struct_fields__")
}
#: Commands with fields that a trace keeps as they are: nothing has to be converted.
_PLAIN: Final = frozenset({"Acknowledge", "CloseSession", "Drain", "Heartbeat", "MarkProcessed", "Recall", "Reject"})
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NOTHING: Final = b"{}"
_EMPTY: Final = msgspec.Raw(_NOTHING)


def command_of(step: Step) -> Command:
    """Return the command of a step."""
    ask, body, envelope = step.ask, step.body, step.envelope
    if envelope is not None:
        sent = _envelope_of(envelope, step.agent)
        if ask == "Send" and not body:
            return cmd.Send(sent)
        kind = _COMMANDS[ask]
        other: Command = kind(envelope=sent, **body)
        return other
    if ask == "Confirm" and len(body) == 1 and "message_ids" in body:
        return cmd.Confirm(tuple(body["message_ids"]))
    kind = _COMMANDS[ask]
    command: Command = kind(**body) if ask in _PLAIN else msgspec.convert(body, kind, builtin_types=(bytes,))
    return command


def _envelope_of(draft: EnvelopeDraft, sender: str) -> Envelope:
    """Return the envelope of a draft."""
    qos = None
    if draft.delivery_class is not None or draft.importance is not None or draft.decay_rate is not None:
        qos = Qos(draft.delivery_class, draft.importance, draft.decay_rate)
    return Envelope(
        draft.version,
        draft.message_id,
        _EPOCH + timedelta(0, 0, draft.sent_at),
        AgentRef(sender, draft.sender_type),
        AgentRef(draft.receiver, draft.receiver_type),
        draft.message_type,
        _EMPTY if draft.payload == _NOTHING else msgspec.Raw(draft.payload),
        draft.priority,
        draft.correlation_id,
        NO_METADATA if draft.metadata == _NOTHING else msgspec.Raw(draft.metadata),
        qos,
    )
