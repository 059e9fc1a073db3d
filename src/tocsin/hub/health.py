"""How the hub is doing: durations taken while it serves, reported to the exchange as percentiles over a while."""

import asyncio
from collections import deque

from tocsin.core import events as ev
from tocsin.core.commands import SYSTEM, ReportHealth
from tocsin.core.events import Event
from tocsin.core.policy import microseconds
from tocsin.core.priority import Priority
from tocsin.hub.clock import Clock
from tocsin.hub.host import Condition, Host

__all__ = ["HealthWatch", "percentile"]

_DELIVERIES = {int(Priority.CRITICAL): "critical_delivery_s", int(Priority.BLOCKING): "blocking_delivery_s"}


def percentile(values: list[float], share: float) -> float:
    """Return the value that a share of all values do not exceed; nothing measured is nothing wrong."""
    if not values:
        return 0.0
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


class HealthWatch:
    """Takes durations, and reports them."""

    def __init__(self, host: Host, interval_s: float, window_s: float, samples_max: int) -> None:
        self._host, self._interval_s = host, interval_s
        self._window_us, self._samples_max = microseconds(window_s), samples_max
        self._clock = Clock()
        self._samples: dict[str, deque[tuple[int, float]]] = {}
        self._handle: asyncio.TimerHandle | None = None
        #: What was reported last, by metric.
        self.latest: dict[str, float] = {}
        host.timing = self._routed

    def start(self) -> None:
        """Begin to report."""
        self._handle = asyncio.get_running_loop().call_later(self._interval_s, self._report)

    def close(self) -> None:
        """Report no more."""
        self._host.timing = None
        if self._handle is not None:
            self._handle.cancel()

    def follow(self, first_seq: int, events: list[Event]) -> None:
        """Take how long it was from deciding to durable, of what must be quick."""
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
        since = self._clock.now() - self._window_us
        for samples in self._samples.values():
            while samples and samples[0][0] < since:
                samples.popleft()
        return {
            metric: percentile([duration for _, duration in samples], 0.99) for metric, samples in self._samples.items()
        }

    def _routed(self, duration_s: float) -> None:
        self._take("message_routing_p99_s", duration_s, self._clock.now())

    def _take(self, metric: str, duration_s: float, now: int) -> None:
        self._samples.setdefault(metric, deque(maxlen=self._samples_max)).append((now, duration_s))

    def _report(self) -> None:
        host = self._host
        if host.condition is Condition.SERVING:
            limits = host.exchange.state.policy.health.limits
            self.latest = values = {metric: value for metric, value in self.values().items() if metric in limits}
            host.submit(ReportHealth(values), SYSTEM)
        self.start()
