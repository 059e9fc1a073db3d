"""The live feed: what has become durable, as it happens, for whoever watches: a dashboard, a terminal, a script.

It is a frame bus, and everyone who watches is a subscriber with a small channel: one that is too slow misses frames and
sees it by the gap in the numbers, and nobody waits for it. A frame is one commit. Without a watcher nothing is done.
What watchers missed is written down, so that history knows whom the feed failed.
"""

import asyncio
import time

import msgspec

from tocsin.core.commands import SYSTEM, FrameTally, ReportShedding
from tocsin.core.errors import refusal
from tocsin.core.events import Event
from tocsin.frames import BusStats, Channel, FrameBus, FramesPolicy, Priority
from tocsin.hub.host import Host

__all__ = ["Feed", "FeedFrame"]


class FeedFrame(msgspec.Struct, frozen=True):
    """What one commit made durable."""

    first_seq: int
    events: list[Event]


class Feed:
    """The commits of one project, handed out."""

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
        """Return how many watch."""
        return self._watchers

    @property
    def published(self) -> int:
        """Return how many frames there have been."""
        return self._bus.stats().published

    @property
    def missed(self) -> int:
        """Return how many frames those who watch now have missed."""
        return sum(each.dropped for each in self._bus.stats().subscribers.values())

    def stats(self) -> BusStats:
        """Return what was offered, dropped and shed, by subscriber and by priority."""
        return self._bus.stats()

    def watch(self, name: str, priority: Priority = Priority.BEST_EFFORT) -> Channel[FeedFrame]:
        """Open a channel of frames under a name that nobody else watches by."""
        if self._watchers >= self._watchers_max:
            detail = f"{self._watchers_max} watch the feed already"
            raise refusal("E_ADMISSION_008", detail, retry_after_s=1.0)
        channel = self._bus.subscribe(name, priority=priority, capacity=self._frames_max)
        self._watchers += 1
        return channel

    def leave(self, name: str) -> int:
        """Watch no longer; return how many frames were missed."""
        self._watchers -= 1
        return self._bus.unsubscribe(name).dropped

    def close(self) -> None:
        """End every channel, after what is in it."""
        self._stop()
        self._bus.close()

    def _publish(self, first_seq: int, events: list[Event]) -> None:
        if self._watchers:
            self._bus.publish(FeedFrame(first_seq, events))
            if time.monotonic() >= self._report_due:
                asyncio.get_running_loop().call_soon(self._report)

    def _report(self) -> None:
        """Write down what was missed since the last report, with all that arrived meanwhile; nothing if nothing was.

        A report is a commit, and so a frame: without this a quiet feed would go on reporting its own reports.
        """
        self._report_due = time.monotonic() + self._report_interval_s
        stats, before = self._bus.stats(), self._reported
        news = {priority: stats.priorities[priority] - before.priorities[priority] for priority in Priority}
        if not any(tally.dropped for tally in news.values()):
            return
        tallies = {
            priority.name.lower(): FrameTally(tally.offered, tally.dropped, tally.shed)
            for priority, tally in news.items()
        }
        self._host.submit(ReportShedding(self._reported_at, stats.published - before.published, tallies), SYSTEM)
        self._reported, self._reported_at = stats, _wall()


def _wall() -> int:
    return time.time_ns() // 1000
