"""Limits of one HTTP request: size and time of its body, and concurrent requests."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from starlette.requests import ClientDisconnect, Request

from tocsin.core.errors import refusal

__all__ = ["BodyTimeout", "RequestsUnderWay", "read_body"]


class BodyTimeout(Exception):
    """The body did not arrive in time, or the caller has disconnected."""


async def read_body(request: Request, bytes_max: int, timeout_s: float) -> bytes:
    """Read a body within its limits of size and time; a declared size above the limit is refused unread."""
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
        f"the body has {found} bytes: at most {bytes_max} are allowed",
        found=f"{found} bytes",
        expected=f"at most {bytes_max} bytes",
    )


class RequestsUnderWay:
    """Counts concurrent requests, in total and per agent."""

    def __init__(self, in_all_max: int, per_agent_max: int) -> None:
        self._in_all_max = in_all_max
        self._per_agent_max = per_agent_max
        self._by_agent: Counter[str] = Counter()

    @contextmanager
    def one_of(self, agent: str) -> Iterator[None]:
        """Count a request while it runs, or refuse it."""
        if self._by_agent[agent] >= self._per_agent_max:
            detail = f"{agent} has its limit of {self._per_agent_max} concurrent requests"
            raise refusal("E_ADMISSION_008", detail, retry_after_s=1.0)
        if self._by_agent.total() >= self._in_all_max:
            raise refusal(
                "E_ADMISSION_008", f"the hub has its limit of {self._in_all_max} concurrent requests", retry_after_s=1.0
            )
        self._by_agent[agent] += 1
        try:
            yield
        finally:
            self._by_agent[agent] -= 1
            if not self._by_agent[agent]:
                del self._by_agent[agent]
