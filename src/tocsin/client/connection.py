"""Staying attached: one link after another, and no call lost between them.

Theory of operation. Calls become operations and join the backlog; one writer per link takes them out in batches, as
many as the hub allows unanswered. One reader per link gives answers to whoever waits, and deliveries to the inbox.
When the link is lost, what was written and not answered goes back to the head of the backlog, as it was: a send
carries the same messageId, so the hub does it once. Attaching again asks for the same session; what the hub pushes
again is the inbox's to recognise. Every call has a deadline, whatever the link does.

A link may be lost for a reason that trying again does not change: a token that is revoked, a protocol that is broken.
Then the connection has failed, and every call, now and later, raises that reason.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from enum import StrEnum
from typing import Any

import msgspec

from tocsin.client.backoff import Backoff
from tocsin.client.config import ClientConfig
from tocsin.client.errors import error_of, no_answer, unreachable
from tocsin.client.operations import Bye, Confirm, Credit, Hello, Operation, Ping, Send
from tocsin.client.replies import Nothing, Waiting, Welcome
from tocsin.client.transport import Answer, Delivery, Farewell, Item, Link, LinkLost, Transport
from tocsin.core.errors import InvariantViolation, Problem, TocsinError, ValidationFailed, refusal

__all__ = ["Connection", "ConnectionState"]

_log = logging.getLogger("tocsin.client")
_WELCOME = msgspec.json.Decoder(Welcome)
_WAITING = msgspec.json.Decoder(Waiting)
_NOTHING = msgspec.json.Decoder(Nothing)
#: What an operation takes of a frame beside its envelope, bytes, generously.
_OVERHEAD_BYTES = 256


class ConnectionState(StrEnum):
    """How a client is attached."""

    CONNECTING = "connecting"
    CONNECTED = "connected"
    #: The link was lost; another is being sought.
    RECONNECTING = "reconnecting"
    #: Left, as asked.
    CLOSED = "closed"
    #: Lost for good; `Connection.error` says why.
    FAILED = "failed"


class _Pending:
    """A call that has no answer yet."""

    __slots__ = ("deadline", "decoder", "future", "operation")

    def __init__(
        self, operation: Operation, decoder: "msgspec.json.Decoder[Any]", future: "asyncio.Future[Any]", deadline: float
    ) -> None:
        self.operation = operation
        self.decoder = decoder
        self.future = future
        self.deadline = deadline


class Connection:
    """Keeps one agent attached."""

    def __init__(
        self,
        transport: Transport,
        config: ClientConfig,
        greeting: Callable[[str | None], Hello],
        welcomed: Callable[[Welcome], None],
        deliver: Callable[[Delivery], None],
        overdrawn: Callable[[int], None],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport = transport
        self._config = config
        self._greeting = greeting
        self._welcomed = welcomed
        self._deliver = deliver
        self._overdrawn = overdrawn
        self._state = ConnectionState.CONNECTING
        self._watchers: list[Callable[[ConnectionState], None]] = []
        self._expected: list[tuple[frozenset[ConnectionState], asyncio.Future[ConnectionState]]] = []
        self._runner: asyncio.Task[None] | None = None
        self._last_id = 0
        self._backlog: deque[_Pending] = deque()
        self._unanswered: dict[int, _Pending] = {}
        self._receipts: list[str] = []
        self._credit: int | None = None
        self._work = asyncio.Event()
        self._quiet = asyncio.Event()
        self._quiet.set()
        self._sweeper: asyncio.TimerHandle | None = None
        self._asked_at: float | None = None
        self._closing = False
        #: What the hub said when the present link began, or the last one.
        self.welcome: Welcome | None = None
        #: Why it has failed.
        self.error: TocsinError | None = None
        #: Messages that wait at the hub, by priority, as last heard.
        self.waiting: tuple[int, ...] = ()

    @property
    def state(self) -> ConnectionState:
        """Return how it is attached."""
        return self._state

    @property
    def has_room(self) -> bool:
        """Tell whether many more calls can be made: half of the backlog is for those that come alone."""
        return len(self._backlog) + len(self._unanswered) < max(1, self._config.backlog_max // 2)

    def watch(self, watcher: Callable[[ConnectionState], None]) -> None:
        """Call a function at every change of state."""
        self._watchers.append(watcher)

    async def until(self, *states: ConnectionState) -> ConnectionState:
        """Wait for one of some states, even if it lasts but a moment."""
        if self._state in states:
            return self._state
        future: asyncio.Future[ConnectionState] = self._loop.create_future()
        self._expected.append((frozenset(states), future))
        return await future

    async def open(self) -> None:
        """Attach for the first time, or raise why not."""
        self._runner = self._loop.create_task(self._run(), name="tocsin connection")
        try:
            await self.until(ConnectionState.CONNECTED, ConnectionState.FAILED)
        except BaseException:
            await self._end(ConnectionState.CLOSED)
            raise
        if self.error is not None:
            await self._end(ConnectionState.FAILED)
            raise self.error

    async def close(self) -> None:
        """Leave properly: what is under way is answered first, as far as there is time."""
        if self._closing:
            return
        self._closing = True
        try:
            if self._state is ConnectionState.CONNECTED:
                async with asyncio.timeout(self._config.close_timeout_s):
                    await self._settle()
                    await self._submit(Bye(), _NOTHING, self._config.close_timeout_s)
        except (TimeoutError, TocsinError) as error:
            _log.debug("left without a farewell: %s", error)
        finally:
            await self._end(ConnectionState.CLOSED)

    def submit(self, operation: Operation, decoder: "msgspec.json.Decoder[Any]", timeout_s: float) -> Any:
        """Ask for something; the future holds the reply, or raises the refusal."""
        if self.error is not None:
            raise self.error
        if self._closing:
            raise refusal("E_STATE_003", "this agent has left: connect again", retryable=False)
        if len(self._backlog) + len(self._unanswered) >= self._config.backlog_max:
            detail = f"{self._config.backlog_max} calls wait for an answer already"
            raise refusal("E_ADMISSION_008", detail, field="$.backlog_max")
        return self._submit(operation, decoder, timeout_s)

    def _submit(
        self, operation: Operation, decoder: "msgspec.json.Decoder[Any]", timeout_s: float
    ) -> "asyncio.Future[Any]":
        self._last_id += 1
        operation.id = self._last_id
        future: asyncio.Future[Any] = self._loop.create_future()
        self._backlog.append(_Pending(operation, decoder, future, self._loop.time() + timeout_s))
        self._quiet.clear()
        self._work.set()
        if self._sweeper is None:
            self._sweeper = self._loop.call_later(self._config.sweep_interval_s, self._sweep)
        return future

    def confirm(self, signal_id: str) -> None:
        """Let a receipt go with the next frame."""
        self._receipts.append(signal_id)
        self._work.set()

    def credit(self, window: int) -> None:
        """Let the hub know how many offers to make from now on."""
        self._credit = window
        self._work.set()

    async def _run(self) -> None:
        """Seek links and serve them until told to stop, or until there is no point."""
        backoff = Backoff(self._config.backoff_first_s, self._config.backoff_max_s)
        patience = self._config.connect_timeout_s
        give_up_at: float | None = self._loop.time() + patience
        session: str | None = None
        while True:
            lost: LinkLost
            link: Link | None = None
            try:
                link, welcome, items = await self._attach(session)
                session = welcome.session
                self._take_up(welcome)
                backoff.reset()
                give_up_at = None
                await self._serve(link, items)
                return
            except LinkLost as error:
                lost = error
            except TocsinError as error:
                lost = LinkLost(str(error), refused=error.problem)
            except Exception as error:
                _log.exception("the client failed")
                lost = LinkLost(str(error), refused=Problem("E_HUB_004", f"the client failed: {error!r}"))
            finally:
                if link is not None:
                    await link.close()
            self._requeue()
            if lost.refused is not None and not lost.refused.retryable:
                self._fail(error_of(lost.refused))
                return
            if not lost.resumable:
                session = None
            if self._state is ConnectionState.CONNECTED:
                _log.info("connection lost: %s", lost)
                self._change(ConnectionState.RECONNECTING)
            if give_up_at is None and self._config.reconnect_timeout_s is not None:
                give_up_at = self._loop.time() + self._config.reconnect_timeout_s
            wait_s = backoff.next_s()
            if lost.refused is not None:
                wait_s = max(wait_s, lost.refused.retry_after_s or 0.0)
            if give_up_at is not None and self._loop.time() + wait_s > give_up_at:
                gone = unreachable(f"no hub answers: {lost}")
                self._fail(gone if lost.refused is None else error_of(lost.refused))
                return
            await asyncio.sleep(wait_s)

    async def _attach(self, session: str | None) -> tuple[Link, Welcome, list[Item]]:
        """Dial and be greeted; whatever comes beside the greeting is not lost."""
        link: Link | None = None
        try:
            async with asyncio.timeout(self._config.dial_timeout_s):
                link = await self._transport.dial()
                hello = self._greeting(session)
                hello.id = 0
                await link.send([hello])
                items: list[Item] = []
                while True:
                    items += await link.receive()
                    for number, item in enumerate(items):
                        if isinstance(item, Answer) and item.re == 0:
                            if item.problem is not None:
                                raise error_of(item.problem)
                            del items[number]
                            return link, _read(_WELCOME, item), items
                        if isinstance(item, Farewell):
                            raise LinkLost(item.reason, resumable=item.resume)
        except TimeoutError:
            await _let_go(link)
            raise LinkLost(f"no greeting within {self._config.dial_timeout_s:g} s") from None
        except BaseException:
            await _let_go(link)
            raise

    def _take_up(self, welcome: Welcome) -> None:
        self.welcome = welcome
        self.waiting = welcome.waiting
        self._credit = None
        self._welcomed(welcome)
        self._change(ConnectionState.CONNECTED)

    async def _serve(self, link: Link, items: list[Item]) -> None:
        """Read, write and show life until the link is lost."""
        self._asked_at = None
        self._work.set()
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._read(link, items), name="tocsin reader")
                tasks.create_task(self._write(link), name="tocsin writer")
                tasks.create_task(self._beat(), name="tocsin heartbeat")
        except* LinkLost as group:
            lost = group.exceptions[0]
            while isinstance(lost, BaseExceptionGroup):
                lost = lost.exceptions[0]
            raise lost from None

    async def _read(self, link: Link, items: list[Item]) -> None:
        farewell: Farewell | None = None
        while True:
            for item in items:
                if type(item) is Answer:
                    self._answered(item)
                elif type(item) is Delivery:
                    self._deliver(item)
                elif isinstance(item, Farewell):
                    farewell = item
            self._note_quiet()
            try:
                items = list(await link.receive())
            except LinkLost as lost:
                if farewell is not None and lost.refused is None:
                    raise LinkLost(farewell.reason, resumable=farewell.resume) from None
                raise
            self._asked_at = None

    def _note_quiet(self) -> None:
        if not self._unanswered and not self._backlog:
            self._quiet.set()

    def _answered(self, answer: Answer) -> None:
        pending = None if answer.re is None else self._unanswered.pop(answer.re, None)
        if len(self._unanswered) < self._in_flight_max and self._backlog:
            self._work.set()
        if pending is None:
            if answer.problem is not None:
                _log.warning("the hub did not take an operation: %s", answer.problem.detail)
            return
        if pending.future.done():
            return
        if answer.problem is not None:
            pending.future.set_exception(error_of(answer.problem))
            return
        try:
            pending.future.set_result(_read(pending.decoder, answer))
        except msgspec.DecodeError as error:
            pending.future.set_exception(refusal("E_PROTOCOL_002", f"the hub's answer cannot be read: {error}"))

    async def _write(self, link: Link) -> None:
        while True:
            batch = self._next_batch()
            if batch:
                if self._asked_at is None and self._unanswered:
                    self._asked_at = self._loop.time()
                await link.send(batch)
            else:
                self._note_quiet()
                self._work.clear()
                await self._work.wait()

    @property
    def _in_flight_max(self) -> int:
        return 1 if self.welcome is None else self.welcome.in_flight_max

    def _next_batch(self) -> list[Operation]:
        """Take what goes into the next frame: receipts, credit, and calls as far as the hub takes them."""
        welcome = self.welcome
        if welcome is None:
            raise InvariantViolation("nothing can be written before the greeting")
        count = min(self._config.batch, welcome.batch_max)
        batch: list[Operation] = []
        if self._receipts:
            batch.append(Confirm(message_ids=self._receipts[: welcome.batch_max]))
            del self._receipts[: welcome.batch_max]
        if self._credit is not None:
            batch.append(self._credit_operation(self._credit))
            self._credit = None
        room = welcome.frame_bytes_max - sum(map(_size, batch))
        backlog, unanswered = self._backlog, self._unanswered
        while backlog and len(batch) < count and len(unanswered) < welcome.in_flight_max:
            pending = backlog[0]
            if pending.future.done():
                backlog.popleft()
                continue
            size = _size(pending.operation)
            if isinstance(pending.operation, Send) and size > welcome.message_bytes_max + _OVERHEAD_BYTES:
                backlog.popleft()
                pending.future.set_exception(_too_large(pending.operation, welcome))
                continue
            if size > room and batch:
                break
            backlog.popleft()
            room -= size
            unanswered[pending.operation.id or 0] = pending
            batch.append(pending.operation)
        return batch

    def _credit_operation(self, window: int) -> Credit:
        """Ask for a credit: a policy may allow less than this client is configured for, and says so only then."""
        self._last_id += 1
        operation = Credit(id=self._last_id, window=window)
        future: asyncio.Future[Any] = self._loop.create_future()
        future.add_done_callback(lambda told: self._credited(told, window))
        deadline = self._loop.time() + self._config.call_timeout_s
        self._unanswered[self._last_id] = _Pending(operation, _NOTHING, future, deadline)
        return operation

    def _credited(self, told: "asyncio.Future[Any]", window: int) -> None:
        if not told.cancelled() and isinstance(told.exception(), ValidationFailed):
            _log.warning("a window of %d is more than the hub allows", window)
            self._overdrawn(window)

    async def _beat(self) -> None:
        """Show life, and notice when the other end shows none."""
        if self.welcome is None:
            raise InvariantViolation("no heart beats before the greeting")
        every_s, silence_s = self.welcome.heartbeat_s, self._config.silence_max_s
        beat_at = self._loop.time() + every_s
        while True:
            await asyncio.sleep(min(every_s, silence_s / 4))
            now = self._loop.time()
            if self._asked_at is not None and now - self._asked_at > silence_s:
                raise LinkLost(f"no sign of the hub for {now - self._asked_at:.1f} s")
            if now >= beat_at:
                beat_at = now + every_s
                told = self._submit(Ping(), _WAITING, silence_s)
                told.add_done_callback(self._note_waiting)

    def _note_waiting(self, told: "asyncio.Future[Any]") -> None:
        if not told.cancelled() and told.exception() is None:
            self.waiting = told.result().waiting

    def _requeue(self) -> None:
        """Put what was not answered back to the head of the backlog, as it was; what was about the link is moot."""
        unanswered = [pending for pending in self._unanswered.values() if not pending.future.done()]
        self._unanswered.clear()
        for pending in reversed(unanswered):
            if isinstance(pending.operation, Ping | Bye | Credit):
                pending.future.cancel()
            else:
                self._backlog.appendleft(pending)

    def _sweep(self) -> None:
        """Give up on calls that have waited too long."""
        self._sweeper = None
        now = self._loop.time()
        for pending in (*self._unanswered.values(), *self._backlog):
            if now >= pending.deadline and not pending.future.done():
                operation = pending.operation
                name = type(operation).__name__.lower()
                pending.future.set_exception(no_answer(f"no answer to {name} in time, while {self._state}"))
        if self._unanswered or self._backlog:
            self._sweeper = self._loop.call_later(self._config.sweep_interval_s, self._sweep)

    async def _settle(self) -> None:
        """Wait until all calls are answered and all receipts are written."""
        await self._quiet.wait()
        # A call that is answered after the receipts were written shows that they have been read.
        await self._submit(Ping(), _WAITING, self._config.close_timeout_s)

    def _change(self, state: ConnectionState) -> None:
        self._state = state
        expected, self._expected = self._expected, []
        for states, future in expected:
            if future.done():
                continue
            if state in states:
                future.set_result(state)
            else:
                self._expected.append((states, future))
        for watcher in self._watchers:
            try:
                watcher(state)
            except Exception:
                _log.exception("a watcher of the connection failed")

    def _fail(self, error: TocsinError) -> None:
        self.error = error
        self._refuse_all(error)
        self._change(ConnectionState.FAILED)

    async def _end(self, state: ConnectionState) -> None:
        """Stop everything, and wait until it has stopped."""
        self._closing = True
        runner, self._runner = self._runner, None
        if runner is not None:
            runner.cancel()
            await asyncio.gather(runner, return_exceptions=True)
        if self._sweeper is not None:
            self._sweeper.cancel()
        self._refuse_all(no_answer("the agent left before the hub answered"))
        if self._state is not state and self._state is not ConnectionState.FAILED:
            self._change(state)

    def _refuse_all(self, error: TocsinError) -> None:
        waiting = [*self._unanswered.values(), *self._backlog]
        self._unanswered.clear()
        self._backlog.clear()
        self._quiet.set()
        for pending in waiting:
            if not pending.future.done():
                pending.future.set_exception(error)
                pending.future.exception()  # whoever waits is told; nobody has to


def _read(decoder: "msgspec.json.Decoder[Any]", answer: Answer) -> Any:
    return decoder.decode(answer.ok) if isinstance(answer.ok, msgspec.Raw) else answer.ok


def _size(operation: Operation) -> int:
    if isinstance(operation, Send):
        return memoryview(operation.envelope).nbytes + _OVERHEAD_BYTES
    if isinstance(operation, Confirm):
        return sum(map(len, operation.message_ids)) + 4 * len(operation.message_ids) + _OVERHEAD_BYTES
    return len(msgspec.json.encode(operation))


def _too_large(operation: Send, welcome: Welcome) -> TocsinError:
    size, limit = memoryview(operation.envelope).nbytes, welcome.message_bytes_max
    detail = f"the message has {size} bytes: at most {limit} are taken"
    return refusal("E_VALIDATION_005", detail, found=f"{size} bytes", expected=f"at most {limit} bytes")


async def _let_go(link: Link | None) -> None:
    if link is not None:
        await link.close()
