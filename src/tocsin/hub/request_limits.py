"""Limits on the requests that are in progress, in all and for each agent."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from tocsin.core.errors import refusal

__all__ = ["RequestLimits"]


class RequestLimits:
    """Counts requests in progress and refuses more than the limits allow."""

    def __init__(self, total_max: int, per_agent_max: int) -> None:
        self._total_max = total_max
        self._per_agent_max = per_agent_max
        self._by_agent: Counter[str] = Counter()

    @contextmanager
    def one_of(self, agent: str) -> Iterator[None]:
        """Count a request of an agent while it is in progress, or refuse it."""
        if self._by_agent[agent] >= self._per_agent_max:
            detail = f"{agent} has {self._per_agent_max} requests in progress"
            raise refusal("E_ADMISSION_008", detail, retry_after_s=1.0)
        if self._by_agent.total() >= self._total_max:
            raise refusal("E_ADMISSION_008", f"the hub has {self._total_max} requests in progress", retry_after_s=1.0)
        self._by_agent[agent] += 1
        try:
            yield
        finally:
            self._by_agent[agent] -= 1
            if not self._by_agent[agent]:
                del self._by_agent[agent]
