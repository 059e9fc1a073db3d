"""Reading of request bodies, limited in size and time."""

import asyncio

from starlette.requests import ClientDisconnect, Request

from tocsin.core.errors import refusal

__all__ = ["BodyTimeout", "read_body"]


class BodyTimeout(Exception):
    """The body did not come in time, or its caller has gone."""


async def read_body(request: Request, bytes_max: int, timeout_s: float) -> bytes:
    """Read a body that is neither too large nor too slow; what is too large is not even read."""
    declared = request.headers.get("content-length", "0")
    if declared.isdecimal() and int(declared) > bytes_max:
        raise _too_large(declared, bytes_max)
    chunks: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(timeout_s):
            async for chunk in request.stream():
                size += len(chunk)
                if size > bytes_max:
                    raise _too_large(f"more than {bytes_max}", bytes_max)
                chunks.append(chunk)
    except (TimeoutError, ClientDisconnect):
        raise BodyTimeout from None
    return b"".join(chunks)


def _too_large(found: str, bytes_max: int) -> Exception:
    return refusal(
        "E_VALIDATION_005",
        f"the body has {found} bytes: at most {bytes_max} are taken",
        found=f"{found} bytes",
        expected=f"at most {bytes_max} bytes",
    )
