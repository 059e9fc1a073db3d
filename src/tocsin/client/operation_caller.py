"""Calls of the operations of the table, by name."""

import asyncio
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, TypeVar

import msgspec

from tocsin.client.connection.connection import Connection
from tocsin.core.errors import refusal
from tocsin.wire.drafts import Written
from tocsin.wire.operation import NamedPage
from tocsin.wire.signatures import arguments_body
from tocsin.wire.socket import Call
from tocsin.wire.table import OPERATIONS

__all__ = ["OperationCaller"]

Reply = TypeVar("Reply")
Item = TypeVar("Item")
#: Items that a page is asked for; a hub may send fewer.
_PAGE_SIZE = 500


class OperationCaller:
    """Calls operations for one agent."""

    def __init__(
        self, connection: Connection, timeout_s: float, sign: Callable[[bytes], str | None] = lambda body: None
    ) -> None:
        self._connection = connection
        self._timeout_s = timeout_s
        #: Signs a body; returns null without a signer.
        self._sign = sign

    async def call(
        self,
        operation: str,
        arguments: Mapping[str, Any],
        decoder: "msgspec.json.Decoder[Reply]",
        *,
        timeout_s: float | None = None,
        written: Written | None = None,
    ) -> Reply:
        """Call an operation and return its reply; a refusal is raised."""
        return await self.submit(operation, arguments, decoder, timeout_s=timeout_s, written=written)

    async def call_pages(
        self,
        operation: str,
        arguments: Mapping[str, Any],
        decoder: "msgspec.json.Decoder[NamedPage[Item]]",
        limit: int | None,
    ) -> list[Item]:
        """Call a list, page by page, and return its items, up to the limit."""
        items: list[Item] = []
        after = ""
        while True:
            size = _PAGE_SIZE if limit is None else min(_PAGE_SIZE, limit - len(items))
            page = await self.call(operation, {**arguments, "after": after, "limit": size}, decoder)
            items += page.items
            if page.next is None or (limit is not None and len(items) >= limit):
                return items
            after = page.next

    def submit(
        self,
        operation: str,
        arguments: Mapping[str, Any],
        decoder: "msgspec.json.Decoder[Reply]",
        *,
        timeout_s: float | None = None,
        written: Written | None = None,
    ) -> "asyncio.Future[Reply]":
        """Put the call of an operation on its way; the future holds the reply, or raises the refusal."""
        call = Call(id=0, operation=operation, arguments=_given(operation, arguments))
        if written is not None:
            call.envelope, call.signature = written.envelope, written.signature
        elif operation in OPERATIONS and OPERATIONS[operation].signed:
            call.signature = self._sign(arguments_body(call.arguments))
        reply: asyncio.Future[Reply] = self._connection.submit(call, decoder.decode, timeout_s or self._timeout_s)
        return reply


def _given(operation: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments that differ from their defaults, as JSON values.

    A default is left out, so that a hub that does not have a new argument yet accepts the call. The values are what a
    hub would decode, so that a wrong one is refused alike over every transport.
    """
    defaults = _defaults(operation)
    given = {name: value for name, value in arguments.items() if name not in defaults or defaults[name] != value}
    try:
        decoded: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(given))
    except (TypeError, ValueError, OverflowError, msgspec.MsgspecError) as error:
        detail = f"the arguments of {operation} cannot be written as JSON: {error}"
        raise refusal("E_VALIDATION_002", detail, field="$", expected="values that JSON can express") from None
    return decoded


@cache
def _defaults(operation: str) -> dict[str, Any]:
    row = OPERATIONS.get(operation)
    fields = () if row is None else msgspec.structs.fields(row.request)
    return {field.name: field.default for field in fields if field.default is not msgspec.NODEFAULT}
