"""Timing of projections: when the state is captured and handed to the projection writer.

A capture is handed over only when all of its events are committed. It is therefore taken when a group goes to its
commit, or while no event waits for one.
"""

import asyncio
from collections.abc import Callable

from tocsin.hub.hosting.live_state import LiveState
from tocsin.hub.hosting.projection_writer import ProjectionWriter
from tocsin.journal.changes import Capture

__all__ = ["ProjectionSchedule"]


class ProjectionSchedule:
    """Requests projections at the policy's interval, after enough events, and on demand."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        state: LiveState,
        writer: ProjectionWriter,
        all_committed: Callable[[], bool],
    ) -> None:
        self._loop = loop
        self._state = state
        self._writer = writer
        self._all_committed = all_committed
        self._due = False
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Start the interval timer."""
        self.cancel()
        self._timer = self._loop.call_later(self._state.storage.projection_interval_s, self._interval_over)

    def cancel(self) -> None:
        """Stop the interval timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def request(self) -> None:
        """Bring the tables up to date now, or with the next commit."""
        self._due = True
        if self._all_committed():
            self._project()

    def capture_if_due(self) -> Capture | None:
        """Capture the state if a projection is due and the writer is free."""
        exchange = self._state.exchange
        if not self._writer.idle or not exchange.state.has_policy:
            return None
        if self._due or exchange.uncaptured >= self._state.storage.projection_events_max:
            self._due = False
            return exchange.capture()
        return None

    def committed(self, seq: int, capture: Capture | None) -> None:
        """Note the last durable event, and hand over the capture that was taken before its commit."""
        self._writer.committed_seq = seq
        if capture is not None:
            self._writer.hand(capture, self._state.storage)

    async def finish(self) -> None:
        """Bring the tables up to the last commit, so that the next start has no events to apply."""
        await asyncio.to_thread(self._writer.settle)
        self._project()
        await asyncio.to_thread(self._writer.settle)

    def _project(self) -> None:
        """Hand over a capture if the tables are behind and the writer is free; every event must be committed."""
        exchange = self._state.exchange
        if self._writer.idle and exchange.state.seq > self._writer.projected_seq:
            self._due = False
            self._writer.hand(exchange.capture(), self._state.storage)

    def _interval_over(self) -> None:
        self.request()
        self.start()
