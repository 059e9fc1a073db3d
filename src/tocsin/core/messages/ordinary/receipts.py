"""Ordinary receipts and acknowledgements: each settles a present offer; what follows from it is decided in full."""

from typing import Final

from tocsin.core import events as ev
from tocsin.core.commands import Acknowledge, Caller
from tocsin.core.messages.endings.retention import is_over_limits
from tocsin.core.messages.message import Message
from tocsin.core.messages.model import State
from tocsin.core.queueing.queue_manager import is_steady
from tocsin.core.state import ProjectState

__all__ = ["decide_acknowledge", "decide_confirm", "has_consequences"]

_OFFERED: Final = State.OFFERED
_DELIVERED: Final = State.DELIVERED
_Delivered: Final = ev.MessageDelivered
_Acknowledged: Final = ev.MessageAcknowledged

#: Receipt and ACK of a message, without the receipt if that came before.
Acked = tuple[ev.MessageDelivered | None, ev.MessageAcknowledged]


def decide_confirm(state: ProjectState, caller: Caller, message_id: str, now: int) -> ev.MessageDelivered | None:
    """Return the event of an ordinary receipt; null if it has to be decided in full."""
    message = _own(state, caller, message_id)
    if message is None or message.state is not _OFFERED:
        return None
    return _Delivered(now, message.seq, "receipt")


def decide_acknowledge(state: ProjectState, caller: Caller, command: Acknowledge, now: int) -> Acked | None:
    """Return the events of an ordinary acknowledgement; null if it has to be decided in full."""
    status = command.status
    if (status != "received" and status != "queued") or command.notes:
        return None
    message = _own(state, caller, command.message_id)
    if message is None or not message.ack_required:
        return None
    at, seq = message.state, message.seq
    received: ev.MessageDelivered | None = None
    if at is _OFFERED:
        received = _Delivered(now, seq, "ack")
    elif at is not _DELIVERED:
        return None
    waited_us = now - (message.offered_at or message.delivered_at)
    return received, _Acknowledged(now, seq, status, waited_us if waited_us > 0 else 0, "")


def _own(state: ProjectState, caller: Caller, message_id: str) -> Message | None:
    """Return a message to the caller alone, by messageId; null if there is none or the caller is not who it was."""
    seq = state.ids.get(message_id)
    message: Message | None = None if seq is None else state.messages.get(seq)
    name = caller.agent
    if message is None or message.recipient != name:
        return None
    agent = state.agents.get(name)
    return message if agent is not None and agent.role == caller.role else None


def has_consequences(state: ProjectState, agent: str, now: int) -> bool:
    """Tell whether anything may follow from a receipt or ACK just applied.

    That is an offer, another decay rate, a notice that counts others, or forgetting.
    """
    if state.agents[agent].mailbox.depth or state.folded:
        return True
    return not is_steady(state, now) or is_over_limits(state)
