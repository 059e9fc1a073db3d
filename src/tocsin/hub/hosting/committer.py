"""Group commit: many decisions share one durable write.

Theory of operation. The events and replies of decided commands join the open group. A group is committed by the writer
thread; while that commit is under way the next group gathers. Many waiting commands therefore share a commit, and a
single command does not wait for others. Replies and pushes leave when the group that they depend on is durable, and not
before: even a reply without events waits for the commits before it, because it may have seen their effects.

The size of a group is limited, so a Critical message waits for the commit under way and its own, and both are short.
Receipts that nobody waits for join the next group. They start a commit of their own only after a delay: a message that
is sent meanwhile would have to wait for that commit.
"""

import asyncio
import logging
from collections.abc import Callable

from tocsin.core.commands import Reply
from tocsin.core.errors import Problem
from tocsin.core.events import Event, encode_events
from tocsin.hub.hosting.commit_deadline import CommitDeadline
from tocsin.hub.hosting.live_state import LiveState
from tocsin.hub.hosting.outgoing import Answer, OutgoingQueue, Part, Push, Waiter
from tocsin.hub.hosting.projection_schedule import ProjectionSchedule
from tocsin.hub.hosting.worker import Worker
from tocsin.journal.base import Commit, Group, Journal, group_of
from tocsin.journal.changes import Capture

__all__ = ["Follower", "GroupCommitter", "OpenGroup"]

_log = logging.getLogger(__name__)

#: Takes the first sequence number of a durable group, and its events.
Follower = Callable[[int, list[Event]], None]


class OpenGroup:
    """Decisions that will share a commit."""

    __slots__ = ("capture", "events", "first_seq", "payload_bytes", "pushes", "receipts", "replies")

    def __init__(self, first_seq: int) -> None:
        self.first_seq = first_seq
        self.events: list[Event] = []
        #: Events of receipts that nobody waits for.
        self.receipts = 0
        #: Bytes of the payloads that were sent.
        self.payload_bytes = 0
        self.replies: list[Answer] = []
        self.pushes: list[Push] = []
        self.capture: Capture | None = None


class GroupCommitter:
    """Commits one project's groups in order, and releases replies and pushes once they are durable."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        journal: Journal,
        writer: Worker,
        state: LiveState,
        projections: ProjectionSchedule,
        flushed: Callable[[], None],
        failed: Callable[[Exception | None], None],
    ) -> None:
        self._loop = loop
        self._journal = journal
        self._writer = writer
        self._state = state
        self._projections = projections
        self._flushed = flushed
        self._failed = failed
        self._outgoing = OutgoingQueue(loop, lambda: state.storage.turn_words_max)
        self._committing: OpenGroup | None = None
        self._flush_due = False
        self._receipt_timer: asyncio.TimerHandle | None = None
        self._receipts_due = False
        self._probing: asyncio.Future[Exception | None] | None = None
        self._deadline = CommitDeadline(loop, journal.commit_timeout_s, failed)
        #: When the last commit ended well, in the loop's time.
        self.committed_at = loop.time()
        #: Durability of the last commit.
        self._durability = Commit("none", 0)
        #: Called with each group after it is durable and its replies are on their way; one that names kinds of events
        #: is called only if the group contains one of them.
        self.followers: list[tuple[Follower, frozenset[type] | None]] = []
        #: The group that decisions join.
        self.group = OpenGroup(0)
        #: Limits of a group, as of the last commit.
        self._events_max = 0
        self._bytes_max = 0

    @property
    def is_full(self) -> bool:
        """Tell whether commands have to wait: for the commit of the open group, or for the tables."""
        group = self.group
        return (
            len(group.events) - group.receipts >= self._events_max
            or group.payload_bytes >= self._bytes_max
            or self._projections.is_full
        )

    @property
    def all_committed(self) -> bool:
        """Tell whether every event is durable."""
        return self._committing is None and not self.group.events

    @property
    def idle(self) -> bool:
        """Tell whether nothing waits for a commit and every reply has been sent."""
        group = self.group
        return self._committing is None and not group.replies and not group.events and self._outgoing.idle

    def reset(self, first_seq: int, durability: Commit) -> None:
        """Begin with an empty group after the state has been loaded."""
        self._open_group(first_seq)
        self._durability = durability

    def _open_group(self, first_seq: int) -> None:
        storage = self._state.storage
        self._events_max, self._bytes_max = storage.group_events_max, storage.group_bytes_max
        self.group = OpenGroup(first_seq)

    def answer(self, waiter: Waiter, reply: Reply | Part) -> None:
        """Add a reply to the open group."""
        self.group.replies.append((waiter, reply))
        if self._committing is None and not self._flush_due:
            self._schedule_flush()

    def add_receipt(self, events: list[Event]) -> None:
        """Add the events of a receipt to the open group; they wait a while for others to share a commit."""
        group = self.group
        group.events += events
        group.receipts += len(events)
        if group.pushes:
            if self._committing is None and not self._flush_due:
                self._schedule_flush()
        elif self._receipt_timer is None:
            delay_s = self._state.storage.receipt_delay_s
            self._receipt_timer = self._loop.call_later(delay_s, self.flush_receipts)

    def flush_receipts(self) -> None:
        """Commit the receipts that wait, now or after the commit under way."""
        if self._receipt_timer is not None:
            self._receipt_timer.cancel()
            self._receipt_timer = None
        if self.group.receipts:
            self._receipts_due = True
            self._flush()

    def _schedule_flush(self) -> None:
        self._flush_due = True
        self._loop.call_soon(self._flush)

    def refuse_all(self, problem: Problem) -> None:
        """Answer everything that waits for a commit with a problem, and drop its events."""
        groups = [group for group in (self._committing, self.group) if group is not None]
        self._committing = None
        self.group = OpenGroup(0)
        self._receipts_due = False
        for group in groups:
            for waiter, _ in group.replies:
                if not waiter.done():
                    waiter.set_result(problem)

    def probe(self) -> "asyncio.Future[Exception | None]":
        """Make a commit without events after those under way; the future holds the error if it fails."""
        if self._probing is not None:
            return self._probing
        self._probing = future = self._loop.create_future()

        def done(commit: Commit | None, error: Exception | None) -> None:
            self._probing = None
            self._deadline.end()
            if commit is not None:
                self.committed_at = self._loop.time()
            if not future.done():
                future.set_result(error)

        self._deadline.begin()
        self._writer.start(self._journal.probe, done)
        return future

    def cancel_deadline(self) -> None:
        """Stop the timer of the time limit."""
        self._deadline.cancel()

    def _flush(self) -> None:
        """Commit the open group; the next one gathers meanwhile."""
        self._flush_due = False
        group = self.group
        if self._committing is not None or not (group.replies or group.pushes or self._receipts_due):
            return
        self._receipts_due = False
        self._open_group(group.first_seq + len(group.events))
        if not group.events:
            # The commits that its replies and pushes depend on are durable.
            self._outgoing.add(group.pushes, group.replies, self._durability)
        else:
            self._committing = group
            group.capture = self._projections.capture_if_due(group.payload_bytes)
            self._deadline.begin()
            # Encoded by the loop, whose caches have the events: the writing thread would need the interpreter for it.
            try:
                encoded = self._encoded(group)
            except Exception as error:
                self._committed(None, error)
                return
            self._writer.start(lambda: self._journal.append(encoded), self._committed)
        self._flushed()

    def _encoded(self, group: OpenGroup) -> Group:
        events = group.events
        return group_of(group.first_seq, len(events), events[-1].at, self._journal.epoch, encode_events(events))

    def _committed(self, commit: Commit | None, error: Exception | None) -> None:
        self._deadline.end()
        group = self._committing
        if group is None:
            return
        if commit is None:
            self._failed(error)
            return
        self._committing = None
        self.committed_at = self._loop.time()
        self._durability = commit
        self._projections.committed(group.first_seq + len(group.events) - 1, group.capture)
        # The next commit begins before the replies of this one are sent, except Critical ones.
        self._outgoing.queue(group.pushes, group.replies, commit)
        self._flush()
        self._outgoing.send()
        self._notify(group)

    def _notify(self, group: OpenGroup) -> None:
        if not self.followers:  # As in the embedded bus.
            return
        kinds = set(map(type, group.events))
        for follower, wanted in list(self.followers):
            if wanted is not None and wanted.isdisjoint(kinds):
                continue
            try:
                follower(group.first_seq, group.events)
            except Exception:
                # A follower must not disturb commits, nor the other followers.
                _log.exception("a follower of project %s failed", self._journal.project)
