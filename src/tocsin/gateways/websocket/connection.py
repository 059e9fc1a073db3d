"""Connection of one socket: reads frames, submits their operations and answers them once they are durable.

Theory of operation. All operations of a frame are submitted before any is awaited, so they share a commit. One callback
on the last of them handles all: when it is done the others are too, and their answers leave in one frame, with the
pushes of the same commit. Reading stops while too many operations are unanswered, or too many outgoing bytes have not
been read by the client; that is the back pressure.

A frame is decided in the call that delivers it, or in the iteration in which the fair queue admits it. One that has to
wait for room, or for several turns, is decided by a task. Frames that arrive behind one that waits wait too, and
reading pauses.
"""

import asyncio
import logging
from collections import deque
from functools import partial
from typing import Any

import msgspec

from tocsin.core import commands as cmd
from tocsin.core.commands import Reply
from tocsin.core.errors import Problem, TocsinError, refusal
from tocsin.gateways.identity import check_again
from tocsin.gateways.websocket.counters import SocketMetrics
from tocsin.gateways.websocket.fair_queue import FairQueue
from tocsin.gateways.websocket.frames import Frames
from tocsin.gateways.websocket.hello import attach, welcome
from tocsin.gateways.websocket.notices import ChannelNotices
from tocsin.gateways.websocket.operations import COMMANDS, VIEWS, find_operation
from tocsin.gateways.websocket.outbox import Outbox
from tocsin.gateways.websocket.priority_scan import PriorityScan
from tocsin.gateways.websocket.pushes import Pushes
from tocsin.gateways.websocket.sessions import Sessions
from tocsin.hub.auth.tokens import Grant
from tocsin.hub.config import SocketConfig
from tocsin.hub.operations import Call, in_first_version, perform, speaks_first_version
from tocsin.hub.service import Hub
from tocsin.wire import socket as wire
from tocsin.wire.problems import HTTP_ENTRIES, document_of
from tocsin.wire.signatures import arguments_body

__all__ = ["GOING_AWAY", "Connection"]

_log = logging.getLogger("tocsin.websocket")
#: Assumed size of an answer in bytes; only the answers of `call` are measured.
_ANSWER_BYTES = 512
#: Key that every operation has; counting it estimates the operations of a frame that has not been parsed.
_OPERATION = b'"op"'
#: Closing code of the WebSocket protocol for a hub that stops or has moved the project.
GOING_AWAY = 1001
#: Closing codes of the WebSocket protocol: text that is not UTF-8; a ping without an answer.
_NOT_UTF_8, _NO_PONG, _TRY_AGAIN = 1007, 1011, 1013
_SUBMITTED = tuple[int | None, type, "asyncio.Future[Reply]"]


class Connection:
    """One socket of one agent."""

    def __init__(
        self,
        hub: Hub,
        sessions: Sessions,
        metrics: SocketMetrics,
        fair_queue: FairQueue,
        priority_scan: PriorityScan,
        notices: ChannelNotices,
        grant: Grant,
    ) -> None:
        self.grant = grant
        self._hub = hub
        self._host = hub.host
        self._sessions = sessions
        self._caller = grant.caller
        self._config: SocketConfig = hub.config.socket
        self._metrics = metrics
        self._fair_queue = fair_queue
        self._priority_scan = priority_scan
        self._notices = notices
        self._loop = asyncio.get_running_loop()
        self._frames: Frames
        self._gone: asyncio.Future[None] = self._loop.create_future()
        #: Task of a frame that waits for room, and turn of one that waits in the fair queue; never both.
        self._reader: asyncio.Task[None] | None = None
        self._admitted: asyncio.Future[None] | None = None
        self._paused = False
        self._unread: deque[tuple[bytes, bool]] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._room: asyncio.Future[None] | None = None
        self._unanswered = 0
        self._faults = 0
        self._greeted = False
        self._ending: tuple[int, str, bool] | None = None
        self._moves_to: str | None = None
        #: Whether another hub has passed the connection on: its client may be unable to reach this one.
        self.forwarded = False
        self._refusal: str | None = None
        self._aborted = False
        self._heartbeat_at = self._loop.time()
        config = self._config
        self.outbox = Outbox(config.batch_max, config.frame_bytes_max, metrics.frames_out, self._progressed, self.abort)
        self._pushes = Pushes(hub.host, self.outbox, config.outgoing_bytes_max, metrics.pushes)
        #: Its session; None before the answer to `hello`.
        self.session: str | None = None
        #: When it was opened, and when its last frame arrived, in the loop's time.
        self.opened_at = self.active_at = self._loop.time()

    @property
    def ending(self) -> bool:
        """Tell whether it is being closed."""
        return self._ending is not None

    async def run(self, frames: Frames) -> None:
        """Serve the socket until the connection has ended."""
        self._frames = frames
        self.outbox.open(frames)
        try:
            await self._gone
        finally:
            if self._reader is not None:
                self._reader.cancel()
            if self._admitted is not None:
                self._admitted.cancel()
            self._notices.remove(self.grant.agent, self)
            self._close_session()

    def disconnected(self) -> None:
        """Note that the connection has ended."""
        if not self._gone.done():
            self._gone.set_result(None)

    def writable(self, *, now: bool) -> None:
        """Note that the client has stopped reading, or reads again."""
        self.outbox.writable(now=now)

    def check_alive(self, now: float, interval_s: float, timeout_s: float) -> None:
        """Send a ping after a quiet interval; drop a client that does not answer one."""
        frames = self._frames
        if frames.pinged_at is not None:
            if now - frames.pinged_at > timeout_s:
                self._ending = self._ending or (_NO_PONG, "the client did not answer a ping", True)
                frames.close(_NO_PONG, "no pong")
                self.abort("the client did not answer a ping")
        elif now - max(self.active_at, frames.ponged_at) > interval_s:
            frames.ping()

    def end(self, code: int, reason: str, *, resume: bool, address: str | None = None) -> None:
        """Stop reading, answer what was received, send the reason and close; `address` is where to go on."""
        if self._ending is None:
            self._ending = (code, reason, resume)
            self._moves_to = address
            self._continue_reading()
            self._close_if_answered()

    def abort(self, reason: str) -> None:
        """Drop the connection without sending the reason: the client does not read, or the hub failed."""
        if not self._aborted:
            self._aborted = True
            self._ending = self._ending or (4408, reason, True)
            self.outbox.abandon()
            self._frames.abort()

    def replaced(self) -> None:
        """Close, because another socket has resumed the session."""
        self.release("another socket has resumed this session")

    def release(self, reason: str) -> None:
        """Give up the session and close."""
        self.session = None
        self.end(4409, reason, resume=False)

    def send_heartbeat(self, interval_s: float) -> None:
        """Submit a heartbeat if the client was active since the last one and the interval is over."""
        now, last = self._loop.time(), self._heartbeat_at
        if self.session is not None and self.active_at > last and now - last > interval_s:
            self._heartbeat_at = now
            self._host.submit(cmd.Heartbeat(self.session), self._caller)

    def check_token(self) -> bool:
        """Tell whether the token is still valid; if not, close the socket and its session.

        Where tokens cannot be checked for now, the session is kept.
        """
        try:
            check_again(self._hub, self.grant)
        except TocsinError as error:
            if error.problem.retryable:
                self.end(_TRY_AGAIN, error.problem.detail, resume=True)
                return False
            session, self.session = self.session, None
            if session is not None:
                self._sessions.forget(session, self)
                self._sessions.close(session)
            self._refusal = error.code
            self.end(4401, error.problem.detail, resume=False)
            return False
        return True

    def received(self, data: bytes, *, text: bool) -> None:
        """Decide the operations of a frame, or let it wait."""
        if self._admitted is not None or self._reader is not None:
            self._unread.append((data, text))
            self._pause_reading()
        elif self._ending is None:
            self._take(data, text=text)

    def _pause_reading(self) -> None:
        if not self._paused:
            self._paused = True
            self._frames.pause_reading()

    def _read_unread(self) -> None:
        """Decide the frames that have arrived behind one that had to wait, and read on."""
        while self._unread and self._ending is None:
            data, text = self._unread.popleft()
            self._take(data, text=text)
            if self._admitted is not None or self._reader is not None:
                return
        self._unread.clear()
        if self._paused:
            self._paused = False
            self._frames.resume_reading()

    def _take(self, data: bytes, *, text: bool) -> None:
        """Decide the operations of a frame, or let them wait."""
        self._metrics.frames_in.value += 1
        self.active_at = self._loop.time()
        if not text:
            self._fault(
                wire.Fault(None, Problem("E_PROTOCOL_002", "a binary frame is not accepted", expected="a text frame"))
            )
            return
        most, number = self._fair_queue.operations_max, data.count(_OPERATION)
        if number <= most and self._fair_queue.admit(number):  # Urgent or not: nothing of it waits.
            self._decide(self._parse(data), None, maybe_urgent=False)
            return
        if self._priority_scan.may_be_urgent(data):
            operations = self._parse(data)
            self._decide(operations, self._enter(operations[:most]), maybe_urgent=True)
            return
        admitted = self._fair_queue.enter(min(most, number), urgent=False)
        if admitted is None:
            self._decide(self._parse(data), None, maybe_urgent=False)
        else:
            self._admitted = admitted
            admitted.add_done_callback(partial(self._decide_admitted, data))

    def _decide_admitted(self, data: bytes, admitted: "asyncio.Future[None]") -> None:
        """Decide a frame whose turn has come, and those behind it."""
        self._admitted = None
        if admitted.cancelled():
            return
        if self._ending is None:
            self._decide(self._parse(data), None, maybe_urgent=False)
        if self._reader is None:
            self._read_unread()

    def _decide(
        self,
        operations: list[wire.Operation | wire.Fault],
        admitted: "asyncio.Future[None] | None",
        *,
        maybe_urgent: bool,
    ) -> None:
        """Decide operations, in a task if they have to wait for their turn or for room."""
        if admitted is not None or len(operations) > self._fair_queue.operations_max or self._is_full(len(operations)):
            self._pause_reading()
            self._reader = self._loop.create_task(self._read_on(operations, admitted, maybe_urgent=maybe_urgent))
        elif self._ending is None and self.check_token():
            self._submit(operations)

    async def _read_on(
        self,
        operations: list[wire.Operation | wire.Fault],
        admitted: "asyncio.Future[None] | None",
        *,
        maybe_urgent: bool,
    ) -> None:
        """Decide operations that have to wait, and the frames behind them."""
        await self._decide_in_turns(operations, admitted, maybe_urgent=maybe_urgent)
        self._reader = None
        self._read_unread()

    def _enter(self, operations: list[wire.Operation | wire.Fault]) -> "asyncio.Future[None] | None":
        return self._fair_queue.enter(len(operations), urgent=self._priority_scan.is_urgent(operations))

    def _parse(self, data: bytes) -> list[wire.Operation | wire.Fault]:
        operations = wire.read_frame(data, self._config.batch_max)
        if any(type(operation) is wire.Fault for operation in operations) and not _is_utf_8(data):
            self.end(_NOT_UTF_8, "a text frame is not UTF-8", resume=True)
            return []
        return operations

    async def _decide_in_turns(
        self,
        operations: list[wire.Operation | wire.Fault],
        admitted: "asyncio.Future[None] | None",
        *,
        maybe_urgent: bool,
    ) -> None:
        """Decide operations once there is room, in the turns that the fair queue gives; `admitted` is the first."""
        most = self._fair_queue.operations_max
        while self._is_full(len(operations)) and self._ending is None:
            self._room = self._loop.create_future()
            await self._room
        for start in range(0, len(operations), most):
            some = operations[start : start + most]
            if start:
                admitted = self._enter(some) if maybe_urgent else self._fair_queue.enter(len(some), urgent=False)
            if admitted is not None:
                await admitted
            if self._ending is not None or not self.check_token():
                return
            self._submit(some)

    def _is_full(self, more: int) -> bool:
        crowded = self._unanswered > 0 and self._unanswered + more > self._config.in_flight_max
        return crowded or self.outbox.queued_bytes > self._config.outgoing_bytes_max

    def _continue_reading(self) -> None:
        room, self._room = self._room, None
        if room is not None and not room.done():
            room.set_result(None)

    def _submit(self, operations: list[wire.Operation | wire.Fault]) -> None:
        """Submit operations to the exchange, in order."""
        submitted: list[_SUBMITTED] = []
        counts: dict[type, int] = {}
        hub, grant, caller, submit = self._hub, self.grant, self._caller, self._host.submit
        for operation in operations:
            kind = type(operation)
            counts[kind] = counts.get(kind, 0) + 1
            command_of = COMMANDS.get(kind)
            try:
                if type(operation) is wire.Confirm and operation.id is None and self._greeted:
                    # Nobody waits for the answer, so it needs no commit of its own.
                    for message_id in operation.message_ids:
                        self._host.confirm(message_id, caller)
                elif command_of is not None and self._greeted:
                    command = command_of(operation, hub, grant)
                    submitted.append((operation.id, kind, submit(command, caller)))
                else:
                    self._do(operation, submitted)
            except TocsinError as error:
                self._refuse(operation.id, error.problem)
            if self._ending is not None:
                break
        for kind, count in counts.items():
            self._metrics.operations[kind].value += count
        if submitted:
            self._unanswered += len(submitted)
            self._answer_later(submitted[-1][2], submitted)

    def _answer_later(self, awaited: "asyncio.Future[Reply]", submitted: list[_SUBMITTED]) -> None:
        awaited.add_done_callback(lambda _: self._answer(submitted))

    def _answer(self, submitted: list[_SUBMITTED]) -> None:
        """Answer in order up to the first missing reply; one is missing only if the host is full or failing."""
        answered = 0
        put, state = self.outbox.put, self._host.exchange.state
        first_version = speaks_first_version(state, self.grant.agent)
        for id_, kind, future in submitted:
            if not future.done():
                self._answer_later(future, submitted[answered:])
                break
            answered += 1
            if id_ is None:
                continue
            reply = future.result()
            if type(reply) is Problem:
                self._refuse(id_, reply)
                continue
            if first_version:
                reply = in_first_version(reply, state)
            view = VIEWS.get(kind)
            put(wire.Answer(id_, reply if view is None else view(reply)), _ANSWER_BYTES)
        self._unanswered -= answered
        self._continue_reading()
        self._close_if_answered()

    def _do(self, operation: wire.Operation | wire.Fault, submitted: list[_SUBMITTED]) -> None:
        """Start an operation that is more than one command, or refuse one that must follow `hello`."""
        match operation:
            case wire.Fault():
                self._fault(operation)
            case wire.Hello():
                if self._greeted:
                    raise refusal("E_STATE_002", "hello was already sent on this socket")
                self._greeted = True
                self._start(self._hello(operation))
            case _ if self.session is None:
                raise refusal("E_STATE_003", "this socket has no session: send hello first and wait for its answer")
            case wire.Credit():
                future = self._host.submit(cmd.GrantCredit(self.session, operation.window), self._caller)
                submitted.append((operation.id, wire.Credit, future))
            case wire.Ping():
                self._start(self._ping(operation.id, self.session))
            case wire.Call():
                self._start(self._call(operation))
            case wire.Bye():
                self._start(self._bye(operation.id, self.session))
                self._ending = (1000, "bye", False)

    def _start(self, work: Any) -> None:
        """Run an operation of several steps as a task; it counts as unanswered until the task is done."""
        self._unanswered += 1
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        self._unanswered -= 1
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("serving a socket failed", exc_info=error)
            self.abort("the hub failed")
        self._continue_reading()
        self._close_if_answered()

    async def _hello(self, hello: wire.Hello) -> None:
        try:
            attached = await attach(self._host, self._sessions, self._caller, hello, self, self._pushes.take)
            if self.outbox.closed or self._ending is not None:
                self._sessions.drop(attached.session, self)
                code, reason, _ = self._ending or (1006, "the socket is gone", True)
                # A client whose hub stops or has moved the project tries again, and finds the hub that serves it.
                raise refusal("E_HUB_003" if code == GOING_AWAY else "E_STATE_003", reason)
            answer = welcome(self._host, self._config, self.grant.agent, attached)
        except TocsinError as error:
            self._greeted = False
            self._pushes.discard_early()
            self._refuse(hello.id, error.problem)
            return
        self.session = attached.session
        self.outbox.put(wire.Answer(hello.id, answer), _ANSWER_BYTES)
        self._pushes.begin()
        if hello.channel:
            self._notices.add(self.grant.agent, self)
        fields = {"agent": self.grant.agent, "session": attached.session, "resumed": attached.resumed}
        _log.info("hello", extra={"fields": fields})

    def notice(self, delivery: cmd.Delivery) -> None:
        """Tell a channel of a message that waits; a notice for which there is no room is dropped."""
        if self.session is not None and self.outbox.queued_bytes <= self._config.outgoing_bytes_max:
            envelope = delivery.envelope
            item = wire.Push(wire.Deliver(delivery.signal_id, 0, self.session, msgspec.Raw(envelope)))
            self.outbox.put(item, len(envelope) + _ANSWER_BYTES)

    async def _ping(self, id_: int, session: str) -> None:
        self._heartbeat_at = self._loop.time()
        reply = await self._host.submit(cmd.Heartbeat(session), self._caller)
        known = self._host.exchange.state.agents.get(self.grant.agent)
        if isinstance(reply, Problem):
            self._refuse(id_, reply)
        else:
            waiting = () if known is None else known.mailbox.depths()
            self.outbox.put(wire.Answer(id_, wire.Waiting(waiting)), _ANSWER_BYTES)

    async def _call(self, call: wire.Call) -> None:
        performing = Call(self._hub.project, self._caller, self.grant)
        try:
            raw = msgspec.Raw(msgspec.json.encode(await self._performed(call, performing)))
        except TocsinError as error:
            self._refuse(call.id, error.problem)
        except Exception:
            _log.exception("%s failed", call.operation)
            entry = HTTP_ENTRIES[500]
            problem = Problem(entry.code, "the hub failed to answer; its log has the reason", retryable=entry.retryable)
            self.outbox.put(wire.Refusal(call.id, document_of(problem, entry)), _ANSWER_BYTES)
        else:
            self.outbox.put(wire.Answer(call.id, raw), len(bytes(raw)))

    async def _performed(self, call: wire.Call, performing: Call) -> Any:
        operation = find_operation(call.operation)
        self._hub.must_be_open()
        with self._hub.request_limits.one_of(self.grant.agent):
            envelope = None if call.envelope is msgspec.UNSET else bytes(call.envelope)
            if operation.signed:
                performing.check_signature(arguments_body(call.arguments), call.signature)
            request = performing.read(operation, call.arguments, envelope, call.signature)
            return await perform(performing, operation, request)

    async def _bye(self, id_: int | None, session: str) -> None:
        self.session = None
        self._sessions.forget(session, self)
        reply = await self._host.submit(cmd.CloseSession(session), self._caller)
        if id_ is not None:
            if isinstance(reply, Problem):
                self._refuse(id_, reply)
            else:
                self.outbox.put(wire.Answer(id_, reply), _ANSWER_BYTES)

    def _progressed(self) -> None:
        """Continue reading and pushing after the outbox was full."""
        if self._pushes.has_room:
            self._continue_reading()
            if self.session is not None:
                self._pushes.retry_deferred(self.session)

    def _refuse(self, id_: int | None, problem: Problem) -> None:
        self._metrics.count_problem(problem.code)
        self.outbox.put(wire.Refusal(id_, document_of(problem)), _ANSWER_BYTES)

    def _fault(self, fault: wire.Fault) -> None:
        self._refuse(fault.id, fault.problem)
        self._faults += 1
        if self._faults >= self._config.faults_max:
            self.end(4400, f"{self._faults} operations could not be parsed", resume=True)

    def _close_if_answered(self) -> None:
        """Close an ending socket once every operation has been answered."""
        if self._ending is not None and not self._unanswered and not self.outbox.closed:
            code, reason, resume = self._ending
            goodbye = None if code == 1000 else wire.Goodbye(wire.Leave(reason, resume, self._refusal, self._moves_to))
            self.outbox.close(goodbye, code, reason[:100])

    def _close_session(self) -> None:
        """Detach the session, so that the agent can resume it, and log the end of the socket."""
        self.outbox.abandon()
        session, self.session = self.session, None
        if session is not None and not self._hub.closing.is_set():
            self._sessions.drop(session, self)
        code, reason, _ = self._ending or (1006, "dropped", True)
        fields = {
            "agent": self.grant.agent,
            "session": session,
            "code": code,
            "reason": reason,
            "frames": self.outbox.frames,
            "took_s": round(self._loop.time() - self.opened_at, 3),
        }
        _log.info("closed", extra={"fields": fields})


def _is_utf_8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
