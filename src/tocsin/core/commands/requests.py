"""Asking and waiting for the answer, and what comes back."""

import msgspec

from tocsin.core.commands.base import CommandBase
from tocsin.core.commands.messages import Receipt
from tocsin.core.protocol.envelope import Envelope

__all__ = ["CancelRequest", "Requested", "SendRequest"]


class SendRequest(CommandBase, frozen=True):
    """Send an envelope to one agent and wait for the answer in its thread."""

    envelope: Envelope
    #: Seconds to wait; the policy's where it is not said.
    timeout_s: float | None = None
    #: Whether the message is raised, and given the same time again, when the time is over.
    boost_on_timeout: bool = False
    #: Whether the end of the time is escalated; otherwise only the requester is told.
    escalate: bool = True


class CancelRequest(CommandBase, frozen=True):
    """Wait no longer; the message itself goes its way."""

    request: str


class Requested(msgspec.Struct, frozen=True):
    """The request is under way."""

    receipt: Receipt
    request: str
    #: When the time is over; null where the request has ended already.
    due_at: int | None
