"""The live feed: durable events as they happen, for dashboards, terminals and scripts.

It is a frame bus, and every watcher is a subscriber with a small channel. A watcher that is too slow misses frames,
sees that by the gap in the numbers, and delays nobody. A frame is one commit. Without a watcher nothing is published.
Missed frames are reported to the exchange, so that they are part of the history.
"""

import asyncio
import time

import msgspec

from tocsin.core.commands import SYSTEM, FrameTally, ReportShedding
from tocsin.core.errors import refusal
from tocsin.core.events import Event
from tocsin.frames import BusStats, Channel, FrameBus, FramesPolicy, Priority
from tocsin.hub.hosting.host import Host

__all__ = ["Feed", "FeedFrame"]


class FeedFrame(msgspec.Struct, frozen=True):
    """Events of one commit."""

    first_seq: int
    events: list[Event]


class Feed:
    """Publishes the commits of one project to watchers."""

    def __init__(self, host: Host, policy: FramesPolicy, *, watchers_max: int, frames_max: int) -> None:
        self._bus: FrameBus[FeedFrame] = FrameBus(policy)
        self._watchers_max = watchers_max
        self._frames_max = frames_max
        self._watchers = 0
        self._host = host
        self._report_interval_s = policy.report.interval_s
        self._report_due = 0.0
        self._reported = self._bus.stats()
        self._reported_at = _wall()
        self._stop = host.follow(self._publish)

    @property
    def watchers(self) -> int:
        """Return the number of watchers."""
        return self._watchers

    @property
    def published(self) -> int:
        """Return the number of published frames."""
        return self._bus.stats().published

    @property
    def missed(self) -> int:
        """Return the number of frames that the present watchers have missed."""
        return sum(each.dropped for each in self._bus.stats().subscribers.values())

    def stats(self) -> BusStats:
        """Return the numbers of frames offered, dropped and shed, by subscriber and by priority."""
        return self._bus.stats()

    def watch(self, name: str, priority: Priority = Priority.BEST_EFFORT) -> Channel[FeedFrame]:
        """Open a channel of frames under a name that no other watcher has."""
        if self._watchers >= self._watchers_max:
            detail = f"the feed has its limit of {self._watchers_max} watchers: try again later"
            raise refusal("E_ADMISSION_008", detail, retry_after_s=1.0)
        channel = self._bus.subscribe(name, priority=priority, capacity=self._frames_max)
        self._watchers += 1
        return channel

    def leave(self, name: str) -> int:
        """Close a watcher's channel; return the number of frames that it missed."""
        self._watchers -= 1
        return self._bus.unsubscribe(name).dropped

    def close(self) -> None:
        """Close every channel; frames in it can still be read."""
        self._stop()
        self._bus.close()

    def _publish(self, first_seq: int, events: list[Event]) -> None:
        if self._watchers:
            self._bus.publish(FeedFrame(first_seq, events))
            if time.monotonic() >= self._report_due:
                asyncio.get_running_loop().call_soon(self._report)

    def _report(self) -> None:
        """Report the frames missed since the last report, together with those that arrived; skip an empty report.

        A report is a commit and therefore a frame: without the check an idle feed would keep reporting its own reports.
        """
        self._report_due = time.monotonic() + self._report_interval_s
        stats, before = self._bus.stats(), self._reported
        since = {priority: stats.priorities[priority] - before.priorities[priority] for priority in Priority}
        if not any(tally.dropped for tally in since.values()):
            return
        tallies = {
            priority.name.lower(): FrameTally(tally.offered, tally.dropped, tally.shed)
            for priority, tally in since.items()
        }
        self._host.submit(ReportShedding(self._reported_at, stats.published - before.published, tallies), SYSTEM)
        self._reported, self._reported_at = stats, _wall()


def _wall() -> int:
    return time.time_ns() // 1000
