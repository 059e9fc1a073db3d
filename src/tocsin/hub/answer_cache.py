"""Cache of answers that are shared by callers with the same question.

Ten people who look at the same list request it ten times. Reading it takes time from the thread that decides, so it is
read once, and the other callers get the same answer.
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
        """Return the answer to a question, computed now or at most `age_s` ago; failures are not cached."""
        now = asyncio.get_running_loop().time()
        asked_at, finding = self._latest.get(question, (0.0, None))
        if finding is None or (now - asked_at >= age_s and finding.done()) or _has_failed(finding):
            finding = asyncio.ensure_future(find())
            self._latest[question] = now, finding
        answer: Answer = await asyncio.shield(finding)
        return answer


def _has_failed(finding: "asyncio.Future[Any]") -> bool:
    return finding.done() and (finding.cancelled() or finding.exception() is not None)
