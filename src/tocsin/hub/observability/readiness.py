"""Readiness of a hub: whether a commit has just worked.

A condition in memory says nothing about a database that hangs. So readiness is measured: a commit that ended a moment
ago proves it, and without one the hub makes a commit that holds no events. All callers share that commit.
"""

import asyncio

import msgspec

from tocsin.hub.config import ReadinessConfig
from tocsin.hub.hosting.host import Condition, Host

__all__ = ["Readiness", "ReadinessReport"]


class ReadinessReport(msgspec.Struct, frozen=True):
    """Result of a check."""

    ready: bool
    #: `serving`, `stalled`, `recovering` or `stopped`; `opening`, `standing_by` or `not_ready` if it is not open here.
    condition: str
    #: Why it is not ready; empty if it is.
    reason: str = ""


class Readiness:
    """Checks whether a hub can commit."""

    def __init__(self, host: Host, closing: asyncio.Event, config: ReadinessConfig) -> None:
        self._host = host
        self._closing = closing
        self._config = config

    async def check(self) -> ReadinessReport:
        """Report whether a commit has just worked, making one where none was made."""
        host = self._host
        if self._closing.is_set():
            return ReadinessReport(ready=False, condition=host.condition, reason="the hub is shutting down")
        if host.condition is Condition.SERVING and self._commit_age_s() > self._config.fresh_s:
            # A commit that takes too long goes on: it is shared, and its own time limit ends it.
            await asyncio.wait([host.probe()], timeout=self._config.timeout_s)
        if host.condition is not Condition.SERVING:
            return ReadinessReport(ready=False, condition=host.condition, reason=host.reason)
        age_s = self._commit_age_s()
        if age_s > max(self._config.fresh_s, self._config.timeout_s):
            return ReadinessReport(ready=False, condition="stalled", reason=f"no commit has ended for {age_s:.1f} s")
        return ReadinessReport(ready=True, condition=Condition.SERVING)

    def _commit_age_s(self) -> float:
        return asyncio.get_running_loop().time() - self._host.committed_at
