"""Operations of a socket that are one command each, and the lookup of operations that are called by name."""

from collections.abc import Callable
from typing import Any

import msgspec

from tocsin.core import commands as cmd
from tocsin.core.errors import refusal
from tocsin.core.protocol.parsing import parse_envelope
from tocsin.hub.auth.signatures import check_signature
from tocsin.hub.auth.tokens import Grant
from tocsin.hub.service import Hub
from tocsin.wire import socket as wire
from tocsin.wire.messages import SendMessages, SendReply
from tocsin.wire.operation import Operation
from tocsin.wire.table import OPERATIONS, unknown_operation

__all__ = ["CALLABLE", "COMMANDS", "VIEWS", "find_operation"]

#: Operations that `call` accepts, by name. A batch is a frame of several `send_message`.
CALLABLE = {name: operation for name, operation in OPERATIONS.items() if operation.request is not SendMessages}


def find_operation(name: str) -> Operation:
    """Return an operation that can be called by name, or refuse."""
    operation = CALLABLE.get(name)
    if operation is not None:
        return operation
    if name in OPERATIONS:
        expected = "several send_message operations in one frame"
        detail = f"{name} is not available over a socket; use {expected}"
        raise refusal("E_VALIDATION_003", detail, field="$.operation", found=name, expected=expected)
    raise unknown_operation(name)


def _send(operation: wire.Send, hub: Hub, grant: Grant) -> cmd.Command:
    raw = bytes(operation.envelope)
    policy = hub.host.exchange.state.policy
    required = policy.security.require_signatures
    if operation.signature is not None or required:
        check_signature(grant, raw, operation.signature, required=required)
    return cmd.Send(parse_envelope(raw, policy.limits.message_bytes_max))


def _confirm(operation: wire.Confirm, hub: Hub, grant: Grant) -> cmd.Command:
    return cmd.Confirm(operation.message_ids)


def _acknowledge(operation: wire.Acknowledge, hub: Hub, grant: Grant) -> cmd.Command:
    return cmd.Acknowledge(operation.message_id, operation.status, operation.notes)


def _reject(operation: wire.Reject, hub: Hub, grant: Grant) -> cmd.Command:
    return cmd.Reject(
        operation.message_id, operation.reason, operation.code, operation.can_retry, operation.suggested_fix
    )


def _mark_processed(operation: wire.MarkProcessed, hub: Hub, grant: Grant) -> cmd.Command:
    return cmd.MarkProcessed(operation.message_id)


def _recall(operation: wire.Recall, hub: Hub, grant: Grant) -> cmd.Command:
    return cmd.Recall(operation.message_id)


#: The operations that are one command each and need no session.
COMMANDS: dict[type, Callable[[Any, Hub, Grant], cmd.Command]] = {
    wire.Send: _send,
    wire.Confirm: _confirm,
    wire.Acknowledge: _acknowledge,
    wire.Reject: _reject,
    wire.MarkProcessed: _mark_processed,
    wire.Recall: _recall,
}


class _OneReceipt(msgspec.Struct, frozen=True, gc=False):
    """A `SendReply` with one receipt: encodes to the same JSON with fewer fields to check."""

    receipt: cmd.Receipt


def _sent(reply: cmd.Reply) -> Any:
    return _OneReceipt(reply) if type(reply) is cmd.Receipt else SendReply.of(reply)


#: Conversions of replies that differ from the reply of the command.
VIEWS: dict[type, Callable[[Any], Any]] = {wire.Send: _sent}
