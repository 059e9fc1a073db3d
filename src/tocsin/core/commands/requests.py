"""Commands that send a request and cancel waiting for its answer, and their reply."""

from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from tocsin.core.commands.base import CommandBase, Duration, MessageRef
from tocsin.core.commands.messages import Receipt
from tocsin.core.protocol.envelope import Envelope

__all__ = ["CancelRequest", "ExtendRequest", "Requested", "SendRequest", "TimeoutExtended"]


class SendRequest(CommandBase, frozen=True):
    """Send a message to one agent and wait for the answer in its thread."""

    envelope: Envelope
    timeout_s: Annotated[
        Duration | None, Meta(description="Seconds to wait for the answer; the policy's default if absent.")
    ] = None
    boost_on_timeout: Annotated[
        bool, Meta(description="At the timeout, raise the message's priority and wait once more.")
    ] = False
    escalate: Annotated[
        bool, Meta(description="Escalate when no answer came; otherwise only the requester is notified.")
    ] = True


class CancelRequest(CommandBase, frozen=True):
    """Stop waiting for the answer to a request; the message itself is still delivered."""

    request: Annotated[MessageRef, Meta(description="messageId of the request.")]


class ExtendRequest(CommandBase, frozen=True):
    """Wait longer for the answer to a request."""

    request: Annotated[MessageRef, Meta(description="messageId of the request.")]
    timeout_s: Annotated[
        Duration | None, Meta(description="Seconds to wait from now on; the policy's default if absent.")
    ] = None


class Requested(msgspec.Struct, frozen=True):
    """A request that waits for its answer."""

    receipt: Receipt
    #: messageId of the request.
    request: str
    #: When it times out; null if it has ended already.
    due_at: datetime | None


class TimeoutExtended(msgspec.Struct, frozen=True):
    """The new timeout of a request."""

    #: messageId of the request.
    request: str
    #: When it times out.
    due_at: datetime
