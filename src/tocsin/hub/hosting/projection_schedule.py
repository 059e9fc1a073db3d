"""Timing of projections: when the state is captured and handed to the projection writer.

A capture is handed over only when all of its events are committed. It is therefore taken when a group goes to its
commit, or while no event waits for one.

Theory of operation. The tables are brought up to date at an interval, so that a message that lives shorter than that is
written once, in its final state. Writing them shares the interpreter with the decisions, so under load it is left for
later: while many events happen within the interval, up to a longer time. Captures are due sooner for a reader that
waits for an event, and after a number of events or of payload bytes. Between captures the messages that changed are
copied a few at a time, so that even a large capture delays no decision. When the writer cannot keep up, the tables fall
behind by the policy's number of events at most, and the events of the groups under way: then commands wait (`is_full`)
until it has written the capture that it has.
"""

import asyncio
from collections.abc import Callable

from tocsin.hub.hosting.live_state import LiveState
from tocsin.hub.hosting.projection_writer import ProjectionWriter
from tocsin.journal.changes import Capture

__all__ = ["ProjectionSchedule"]


class ProjectionSchedule:
    """Requests projections at the policy's interval, after enough events, and on demand.

    `made_room` is called when commands that waited for the tables can be decided.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        state: LiveState,
        writer: ProjectionWriter,
        all_committed: Callable[[], bool],
        made_room: Callable[[], None] = lambda: None,
    ) -> None:
        self._loop = loop
        self._state = state
        self._writer = writer
        self._all_committed = all_committed
        self._made_room = made_room
        self._due = False
        self._timer: asyncio.TimerHandle | None = None
        #: The last event when the last interval ended, and the time of the last capture, in the loop's time.
        self._interval_seq = 0
        self._captured_at = loop.time()
        #: Payload bytes of the messages since the last capture.
        self._payload_bytes = 0
        #: Sequence numbers that readers wait for.
        self._awaited: list[tuple[int, asyncio.Future[None]]] = []
        #: Whether the tables are as far behind as the policy allows; found out at every commit.
        self.is_full = False
        writer.written = self._report_written

    def start(self) -> None:
        """Start the interval timer, and bring the tables up to date if a reader or a command waits for them."""
        self._restart_timer()
        self._continue()

    def cancel(self) -> None:
        """Stop requesting projections."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def request(self) -> None:
        """Bring the tables up to date now, or with the next commit."""
        self._due = True
        if self._all_committed():
            self._project()

    def reached(self, seq: int) -> "asyncio.Future[None]":
        """Return a future that is done once the tables include an event; the caller requests a projection."""
        future: asyncio.Future[None] = self._loop.create_future()
        if self._writer.projected_seq >= seq:
            future.set_result(None)
        else:
            self._awaited.append((seq, future))
            self._writer.hurried = True
        return future

    def capture_if_due(self, payload_bytes: int) -> Capture | None:
        """Capture the state if a projection is due and the writer is free; a group has that many bytes of payloads."""
        exchange, storage, writer = self._state.exchange, self._state.storage, self._writer
        self._payload_bytes += payload_bytes
        if exchange.ungathered >= storage.projection_slice:
            exchange.gather()
        self.is_full = exchange.state.seq - writer.projected_seq >= storage.projection_lag_max
        if not writer.idle or not exchange.state.has_policy:
            return None
        if (
            self._due
            or self.is_full
            or exchange.uncaptured >= storage.projection_events_max
            or self._payload_bytes >= storage.projection_bytes_max
        ):
            return self._captured()
        return None

    def committed(self, seq: int, capture: Capture | None) -> None:
        """Note the last durable event, and hand over the capture that was taken before its commit."""
        self._writer.committed_seq = seq
        if capture is not None:
            self._writer.hand(capture, self._state.storage)
        elif self._due and self._all_committed():
            self._project()

    async def finish(self) -> None:
        """Bring the tables up to the last commit, so that the next start has no events to apply."""
        await asyncio.to_thread(self._writer.settle)
        self._project()
        await asyncio.to_thread(self._writer.settle)

    def _project(self) -> None:
        """Hand over a capture if the tables are behind and the writer is free; every event must be committed."""
        exchange = self._state.exchange
        if self._writer.idle and exchange.state.seq > self._writer.projected_seq:
            self._writer.hand(self._captured(), self._state.storage)

    def _captured(self) -> Capture:
        self._due, self._payload_bytes, self._captured_at = False, 0, self._loop.time()
        return self._state.exchange.capture()

    def _interval_over(self) -> None:
        storage, seq = self._state.storage, self._state.exchange.state.seq
        busy = seq - self._interval_seq >= storage.projection_busy_events
        self._interval_seq = seq
        late = self._loop.time() >= self._captured_at + storage.projection_delay_max_s
        if seq > self._writer.projected_seq and (late or not busy):
            self.request()
        self._restart_timer()

    def _restart_timer(self) -> None:
        self.cancel()
        self._timer = self._loop.call_later(self._state.storage.projection_interval_s, self._interval_over)

    def _report_written(self) -> None:
        """Report to the event loop, from the writer's thread, that a capture has been written."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._continue)

    def _continue(self) -> None:
        """Answer the readers whose events are in the tables, and let commands that waited for the tables go on."""
        projected = self._writer.projected_seq
        waiting = [(seq, future) for seq, future in self._awaited if not future.done()]
        self._awaited = [(seq, future) for seq, future in waiting if seq > projected]
        for seq, future in waiting:
            if seq <= projected:
                future.set_result(None)
        if self._timer is None:  # the state is being rebuilt, or the host has stopped
            return
        self.is_full = self._state.exchange.state.seq - projected >= self._state.storage.projection_lag_max
        if self._awaited or self._due or self.is_full:
            self._writer.hurried = bool(self._awaited)
            self.request()
        if not self.is_full:
            self._made_room()
