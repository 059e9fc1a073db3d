"""From an operation to a command, and from a reply to what is answered: one line for each."""

from collections.abc import Callable
from typing import Any

import msgspec

from tocsin.core import commands as cmd
from tocsin.core.errors import refusal
from tocsin.core.protocol.envelope import parse_envelope
from tocsin.gateways.http.app import OPERATIONS
from tocsin.gateways.http.messages import send_view
from tocsin.gateways.http.operation import Access
from tocsin.gateways.http.operation import Operation as HttpOperation
from tocsin.gateways.http.views import ReceiptView, receipt_view
from tocsin.gateways.websocket import protocol as wire
from tocsin.hub.auth.signatures import check_signature
from tocsin.hub.auth.tokens import Grant
from tocsin.hub.service import Hub

__all__ = ["CALLABLE", "COMMANDS", "VIEWS", "callable_operation"]

#: What a socket has operations of its own for.
_OWN = {"send", "send_batch", "drain", "confirm", "acknowledge", "reject", "mark_processed", "recall"}
#: What only HTTP can answer.
_TEXT = {"describe", "metrics"}

#: The operations of the HTTP gateway that can be called over a socket, by name.
CALLABLE: dict[str, HttpOperation] = {
    operation.name: operation
    for operation in OPERATIONS
    if operation.access is not Access.OPEN and operation.name not in _OWN | _TEXT
}


def callable_operation(name: str) -> HttpOperation:
    """Find an operation of the HTTP gateway, or refuse."""
    operation = CALLABLE.get(name)
    if operation is None:
        known = "one of " + ", ".join(CALLABLE)
        raise refusal(
            "E_VALIDATION_003",
            f"{name[:64]!r} cannot be called over a socket",
            field="$.operation",
            found=name[:64],
            expected=known,
        )
    return operation


def _send(operation: wire.Send, hub: Hub, grant: Grant) -> cmd.Command:
    raw = bytes(operation.envelope)
    required = hub.host.exchange.state.policy.security.require_signatures
    if operation.signature is not None or required:
        check_signature(grant, raw, operation.signature, required=required)
    return cmd.Send(parse_envelope(raw, hub.host.exchange.state.policy.limits.message_bytes_max))


def _confirm(operation: wire.Confirm, hub: Hub, grant: Grant) -> cmd.Command:
    return cmd.Confirm(operation.message_ids)


def _ack(operation: wire.Ack, hub: Hub, grant: Grant) -> cmd.Command:
    return cmd.Acknowledge(operation.message_id, operation.status, operation.notes)


def _nack(operation: wire.Nack, hub: Hub, grant: Grant) -> cmd.Command:
    return cmd.Reject(
        operation.message_id, operation.reason, operation.code, operation.can_retry, operation.suggested_fix
    )


def _processed(operation: wire.Processed, hub: Hub, grant: Grant) -> cmd.Command:
    return cmd.MarkProcessed(operation.message_id)


def _recall(operation: wire.Recall, hub: Hub, grant: Grant) -> cmd.Command:
    return cmd.Recall(operation.message_id)


#: The operations that are one command each and need no session.
COMMANDS: dict[type, Callable[[Any, Hub, Grant], cmd.Command]] = {
    wire.Send: _send,
    wire.Confirm: _confirm,
    wire.Ack: _ack,
    wire.Nack: _nack,
    wire.Processed: _processed,
    wire.Recall: _recall,
}


class _Received(msgspec.Struct, frozen=True, gc=False):
    """`SendView` of a message to one recipient: the same JSON, without making what is left out of it."""

    receipt: ReceiptView


def _sent_view(reply: cmd.Reply) -> Any:
    return _Received(receipt_view(reply)) if type(reply) is cmd.Receipt else send_view(reply)


#: How replies are written down, where not as they are.
VIEWS: dict[type, Callable[[Any], Any]] = {wire.Send: _sent_view}
