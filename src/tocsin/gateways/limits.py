"""Reading of request bodies, limited in size and time."""

import asyncio
from collections.abc import Callable
from typing import TypeAlias

from starlette.requests import ClientDisconnect, Request

from tocsin.core.errors import refusal
from tocsin.hub.config import ServerConfig

__all__ = ["TAKE_BODY", "BodyTimeout", "TakeBody", "read_body"]

#: Key of a scope under which a connection of the hub gives a body that has arrived completely.
TAKE_BODY = "tocsin.take_body"
#: Returns the body; null if more of it follows.
TakeBody: TypeAlias = Callable[[], bytes | None]


class BodyTimeout(Exception):
    """The body did not come in time, or its caller has gone."""


async def read_body(request: Request, bytes_max: int, config: ServerConfig) -> bytes:
    """Read a body that is neither too large nor too slow.

    What is too large is read on and discarded, up to a limit, before it is refused: a caller that is still sending when
    its connection is closed does not see the answer.
    """
    take: TakeBody | None = request.scope.get(TAKE_BODY)
    whole = None if take is None else take()
    if whole is not None:
        if len(whole) > bytes_max:
            raise _too_large(str(len(whole)), bytes_max)
        return whole
    chunks: list[bytes] = []
    size = 0
    declared = request.headers.get("content-length", "0")
    announced = int(declared) if declared.isdecimal() else 0
    if announced > bytes_max + config.discard_bytes_max:
        raise _too_large(str(announced), bytes_max)
    try:
        async with asyncio.timeout(config.body_timeout_s):
            more = True
            while more:
                message = await request.receive()
                if message["type"] == "http.disconnect":
                    raise ClientDisconnect
                chunk, more = message.get("body", b""), message.get("more_body", False)
                size += len(chunk)
                if size > bytes_max + config.discard_bytes_max:
                    break
                if max(size, announced) > bytes_max:
                    chunks.clear()
                else:
                    chunks.append(chunk)
    except (TimeoutError, ClientDisconnect):
        if size <= bytes_max:
            raise BodyTimeout from None
    if size > bytes_max:
        raise _too_large(str(announced) if announced > bytes_max else f"more than {bytes_max}", bytes_max)
    return b"".join(chunks)


def _too_large(found: str, bytes_max: int) -> Exception:
    return refusal(
        "E_VALIDATION_005",
        f"the body has {found} bytes: at most {bytes_max} are taken",
        found=f"{found} bytes",
        expected=f"at most {bytes_max} bytes",
    )
