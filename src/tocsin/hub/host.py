"""One project being run: its exchange, its commits and its timers, on one event loop.

Theory of operation. A command is decided at once, in the order of arrival, and its events join the open group. A group
is committed by a thread of its own; while that commit is under way the next group gathers, so many waiting commands
share a commit and a lone one waits for none. Replies and pushes leave when the group that they depend on is durable,
and not before: even a reply without events waits for the commits before it, because it may have seen what they did.

The state is therefore ahead of the journal by at most two groups. When a commit fails, that state is worth nothing:
every waiting caller is told to try again, the state is rebuilt from the tables and the journal, and service goes on;
or, where that fails too, the host stops and says why.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path

import msgspec

from tocsin.core import events as ev
from tocsin.core.commands import (
    SYSTEM,
    AdoptPolicy,
    BroadcastReceipt,
    Caller,
    CloseSession,
    Command,
    Delivery,
    Done,
    Drain,
    Heartbeat,
    OpenSession,
    Published,
    Receipt,
    Reply,
    Requested,
    Send,
    SessionReady,
    Tick,
)
from tocsin.core.errors import CATALOGUE, Problem, error_for
from tocsin.core.events import Event, encode_events
from tocsin.core.policy import Policy, Storage, document_of
from tocsin.hub.clock import Clock
from tocsin.hub.outgoing import OutgoingQueue, Sink
from tocsin.hub.projection_writer import ProjectionWriter
from tocsin.hub.worker import Worker
from tocsin.ids import RandomIds
from tocsin.journal.base import Commit, Journal, group_of
from tocsin.journal.changes import Capture, ObservedExchange
from tocsin.journal.errors import CommitFailed, JournalError, JournalUnavailable, OwnershipLost
from tocsin.journal.recovery import reopen

__all__ = ["Condition", "Follower", "Host", "Sink"]

_log = logging.getLogger(__name__)

#: Takes the first sequence number of a group, and its events.
Follower = Callable[[int, list[Event]], None]
Waiting = tuple[Command, Caller, "asyncio.Future[Reply]", Sink | None]


class Condition(StrEnum):
    """How a host is."""

    SERVING = "serving"
    RECOVERING = "recovering"
    STOPPED = "stopped"


class _OpenGroup:
    """Commands that will share a commit."""

    __slots__ = ("capture", "events", "first_seq", "pushes", "replies")

    def __init__(self, first_seq: int) -> None:
        self.first_seq = first_seq
        self.events: list[Event] = []
        self.replies: list[tuple[asyncio.Future[Reply], Reply]] = []
        self.pushes: list[tuple[Sink, Delivery]] = []
        self.capture: Capture | None = None


class Host:
    """One project, served."""

    def __init__(self, journal: Journal, policy: Policy, *, segments: Path | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        self._journal = journal
        self._writer = Worker(f"writer {journal.project}", self._loop)
        self._first_policy = policy
        self._keeper = ProjectionWriter(journal, segments, self._keeper_gave_up, self._keeper_stumbled)
        self._ids = RandomIds()
        self._clock = Clock()
        self._speech = OutgoingQueue(self._loop, lambda: self.storage.turn_words_max)
        self._exchange: ObservedExchange
        self._group = _OpenGroup(0)
        self._waiting: deque[Waiting] = deque()
        self._committing: _OpenGroup | None = None
        self._flush_due = False
        self._worth = Commit("none", 0)
        self._sinks: dict[str, Sink] = {}
        #: Told how long deciding each send took, seconds.
        self.timing: Callable[[float], None] | None = None
        self._followers: list[Follower] = []
        self._timer: asyncio.TimerHandle | None = None
        self._timer_due = 0
        self._projection: asyncio.TimerHandle | None = None
        self._projection_due = False
        self._recovery: asyncio.Task[None] | None = None
        self._probing = False
        self._stopped = asyncio.Event()
        self._stop_code = "E_HUB_003"
        #: How it is.
        self.condition = Condition.RECOVERING
        #: Why it is not serving, in a sentence.
        self.reason = "starting"

    @classmethod
    async def start(cls, journal: Journal, policy: Policy, *, segments: Path | None = None) -> "Host":
        """Bring a project to life; a new one is run by `policy`, another by its own."""
        host = cls(journal, policy, segments=segments)
        try:
            await host._load()
        except BaseException:
            await host._release()
            raise
        host._keeper.committed_seq = journal.last_seq()
        host._keeper.start(policy.storage)
        host._serve()
        if not host._exchange.state.has_policy:
            adopted = await host.submit(AdoptPolicy(document_of(policy), "first policy"), SYSTEM)
            if isinstance(adopted, Problem):
                await host.close()
                raise error_for(adopted)
        host._detach_lost_sessions()
        return host

    @property
    def project(self) -> str:
        """Return the project's name."""
        return self._journal.project

    @property
    def journal(self) -> Journal:
        """Return the journal, to read what followers have missed; only the host appends to it."""
        return self._journal

    @property
    def exchange(self) -> ObservedExchange:
        """Return the exchange, to look at between two commands; it may be ahead of the journal."""
        return self._exchange

    @property
    def committed_seq(self) -> int:
        """Return the sequence number of the last event that is durable."""
        return self._keeper.committed_seq

    @property
    def storage(self) -> Storage:
        """Return the limits in force."""
        state = self._exchange.state
        return state.policy.storage if state.has_policy else self._first_policy.storage

    def submit(self, command: Command, caller: Caller, sink: Sink | None = None) -> "asyncio.Future[Reply]":
        """Decide a command; the future holds the reply once it is durable. `sink` takes the pushes of a new session."""
        future: asyncio.Future[Reply] = self._loop.create_future()
        if self.condition is not Condition.SERVING:
            future.set_result(self._unavailable())
        elif self._waiting or self._is_full():
            if len(self._waiting) >= self.storage.commands_waiting_max:
                future.set_result(_problem("E_HUB_001", "too many commands wait for a commit: try again"))
            else:
                self._waiting.append((command, caller, future, sink))
        else:
            self._decide(command, caller, future, sink)
        return future

    def durable(self) -> "asyncio.Future[Reply]":
        """Wait until all that has been decided is durable; the reply is a problem where it never will be."""
        future: asyncio.Future[Reply] = self._loop.create_future()
        if self.condition is not Condition.SERVING:
            future.set_result(self._unavailable())
        else:
            self._answer(future, Done())
        return future

    def hurry(self) -> None:
        """Bring the tables up to date now, or with the next commit: somebody waits for them."""
        if self.condition is not Condition.SERVING:
            return
        self._projection_due = True
        quiet = self._committing is None and not self._group.events
        if quiet and self._keeper.idle and self._exchange.state.seq > self._keeper.projected_seq:
            self._projection_due = False
            self._keeper.hand(self._exchange.capture(), self.storage)

    def follow(self, follower: Follower) -> Callable[[], None]:
        """Tell a follower of every group once it is durable and spoken; what is returned ends that.

        It is called on the event loop and must be quick: whoever has more to do takes notes. What was committed before
        is in the journal, and so is what a gap in the numbers leaves out: a commit whose answer was lost.
        """
        self._followers.append(follower)
        return lambda: self._followers.remove(follower) if follower in self._followers else None

    def attach(self, session: str, sink: Sink) -> "asyncio.Future[Reply]":
        """Let a session's pushes go to `sink` from now on, beginning with all that it has not confirmed."""
        if self.condition is Condition.SERVING and session in self._exchange.state.sessions:
            self._sinks[session] = sink
        return self.push_again(session, sink)

    def push_again(self, session: str, sink: Sink) -> "asyncio.Future[Reply]":
        """Give `sink` every offer that a session has not confirmed, once all of them are durable."""
        future: asyncio.Future[Reply] = self._loop.create_future()
        if self.condition is not Condition.SERVING:
            future.set_result(self._unavailable())
        elif session not in self._exchange.state.sessions:
            future.set_result(_problem("E_STATE_003", f"session {session} is not there any more"))
        else:
            self._group.pushes += [(sink, push) for push in self._exchange.in_flight(session)]
            self._answer(future, Done())
        return future

    def detach(self, session: str) -> None:
        """Forget where a session's pushes go; closing the session is a command."""
        self._sinks.pop(session, None)

    async def stopped(self) -> str:
        """Wait until the host has stopped, and return why."""
        await self._stopped.wait()
        return self.reason

    async def close(self) -> None:
        """Finish what has begun, bring the tables up to date, and let go of the project."""
        if self.condition is Condition.SERVING:
            self.condition, self.reason = Condition.STOPPED, "the hub is shutting down"
            while self._committing is not None or self._group.replies or self._waiting or not self._speech.idle:
                await self._writer.run(lambda: None)
            await self._project_finally()
        elif self._recovery is not None:
            self.condition = Condition.STOPPED
            self._recovery.cancel()
            await asyncio.gather(self._recovery, return_exceptions=True)
        self._stop("the hub is shutting down")
        await self._release()

    async def _release(self) -> None:
        self._cancel_timers()
        await asyncio.to_thread(self._keeper.close)
        await self._writer.close()
        await asyncio.to_thread(self._journal.close)

    async def _load(self) -> None:
        """Rebuild the state from what is stored, and find out what commits are worth."""
        self._worth = await self._writer.run(self._journal.probe)
        self._exchange = await self._writer.run(self._reopen)
        self._clock.advance(self._exchange.at)
        self._group = _OpenGroup(self._exchange.state.seq + 1)

    def _reopen(self) -> ObservedExchange:
        tables = self._journal.tables()
        try:
            return reopen(self._journal, tables, self._ids)
        finally:
            tables.close()

    def _serve(self) -> None:
        self.condition, self.reason = Condition.SERVING, ""
        self._schedule_tick()
        self._schedule_projection()

    def _detach_lost_sessions(self) -> None:
        """Close the sessions that only a connection to a process that is gone could push to."""
        state = self._exchange.state
        for session in list(state.sessions.values()):
            if session.pushes and session.session not in self._sinks:
                agent = state.agents[session.agent]
                self.submit(CloseSession(session.session), Caller(agent.agent, agent.role))

    def _is_full(self) -> bool:
        return len(self._group.events) >= self.storage.group_events_max

    def _decide(
        self, command: Command, caller: Caller, future: "asyncio.Future[Reply]", sink: Sink | None = None
    ) -> None:
        exchange, group = self._exchange, self._group
        try:
            started = time.perf_counter()
            outcome = exchange.handle(command, caller, self._clock.now())
            if self.timing is not None and type(command) is Send:
                self.timing(time.perf_counter() - started)
            reply, events = outcome.reply, outcome.events
            if sink is not None and isinstance(command, OpenSession) and isinstance(reply, SessionReady):
                self._sinks[reply.session] = sink
            if events:
                group.events += events
                if self._sinks and not isinstance(command, Drain):
                    self._collect_pushes(group, events)
        except Exception as error:
            # Whatever it was, the state cannot be trusted any more.
            _log.exception("a decision of project %s failed", self.project)
            future.set_result(_problem("E_HUB_001", f"deciding failed: {error}"))
            self._fail(CommitFailed("refused", f"a decision failed: {error}"))
            return
        self._answer(future, reply)

    def _answer(self, future: "asyncio.Future[Reply]", reply: Reply) -> None:
        """Let a reply go with the open group."""
        self._group.replies.append((future, reply))
        if self._committing is None and not self._flush_due:
            self._flush_due = True
            self._loop.call_soon(self._flush)

    def _collect_pushes(self, group: _OpenGroup, events: list[Event]) -> None:
        sinks = self._sinks
        offers = [event for event in events if type(event) is ev.MessageOffered and event.session in sinks]
        if offers:
            group.pushes += [(sinks[push.session], push) for push in self._exchange.deliveries(offers)]
        for event in events:
            if type(event) is ev.SessionClosed:
                sinks.pop(event.session, None)

    def _flush(self) -> None:
        """Commit the open group; the next one gathers meanwhile."""
        self._flush_due = False
        group = self._group
        if self._committing is not None or not group.replies:
            return
        self._group = _OpenGroup(group.first_seq + len(group.events))
        if not group.events:
            self._speak(group)
        else:
            self._committing = group
            if self._is_projection_due():
                group.capture = self._exchange.capture()
            self._writer.start(lambda: self._append(group), self._committed)
        self._schedule_tick()
        self._admit_waiting()

    def _append(self, group: _OpenGroup) -> Commit:
        events = group.events
        return self._journal.append(
            group_of(group.first_seq, len(events), events[-1].at, self._journal.epoch, encode_events(events))
        )

    def _committed(self, commit: Commit | None, error: Exception | None) -> None:
        group, self._committing = self._committing, None
        if group is None:
            return
        if commit is None:
            self._committing = group
            self._fail(error)
            return
        self._worth = commit
        self._keeper.committed_seq = group.first_seq + len(group.events) - 1
        if group.capture is not None:
            self._keeper.hand(group.capture, self.storage)
        self._speak(group)
        self._flush()
        self._tell(group)

    def _tell(self, group: _OpenGroup) -> None:
        for follower in list(self._followers):
            try:
                follower(group.first_seq, group.events)
            except Exception:
                # Nobody who looks on may disturb the ones who speak.
                _log.exception("a follower of project %s failed", self.project)

    def _speak(self, group: _OpenGroup) -> None:
        """Let replies and pushes go: what they depend on is durable."""
        worth = self._worth
        self._speech.say(group.pushes, [(future, _with_worth(reply, worth)) for future, reply in group.replies])

    def _admit_waiting(self) -> None:
        waiting = self._waiting
        while waiting and not self._is_full() and self.condition is not Condition.RECOVERING:
            self._decide(*waiting.popleft())

    def _schedule_tick(self) -> None:
        due = self._exchange.next_due()
        if due is None or (self._timer is not None and self._timer_due <= due):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_due = due
        self._timer = self._loop.call_later(max(0, due - self._clock.now()) / 1_000_000, self._tick)

    def _tick(self) -> None:
        self._timer = None
        if self.condition is not Condition.SERVING:
            return
        due = self._exchange.next_due()
        if due is not None and due <= self._clock.now():
            self.submit(Tick(), SYSTEM)
        else:
            self._schedule_tick()

    def _cancel_timers(self) -> None:
        for handle in (self._timer, self._projection):
            if handle is not None:
                handle.cancel()
        self._timer = self._projection = None

    def _schedule_projection(self) -> None:
        if self._projection is not None:
            self._projection.cancel()
        self._projection = self._loop.call_later(self.storage.projection_interval_s, self._projection_time)

    def _projection_time(self) -> None:
        if self.condition is Condition.SERVING:
            self.hurry()
            self._schedule_projection()

    def _is_projection_due(self) -> bool:
        if not self._keeper.idle or not self._exchange.state.has_policy:
            return False
        if self._projection_due or self._exchange.uncaptured >= self.storage.projection_events_max:
            self._projection_due = False
            return True
        return False

    async def _project_finally(self) -> None:
        """Bring the tables up to the last commit, so that the next opening has no tail to apply."""
        await asyncio.to_thread(self._keeper.settle)
        if self._keeper.idle and self._exchange.state.seq > self._keeper.projected_seq:
            self._keeper.hand(self._exchange.capture(), self.storage)
            await asyncio.to_thread(self._keeper.settle)

    def _keeper_gave_up(self, error: JournalError) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._stop_serving, error)

    def _keeper_stumbled(self) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._doubt)

    def _doubt(self) -> None:
        """Find out whether commits still work, where none is under way that would tell: the tables did not."""
        if self.condition is Condition.SERVING and self._committing is None and not self._probing:
            self._probing = True
            self._writer.start(self._journal.probe, self._probed)

    def _probed(self, commit: Commit | None, error: Exception | None) -> None:
        self._probing = False
        if error is not None and self.condition is Condition.SERVING:
            self._fail(error)

    def _fail(self, error: Exception | None) -> None:
        """Tell everyone who waits to try again, and rebuild; or stop, where there is nothing to go on with."""
        if self.condition is Condition.STOPPED or isinstance(error, OwnershipLost):
            self._step_down(error)
            return
        self.condition, self.reason = Condition.RECOVERING, str(error)
        _log.error("a commit of project %s failed: %s", self.project, error)
        self._refuse_all(self._unavailable())
        self._cancel_timers()
        if not isinstance(error, CommitFailed | JournalUnavailable):
            self._stop(str(error))
        elif self._recovery is None:
            self._recovery = self._loop.create_task(self._recover())

    def _refuse_all(self, problem: Problem) -> None:
        groups = [group for group in (self._committing, self._group) if group is not None]
        futures = [future for group in groups for future, _ in group.replies]
        futures += [future for _, _, future, _ in self._waiting]
        self._committing = None
        self._group = _OpenGroup(0)
        self._waiting.clear()
        for future in futures:
            if not future.done():
                future.set_result(problem)

    async def _recover(self) -> None:
        """Rebuild from what is stored, as often as the policy allows."""
        storage = self.storage
        for attempt in range(1, storage.recovery_attempts_max + 1):
            try:
                await self._writer.run(self._journal.recover)
                await asyncio.to_thread(self._keeper.settle)
                self._keeper.drop()
                await self._load()
            except (CommitFailed, JournalUnavailable) as error:
                self.reason = str(error)
                _log.warning("project %s is not back yet (%d): %s", self.project, attempt, error)
                await asyncio.sleep(storage.recovery_backoff_s)
            except Exception as error:
                self._recovery = None
                self._step_down(error)
                return
            else:
                self._recovery = None
                self._serve()
                self._resume_sessions()
                return
        self._recovery = None
        self._stop(f"gave up after {storage.recovery_attempts_max} tries: {self.reason}")

    def _resume_sessions(self) -> None:
        """Go on pushing to whoever is attached; sessions that the rebuilt state does not know are gone."""
        state = self._exchange.state
        for name in list(self._sinks):
            session = state.sessions.get(name)
            if session is None:
                del self._sinks[name]
            else:
                agent = state.agents[session.agent]
                # Offers of the commit that failed may be durable after all, and were never pushed.
                self.push_again(name, self._sinks[name])
                self.submit(Heartbeat(name), Caller(agent.agent, agent.role))

    def _step_down(self, error: Exception | None) -> None:
        if isinstance(error, OwnershipLost):
            self._stop_code = "E_HUB_002"
        self._stop(str(error))

    def _stop_serving(self, error: JournalError) -> None:
        if self.condition is not Condition.STOPPED:
            self._step_down(error)

    def _stop(self, reason: str) -> None:
        if not self._stopped.is_set():
            self.condition, self.reason = Condition.STOPPED, reason
            self._refuse_all(self._unavailable())
            self._cancel_timers()
            self._stopped.set()
            _log.info("project %s stopped: %s", self.project, reason)

    def _unavailable(self) -> Problem:
        if self.condition is Condition.RECOVERING:
            return _problem("E_HUB_001", f"the commit failed and the state is being rebuilt: {self.reason}")
        return _problem(self._stop_code, f"this hub does not serve the project any more: {self.reason}")


def _problem(code: str, detail: str) -> Problem:
    return Problem(code, detail, retryable=CATALOGUE[code].retryable)


def _with_worth(reply: Reply, worth: Commit) -> Reply:
    """Add durability and copy count to the receipts of a reply."""
    if type(reply) is Receipt:
        return _durable_receipt(reply, worth)
    if type(reply) is BroadcastReceipt or type(reply) is Published:
        receipts = tuple(_durable_receipt(receipt, worth) for receipt in reply.receipts)
        return msgspec.structs.replace(reply, receipts=receipts)
    if type(reply) is Requested:
        return msgspec.structs.replace(reply, receipt=_durable_receipt(reply.receipt, worth))
    return reply


def _durable_receipt(receipt: Receipt, worth: Commit) -> Receipt:
    return msgspec.structs.replace(receipt, durability=worth.durability, copies=worth.copies)
