"""Health measurement: durations measured while the hub serves, reported to the exchange as percentiles."""

import asyncio

from tocsin.core import events as ev
from tocsin.core.commands import SYSTEM, ReportHealth
from tocsin.core.events import Event
from tocsin.core.policy import microseconds
from tocsin.core.protocol.priority import Priority
from tocsin.hub.clock import Clock
from tocsin.hub.hosting.host import Condition, Host
from tocsin.hub.observability.durations import Durations

__all__ = ["HealthWatch"]

_DELIVERIES = {int(Priority.CRITICAL): "critical_delivery_s", int(Priority.BLOCKING): "blocking_delivery_s"}


class HealthWatch:
    """Measures durations, and reports their percentiles at an interval."""

    def __init__(self, host: Host, interval_s: float, window_s: float) -> None:
        self._host, self._interval_s = host, interval_s
        self._window_us = microseconds(window_s)
        self._clock = Clock()
        self._routings = Durations(self._window_us)
        self._durations: dict[str, Durations] = {"message_routing_p99_s": self._routings}
        self._handle: asyncio.TimerHandle | None = None
        #: Values of the last report, by metric.
        self.latest: dict[str, float] = {}
        host.timing = self._routed

    def start(self) -> None:
        """Start reporting."""
        self._handle = asyncio.get_running_loop().call_later(self._interval_s, self._report)

    def close(self) -> None:
        """Stop reporting."""
        self._host.timing = None
        if self._handle is not None:
            self._handle.cancel()

    def follow(self, first_seq: int, events: list[Event]) -> None:
        """Measure the time from decision to durability, for events that have a limit."""
        now = self._clock.now()
        for event in events:
            if type(event) is ev.MessageOffered:
                metric = _DELIVERIES.get(event.level) if event.pushed else None
            elif type(event) is ev.EscalationOpened:
                metric = "escalation_latency_s"
            elif type(event) is ev.DeadlockFound:
                metric = "deadlock_resolution_s"
            else:
                continue
            if metric is not None:
                self._take(metric, max(0, now - event.at) / 1_000_000, now)

    def values(self) -> dict[str, float]:
        """Return the 99th percentile of each metric over the window."""
        now = self._clock.now()
        return {metric: durations.percentile(0.99, now) for metric, durations in self._durations.items()}

    def _routed(self, duration_s: float) -> None:
        self._routings.take(duration_s, self._clock.now())

    def _take(self, metric: str, duration_s: float, now: int) -> None:
        durations = self._durations.get(metric)
        if durations is None:
            durations = self._durations[metric] = Durations(self._window_us)
        durations.take(duration_s, now)

    def _report(self) -> None:
        host = self._host
        if host.condition is Condition.SERVING:
            limits = host.exchange.state.policy.health.limits
            self.latest = values = {metric: value for metric, value in self.values().items() if metric in limits}
            host.submit(ReportHealth(values), SYSTEM)
        self.start()
