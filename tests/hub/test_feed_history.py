"""What those who watch the feed miss is history."""

import asyncio
from pathlib import Path

import msgspec

from tests.hub.hosting.test_host import ADA, hosted, message
from tocsin.core import events as ev
from tocsin.frames import FramesPolicy, Priority
from tocsin.frames.policy import ReportPolicy
from tocsin.hub.observability.feed import Feed
from tocsin.journal.log import tail

OFTEN = msgspec.structs.replace(FramesPolicy(), report=ReportPolicy(interval_s=1e-6))


async def test_frames_that_a_watcher_missed_are_written_down(tmp_path: Path) -> None:
    async with hosted(tmp_path) as (host, journal):
        told: asyncio.Queue[ev.FramesShed] = asyncio.Queue()
        feed = Feed(host, OFTEN, watchers_max=2, frames_max=1)

        def tell(first_seq: int, events: list[ev.Event]) -> None:
            for event in events:
                if isinstance(event, ev.FramesShed):
                    told.put_nowait(event)

        stop = host.follow(tell)
        quick = feed.watch("quick", Priority.HIGH)
        feed.watch("slow", Priority.BEST_EFFORT)
        await host.submit(message(1), ADA)
        quick.get_nowait()
        assert told.empty()
        await host.submit(message(2), ADA)
        found = [await told.get(), await told.get()]
        assert [event.subscriber_priority for event in found] == ["high", "best_effort"]
        assert [(event.published, event.offered, event.dropped) for event in found] == [(2, 2, 0), (2, 2, 1)]
        assert all(event.since <= event.at for event in found)
        stop()
        feed.close()
        kept = [event for _, event in tail(journal, 0) if isinstance(event, ev.FramesShed)]
        assert kept[:2] == found


async def test_a_feed_that_fails_nobody_writes_nothing(tmp_path: Path) -> None:
    async with hosted(tmp_path) as (host, journal):
        feed = Feed(host, OFTEN, watchers_max=1, frames_max=50)
        channel = feed.watch("quick")
        for number in range(10):
            await host.submit(message(number), ADA)
        assert len(channel) == 10
        feed.close()
        assert not [event for _, event in tail(journal, 0) if isinstance(event, ev.FramesShed)]
