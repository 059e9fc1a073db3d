"""One project being served: its exchange, its commits and its timers, on one event loop.

Theory of operation. A command is decided at once, in the order of arrival, and its events and its reply join the open
group; `committer` makes groups durable and releases their replies. The state is therefore ahead of the journal by at
most two groups. When a commit fails, that state is discarded: every waiting caller is asked to try again, the state is
rebuilt from the tables and the journal (`state_loader`), and the host continues to serve. If rebuilding fails too, the
host stops and reports the reason.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path

from tocsin.core import events as ev
from tocsin.core.commands import (
    SYSTEM,
    AdoptPolicy,
    Caller,
    CloseSession,
    Command,
    Done,
    Drain,
    Heartbeat,
    OpenSession,
    Reply,
    Send,
    SessionReady,
    Tick,
)
from tocsin.core.errors import CATALOGUE, Problem, error_for
from tocsin.core.events import Event
from tocsin.core.messages.delivery import delivery_of
from tocsin.core.policy import Policy, Storage, document_of
from tocsin.core.protocol.envelope import Envelope
from tocsin.core.protocol.priority import VOCABULARY, Priority
from tocsin.hub.clock import Clock
from tocsin.hub.hosting.committer import Follower, GroupCommitter, OpenGroup
from tocsin.hub.hosting.lease_keeper import LeaseKeeper
from tocsin.hub.hosting.live_state import LiveState
from tocsin.hub.hosting.outgoing import Batch, Part, Sink, Waiter
from tocsin.hub.hosting.projection_schedule import ProjectionSchedule
from tocsin.hub.hosting.projection_writer import ProjectionWriter
from tocsin.hub.hosting.state_loader import Loaded, StateLoader
from tocsin.hub.hosting.tick_timer import TickTimer
from tocsin.hub.hosting.worker import Worker
from tocsin.journal.base import Journal
from tocsin.journal.changes import ObservedExchange
from tocsin.journal.errors import CommitFailed, JournalError, JournalUnavailable, OwnershipLost

__all__ = ["Condition", "Follower", "Host", "Sink"]

_log = logging.getLogger(__name__)

#: Kinds of sessions that an agent can resume.
_RESUMED = frozenset({"push", "daemon"})
#: A command or batch that waits for room in a group, its caller, who waits for the reply, and a new session's sink.
Waiting = tuple[Command | Batch, Caller, Waiter, Sink | None]


class Condition(StrEnum):
    """Condition of a host."""

    SERVING = "serving"
    RECOVERING = "recovering"
    STOPPED = "stopped"


_SERVING = Condition.SERVING


class Host:
    """Serves one project."""

    def __init__(self, journal: Journal, policy: Policy, *, segments: Path | None = None) -> None:
        self._loop = loop = asyncio.get_running_loop()
        self._journal = journal
        self._writer = Worker(f"writer {journal.project}", loop)
        #: The time by which commands are decided.
        self.clock = Clock()
        self._state = state = LiveState(policy)
        self._projection_writer = ProjectionWriter(journal, segments, self._tables_gave_up, self._tables_failed)
        self._projections = ProjectionSchedule(
            loop, state, self._projection_writer, lambda: self._committer.all_committed, self._flushed
        )
        self._committer = GroupCommitter(
            loop, journal, self._writer, state, self._projections, self._flushed, self._fail
        )
        self._ticks = TickTimer(loop, state, self.clock, self._tick)
        self._loader = StateLoader(journal, self._writer, self._projection_writer)
        self._lease = LeaseKeeper(loop, journal, lapsed=self._suspend, renewed=self._resume, lost=self._stop_serving)
        #: Whether it does not serve only because its lease has lapsed; its state is still right.
        self._suspended = False
        #: Commands that wait for room in a group.
        self._waiting: deque[Waiting] = deque()
        #: Whether more of them are decided in the next iteration of the event loop.
        self._deciding_due = False
        self._sinks: dict[str, Sink] = {}
        #: Called with the time that deciding each send took, in seconds.
        self.timing: Callable[[float], None] | None = None
        self._recovery: asyncio.Task[None] | None = None
        self._stopped = asyncio.Event()
        self._stop_code = "E_HUB_003"
        #: Whether the host serves.
        self.condition = Condition.RECOVERING
        #: Why it does not serve, in one sentence.
        self.reason = "starting"

    @classmethod
    async def start(
        cls, journal: Journal, policy: Policy, *, segments: Path | None = None, keeps_sessions: bool = False
    ) -> "Host":
        """Load a project and serve it; a new project adopts `policy`, an existing one keeps its own.

        With `keeps_sessions` the sessions of sockets are left open, to be resumed here; otherwise they are closed.
        """
        host = cls(journal, policy, segments=segments)
        failed: BaseException | None = None
        try:
            host._lease.start()
            host._use(await host._loader.load())
        except BaseException as error:
            failed = error
        if failed is not None:
            await host._release()
            raise failed
        host._projection_writer.committed_seq = journal.last_seq()
        host._projection_writer.start(policy.storage)
        host._serve()
        if not host.exchange.state.has_policy:
            adopted = await host.submit(AdoptPolicy(document_of(policy), "first policy"), SYSTEM)
            if isinstance(adopted, Problem):
                await host.close()
                raise error_for(adopted)
        host._close_lost_sessions(_RESUMED if keeps_sessions else frozenset())
        return host

    @property
    def project(self) -> str:
        """Return the project's name."""
        return self._journal.project

    @property
    def journal(self) -> Journal:
        """Return the journal, to read events that a follower has missed; only the host appends to it."""
        return self._journal

    @property
    def exchange(self) -> ObservedExchange:
        """Return the exchange, to read its state between two commands; it may be ahead of the journal."""
        return self._state.exchange

    @property
    def committed_seq(self) -> int:
        """Return the sequence number of the last event that is durable."""
        return self._projection_writer.committed_seq

    @property
    def projected_seq(self) -> int:
        """Return the last event that the tables include."""
        return self._projection_writer.projected_seq

    @property
    def storage(self) -> Storage:
        """Return the storage limits in force."""
        return self._state.storage

    def submit(self, command: Command, caller: Caller, sink: Sink | None = None) -> "asyncio.Future[Reply]":
        """Decide a command; the future holds the reply once it is durable. `sink` takes the pushes of a new session."""
        future: asyncio.Future[Reply] = self._loop.create_future()
        if self.condition is not _SERVING:
            future.set_result(self._unavailable())
        elif (self._waiting or self._committer.is_full) and not self._overtakes(command, caller):
            if len(self._waiting) >= self._state.storage.commands_waiting_max:
                future.set_result(_problem("E_HUB_001", "too many commands wait for a commit: try again"))
            else:
                self._waiting.append((command, caller, future, sink))
        else:
            self._decide(command, caller, future, sink)
        return future

    def submit_batch(self, messages: "list[Envelope | Problem]", caller: Caller) -> "asyncio.Future[list[Reply]]":
        """Decide some messages in order; the future holds the replies to all of them once all are durable.

        A problem in the place of a message is its reply.
        """
        future: asyncio.Future[list[Reply]] = self._loop.create_future()
        batch = Batch(messages, future)
        if self.condition is not _SERVING:
            batch.set_result(self._unavailable())
        elif not self._waiting and not self._committer.is_full:
            self._decide_batch(batch, caller)
        elif len(self._waiting) >= self._state.storage.commands_waiting_max:
            batch.set_result(_problem("E_HUB_001", "too many commands wait for a commit: try again"))
        else:
            self._waiting.append((batch, caller, batch, None))
            self._decide_urgent(batch, caller)
        return future

    def confirm(self, message_id: str, caller: Caller) -> None:
        """Decide a receipt; nobody is told when it is durable, and a lost one means that the message is pushed again.

        It is decided at once, so before any later command of its agent, and joins the open group. It does not start a
        commit of its own until `storage.receipt_delay_s` has passed.
        """
        if self.condition is not _SERVING:
            return
        try:
            events = self._state.exchange.confirm(message_id, caller, self.clock.now())
            if events:
                if len(events) > 1 and self._sinks:
                    self._collect_pushes(self._committer.group, events)
                self._committer.add_receipt(events)
        except Exception as error:
            self._decision_failed(error)

    def _overtakes(self, command: Command, caller: Caller) -> bool:
        """Tell whether a command is decided before those that wait for room: a Critical send is.

        It does not pass other commands of its agent than sends, nor any of them if it belongs to a thread.
        """
        if type(command) is not Send or not _is_urgent(command.envelope):
            return False
        own = [waiting[0] for waiting in self._waiting if waiting[1].agent == caller.agent]
        if command.envelope.correlation_id is not None:
            return not own
        return all(type(other) is Send or type(other) is Batch for other in own)

    def durable(self) -> "asyncio.Future[Reply]":
        """Wait until every decision so far is durable; the reply is a problem if its commit fails."""
        future: asyncio.Future[Reply] = self._loop.create_future()
        if self.condition is not Condition.SERVING:
            future.set_result(self._unavailable())
        else:
            self._committer.answer(future, Done())
        return future

    def probe(self) -> "asyncio.Future[Exception | None]":
        """Make a commit without events, after those under way; the future holds the error if it fails."""
        probing = self._committer.probe()
        probing.add_done_callback(self._probed)
        return probing

    @property
    def committed_at(self) -> float:
        """Return when a commit last worked, in the loop's time."""
        return self._committer.committed_at

    def tables_progressed_at(self) -> float:
        """Return when rows were last given to the tables, by the monotonic clock."""
        return self._projection_writer.progressed_at

    def projected(self, seq: int) -> "asyncio.Future[None]":
        """Return a future that is done once the tables include an event; they are brought up to date at once."""
        reached = self._projections.reached(seq)
        if self.condition is Condition.SERVING and not reached.done():
            self._projections.request()
        return reached

    def follow(self, follower: Follower, kinds: frozenset[type] | None = None) -> Callable[[], None]:
        """Call a follower with every group after it is durable and its replies are sent; return how to stop that.

        With `kinds` it is called only with the groups that contain such an event.
        It is called on the event loop and must be quick: longer work belongs elsewhere. Events committed before are in
        the journal, and so are those that a gap in the numbers leaves out: a commit whose result was lost.
        """
        followers = self._committer.followers
        following = (follower, kinds)
        followers.append(following)
        return lambda: followers.remove(following) if following in followers else None

    def attach(self, session: str, sink: Sink) -> "asyncio.Future[Reply]":
        """Send a session's pushes to `sink` from now on, beginning with all that it has not confirmed."""
        if self.condition is Condition.SERVING and session in self.exchange.state.sessions:
            self._sinks[session] = sink
        return self.push_again(session, sink)

    def push_again(self, session: str, sink: Sink) -> "asyncio.Future[Reply]":
        """Give `sink` every offer that a session has not confirmed, once all of them are durable."""
        future: asyncio.Future[Reply] = self._loop.create_future()
        if self.condition is not Condition.SERVING:
            future.set_result(self._unavailable())
        elif session not in self.exchange.state.sessions:
            future.set_result(_problem("E_STATE_003", f"session {session} does not exist any more"))
        else:
            self._committer.group.pushes += [(sink, push) for push in self.exchange.in_flight(session)]
            self._committer.answer(future, Done())
        return future

    def unattached_sessions(self) -> list[str]:
        """Return the sessions of sockets that no connection is attached to."""
        sessions = self.exchange.state.sessions.values()
        return [one.session for one in sessions if one.kind in _RESUMED and one.session not in self._sinks]

    def detach(self, session: str) -> None:
        """Stop sending a session's pushes to its sink; closing the session is a command."""
        self._sinks.pop(session, None)

    async def stopped(self) -> str:
        """Wait until the host has stopped, and return the reason."""
        await self._stopped.wait()
        return self.reason

    async def close(self) -> None:
        """Finish the commands under way, bring the tables up to date, and close the journal."""
        if self.condition is Condition.SERVING:
            self.condition, self.reason = Condition.STOPPED, "the hub is shutting down"
            self._committer.flush_receipts()
            while self._waiting or not self._committer.idle:
                await self._writer.run(lambda: None)
            self._projections.cancel()
            await self._projections.finish()
        elif self._recovery is not None:
            self.condition = Condition.STOPPED
            self._recovery.cancel()
            await asyncio.gather(self._recovery, return_exceptions=True)
        self._stop("the hub is shutting down", logging.INFO)
        await self._release()

    async def _release(self) -> None:
        self._cancel_timers()
        self._committer.cancel_deadline()
        await self._lease.close()
        await asyncio.to_thread(self._projection_writer.close)
        await self._writer.close()
        await asyncio.to_thread(self._journal.close)

    def _use(self, loaded: Loaded) -> None:
        """Replace the state with one that has just been loaded."""
        self._state.exchange = exchange = loaded.exchange
        self.clock.advance(exchange.at)
        exchange.state.durability, exchange.state.copies = loaded.durability.durability, loaded.durability.copies
        self._committer.reset(exchange.state.seq + 1, loaded.durability)

    def _serve(self) -> None:
        self._suspended = False
        self.condition, self.reason = Condition.SERVING, ""
        self._ticks.schedule()
        self._projections.start()

    def _close_lost_sessions(self, kept: frozenset[str]) -> None:
        """Close the push sessions that no connection is attached to: theirs ended with an earlier process."""
        state = self.exchange.state
        for session in list(state.sessions.values()):
            if session.kind not in {"piggyback", *kept} and session.session not in self._sinks:
                agent = state.agents[session.agent]
                self.submit(CloseSession(session.session), Caller(agent.agent, agent.role))

    def _decide(self, command: Command, caller: Caller, waiter: Waiter, sink: Sink | None = None) -> None:
        try:
            reply = self._reply_to(command, caller, sink)
        except Exception as error:
            waiter.set_result(_problem("E_HUB_001", f"deciding failed: {error}"))
            self._decision_failed(error)
            return
        self._committer.answer(waiter, reply)

    def _reply_to(self, command: Command, caller: Caller, sink: Sink | None) -> Reply:
        """Decide a command; its events and pushes join the open group."""
        group, timing = self._committer.group, self.timing
        started = 0.0 if timing is None else time.perf_counter()
        outcome = self._state.exchange.handle(command, caller, self.clock.now())
        reply, events = outcome.reply, outcome.events
        if type(command) is Send:
            if timing is not None:
                timing(time.perf_counter() - started)
            if events:
                group.payload_bytes += memoryview(command.envelope.payload).nbytes
        elif sink is not None and isinstance(command, OpenSession) and isinstance(reply, SessionReady):
            self._sinks[reply.session] = sink
        if events:
            group.events += events
            if self._sinks and type(command) is not Drain:
                self._collect_pushes(group, events)
        return reply

    def _decide_batch(self, batch: Batch, caller: Caller) -> None:
        """Decide the messages of a batch until its end or until the group is full; then the others wait."""
        committer, messages = self._committer, batch.messages
        begin = place = batch.place
        replies: list[Reply] = []
        try:
            while place < len(messages) and not committer.is_full:
                message = messages[place]
                place += 1
                if message is not None:
                    replies.append(
                        self._reply_to(Send(message), caller, None) if type(message) is Envelope else message
                    )
                else:
                    if replies:
                        committer.answer(batch, Part(begin, replies))
                    begin, replies = place, []
        except Exception as error:
            batch.set_result(_problem("E_HUB_001", f"deciding failed: {error}"))
            self._decision_failed(error)
            return
        batch.place = place
        if replies:
            committer.answer(batch, Part(begin, replies))
        if place < len(messages):
            self._waiting.appendleft((batch, caller, batch, None))
            self._decide_urgent(batch, caller)

    def _decide_urgent(self, batch: Batch, caller: Caller) -> None:
        """Decide the Critical messages of a batch that waits."""
        messages = batch.messages
        for place in range(batch.place, len(messages)):
            message = messages[place]
            if type(message) is not Envelope or not _is_urgent(message):
                continue
            if self._overtakes(command := Send(message), caller):
                messages[place] = None
                try:
                    reply = self._reply_to(command, caller, None)
                except Exception as error:
                    self._decision_failed(error)
                    return
                self._committer.answer(batch, Part(place, [reply]))

    def _decision_failed(self, error: Exception) -> None:
        """Rebuild the state: a command may be half applied."""
        _log.error("a decision of project %s failed", self.project, exc_info=error)
        self._fail(CommitFailed("refused", f"a decision failed: {error}"))

    def _collect_pushes(self, group: OpenGroup, events: list[Event]) -> None:
        sinks, state = self._sinks, self._state.exchange.state
        for event in events:
            kind = type(event)
            if kind is ev.MessageOffered:
                sink = sinks.get(event.session)  # type: ignore[union-attr]
                if sink is not None:
                    group.pushes.append((sink, delivery_of(state, state.messages[event.message])))  # type: ignore[union-attr]
            elif kind is ev.SessionClosed:
                sinks.pop(event.session, None)  # type: ignore[union-attr]

    def _flushed(self) -> None:
        """Set the timer to what the group has made due, and decide commands that waited for room."""
        self._ticks.schedule()
        if self._waiting and not self._deciding_due:
            self._decide_waiting()

    def _decide_waiting(self) -> None:
        """Decide commands that waited for room; a limited number per iteration, so that sockets are read in between."""
        self._deciding_due = False
        waiting, left = self._waiting, self._state.storage.turn_words_max
        while waiting and left > 0 and not self._committer.is_full and self.condition is not Condition.RECOVERING:
            command, caller, waiter, sink = waiting.popleft()
            if isinstance(command, Batch):
                left -= len(command.messages) - command.place
                self._decide_batch(command, caller)
            else:
                left -= 1
                self._decide(command, caller, waiter, sink)
        if waiting and left <= 0:
            self._deciding_due = True
            self._loop.call_soon(self._decide_waiting)

    def _tick(self) -> None:
        if self.condition is Condition.SERVING:
            self.submit(Tick(), SYSTEM)

    def _cancel_timers(self) -> None:
        self._ticks.cancel()
        self._projections.cancel()

    def _tables_gave_up(self, error: JournalError) -> None:
        """Stop serving: the projection writer, on its thread, has failed as often as the policy allows."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._stop_serving, error)

    def _tables_failed(self) -> None:
        """Check whether commits still work: the projection writer, on its thread, could not write."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._probe)

    def _probe(self) -> None:
        if self.condition is Condition.SERVING:
            self.probe()

    def _probed(self, probing: "asyncio.Future[Exception | None]") -> None:
        if not probing.cancelled() and (error := probing.result()) and self.condition is Condition.SERVING:
            self._fail(error)

    def _suspend(self, reason: str) -> None:
        """Stop serving until the lease is renewed: another hub may own the project by now."""
        if self.condition is Condition.SERVING:
            _log.error("project %s is not served for now: %s", self.project, reason)
            self._suspended = True
            self.condition, self.reason = Condition.RECOVERING, reason
            self._cancel_timers()

    def _resume(self) -> None:
        """Serve again after a lapse in which nobody has taken over."""
        if self._suspended and self.condition is Condition.RECOVERING and self._recovery is None:
            _log.info("project %s is served again: the lease is renewed", self.project)
            self._serve()
            self._flushed()

    def _fail(self, error: Exception | None) -> None:
        """Answer every waiting caller with a problem and rebuild the state; stop if that is not possible."""
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
        waiting = list(self._waiting)
        self._waiting.clear()
        self._committer.refuse_all(problem)
        for _, _, waiter, _ in waiting:
            if not waiter.done():
                waiter.set_result(problem)

    async def _recover(self) -> None:
        """Rebuild the state from what is stored, and serve again; stop if that fails."""
        try:
            loaded = await self._loader.reload(self.storage, self._not_recovered_yet)
        except Exception as error:
            self._recovery = None
            self._step_down(error)
            return
        self._recovery = None
        self._use(loaded)
        self._serve()
        self._resume_sessions()

    def _not_recovered_yet(self, reason: str) -> None:
        self.reason = reason

    def _resume_sessions(self) -> None:
        """Continue to push to the attached sessions; forget those that the rebuilt state does not have."""
        state = self.exchange.state
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

    def _stop(self, reason: str, level: int = logging.ERROR) -> None:
        if not self._stopped.is_set():
            self.condition, self.reason = Condition.STOPPED, reason
            self._refuse_all(self._unavailable())
            self._cancel_timers()
            self._stopped.set()
            _log.log(level, "project %s stopped: %s", self.project, reason)

    def _unavailable(self) -> Problem:
        if self.condition is Condition.RECOVERING:
            return _problem("E_HUB_001", f"the commit failed and the state is being rebuilt: {self.reason}")
        return _problem(self._stop_code, f"this hub does not serve the project any more: {self.reason}")


def _is_urgent(envelope: Envelope) -> bool:
    return VOCABULARY.get(envelope.priority or "", 0) >= Priority.CRITICAL


def _problem(code: str, detail: str) -> Problem:
    return Problem(code, detail, retryable=CATALOGUE[code].retryable)
