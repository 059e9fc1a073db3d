"""Limits on the requests that are in progress, in all and for each agent."""

from tocsin.core.errors import refusal

__all__ = ["RequestLimits"]


class RequestLimits:
    """Counts requests in progress and refuses more than the limits allow."""

    def __init__(self, total_max: int, per_agent_max: int) -> None:
        self._total_max = total_max
        self._per_agent_max = per_agent_max
        self._total = 0
        self._by_agent: dict[str, int] = {}

    def one_of(self, agent: str) -> "_InProgress":
        """Count a request of an agent while it is in progress, or refuse it."""
        return _InProgress(self, agent)

    def begin(self, agent: str) -> None:
        """Count a request, or refuse it."""
        of_agent = self._by_agent.get(agent, 0)
        if of_agent >= self._per_agent_max:
            detail = f"{agent} has {self._per_agent_max} requests in progress"
            raise refusal("E_ADMISSION_008", detail, retry_after_s=1.0)
        if self._total >= self._total_max:
            raise refusal("E_ADMISSION_008", f"the hub has {self._total_max} requests in progress", retry_after_s=1.0)
        self._by_agent[agent] = of_agent + 1
        self._total += 1

    def end(self, agent: str) -> None:
        """Count a request that was begun as ended."""
        self._total -= 1
        of_agent = self._by_agent[agent] - 1
        if of_agent:
            self._by_agent[agent] = of_agent
        else:
            del self._by_agent[agent]


class _InProgress:
    """One request in progress."""

    __slots__ = ("_agent", "_limits")

    def __init__(self, limits: RequestLimits, agent: str) -> None:
        self._limits = limits
        self._agent = agent

    def __enter__(self) -> None:
        self._limits.begin(self._agent)

    def __exit__(self, *_: object) -> None:
        self._limits.end(self._agent)
