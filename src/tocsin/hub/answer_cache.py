"""Answers that serve everybody who asks the same within a while.

Ten people who look at the same list ask ten times for it. Reading it takes the interpreter from whoever decides, so it
is read once, and those who ask meanwhile are given the same answer.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

__all__ = ["Shared"]

Answer = TypeVar("Answer")


class Shared:
    """The latest answers, by question."""

    def __init__(self) -> None:
        self._latest: dict[str, tuple[float, asyncio.Future[Any]]] = {}

    async def ask(self, question: str, age_s: float, find: Callable[[], Awaitable[Answer]]) -> Answer:
        """Return the answer to a question, found out now or at most so many seconds ago; failures are not kept."""
        now = asyncio.get_running_loop().time()
        asked_at, finding = self._latest.get(question, (0.0, None))
        if finding is None or (now - asked_at >= age_s and finding.done()) or _has_failed(finding):
            finding = asyncio.ensure_future(find())
            self._latest[question] = now, finding
        answer: Answer = await asyncio.shield(finding)
        return answer


def _has_failed(finding: "asyncio.Future[Any]") -> bool:
    return finding.done() and (finding.cancelled() or finding.exception() is not None)
