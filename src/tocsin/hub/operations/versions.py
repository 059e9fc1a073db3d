"""Replies in the protocol version of their caller.

A caller that negotiated 1.0.0 sees the three priorities and the states of that version: in receipts, in the records of
messages, and in the results of acknowledgements. A recalled message has no state in 1.0.0 and keeps its own. Everything
that 1.0.0 does not know, such as the paths of delivery, is as in 1.1.0.
"""

from typing import Any

import msgspec

from tocsin.core import commands as cmd
from tocsin.core.messages.lifecycle import APM_STATES
from tocsin.core.messages.model import State
from tocsin.core.protocol.envelope import VERSIONS
from tocsin.core.protocol.priority import VOCABULARY, apm_name
from tocsin.core.state import ProjectState
from tocsin.wire.history import DeadLetterRecord, DeadLetterSummary, MessageHistory, MessageRecord, MessageSummary
from tocsin.wire.messages import SendReply, Settled
from tocsin.wire.operation import Page

__all__ = ["in_first_version", "speaks_first_version"]

_PRIORITIES = ("priority", "requested_priority", "level")
#: Structs of which each field may hold further records.
_HOLDERS = (Page, SendReply, cmd.BroadcastReceipt, cmd.Published, MessageHistory, DeadLetterRecord)
#: Structs with names of priorities or states.
_NAMED = (
    cmd.Receipt,
    cmd.Acknowledged,
    cmd.Rejected,
    Settled,
    MessageSummary,
    MessageRecord,
    DeadLetterSummary,
)


def speaks_first_version(state: ProjectState, agent: str) -> bool:
    """Tell whether an agent negotiated the first version of the protocol."""
    known = state.agents.get(agent)
    return known is not None and known.version == VERSIONS[0]


def in_first_version(reply: Any, state: ProjectState) -> Any:
    """Return a reply with the names of protocol version 1.0.0."""
    if isinstance(reply, list | tuple):
        return type(reply)([in_first_version(item, state) for item in reply])
    if isinstance(reply, _HOLDERS):
        changed = {
            name: in_first_version(value, state)
            for name in reply.__struct_fields__
            if isinstance(value := getattr(reply, name), msgspec.Struct | list | tuple)
        }
        return msgspec.structs.replace(reply, **changed)
    return _named(reply, state) if isinstance(reply, _NAMED) else reply


def _named(record: Any, state: ProjectState) -> Any:
    names = [name for name in _PRIORITIES if name in record.__struct_fields__]
    changed: dict[str, Any] = {name: apm_name(VOCABULARY[getattr(record, name)]) for name in names}
    if "state" in record.__struct_fields__:
        changed["state"] = _state(record, state)
    return msgspec.structs.replace(record, **changed)


def _state(record: Any, state: ProjectState) -> str:
    """Return the 1.0.0 name of a message's state: a delivered message that awaits an ACK is still in transit."""
    awaited, settled = APM_STATES[State(record.state)]
    return (awaited if _awaits_ack(record, state) else settled) or str(record.state)


def _awaits_ack(record: Any, state: ProjectState) -> bool:
    message_id, _, recipient = record.signal_id.partition(":")
    message = state.copy_for(getattr(record, "recipient", recipient), message_id) if message_id else None
    return message is not None and message.ack_required
