"""The connection of an agent over successive links, without losing calls.

Theory of operation. Calls become operations; one writer per link takes them out of `Calls` in batches. One reader per
link gives answers to their calls and deliveries to the inbox. When the link is lost, unanswered calls are written to
the next one unchanged: a send carries the same messageId, so the hub does it once. Reconnecting asks for the same
session; the inbox recognises messages that the hub pushes again.

A link may be lost for a reason that trying again does not change, such as a revoked token or a protocol error. Then the
connection has failed, and every call, now and later, raises that reason.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from enum import StrEnum
from functools import partial
from typing import Any

import msgspec

from tocsin.client.config import ClientConfig
from tocsin.client.connection.backoff import Backoff
from tocsin.client.connection.calls import Calls, read_reply
from tocsin.client.connection.transport import Item, Link, LinkLost, LocalLink, Refused, Transport
from tocsin.client.errors import error_of, no_answer, unreachable
from tocsin.core.commands import Delivery, Done, Reply
from tocsin.core.errors import InvariantViolation, Problem, TocsinError, refusal
from tocsin.core.protocol.envelope import Envelope
from tocsin.wire.drafts import Written
from tocsin.wire.socket import Answer, Bye, Deliver, Hello, Leave, Operation, Ping, Waiting, Welcome

__all__ = ["Connection", "ConnectionState"]

_log = logging.getLogger("tocsin.client")
_WELCOME = msgspec.json.Decoder(Welcome)
_WAITING = msgspec.json.Decoder(Waiting)
_DONE = msgspec.json.Decoder(Done)


class ConnectionState(StrEnum):
    """State of a connection."""

    CONNECTING = "connecting"
    CONNECTED = "connected"
    #: The link was lost; the client reconnects.
    RECONNECTING = "reconnecting"
    #: Closed by the application.
    CLOSED = "closed"
    #: Ended for good; `Connection.error` has the reason.
    FAILED = "failed"


class Connection:
    """Keeps one agent connected."""

    def __init__(
        self,
        transport: Transport,
        config: ClientConfig,
        greeting: Callable[[str | None], Hello],
        welcomed: Callable[[Welcome], None],
        overdrawn: Callable[[int], None],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport = transport
        self._config = config
        self._greeting = greeting
        self._welcomed = welcomed
        self._deliver: Callable[[Deliver], None]
        self._deliver_local: Callable[[Delivery], None] | None = None
        self._calls = Calls(config, overdrawn, self._recredit)
        self._window: int | None = None
        self._state = ConnectionState.CONNECTING
        self._watchers: list[Callable[[ConnectionState], None]] = []
        self._expected: list[tuple[frozenset[ConnectionState], asyncio.Future[ConnectionState]]] = []
        self._runner: asyncio.Task[None] | None = None
        self._asked_at: float | None = None
        self._closing = False
        #: Whether the hub has answered `bye`.
        self._has_left = False
        #: Link to a project in this process, while there is one: the short way of messages and receipts.
        self.local: LocalLink | None = None
        #: Welcome of the current link, or of the last one.
        self.welcome: Welcome | None = None
        #: Why it failed.
        self.error: TocsinError | None = None
        #: Number of messages that wait at the hub, by priority, as last reported.
        self.waiting: tuple[int, ...] = ()

    @property
    def state(self) -> ConnectionState:
        """Return its state."""
        return self._state

    @property
    def has_room(self) -> bool:
        """Tell whether many more calls can be made."""
        return self._calls.has_room

    def deliver_to(self, take: Callable[[Deliver], None], take_local: Callable[[Delivery], None] | None = None) -> None:
        """Call `take` with every message from a hub, and `take_local` with those from a project in this process.

        It is called once, before `open`.
        """
        self._deliver = take
        self._deliver_local = take_local

    def watch(self, watcher: Callable[[ConnectionState], None]) -> None:
        """Call a function at every change of state."""
        self._watchers.append(watcher)

    async def until(self, *states: ConnectionState) -> ConnectionState:
        """Wait for one of some states, however short it lasts."""
        if self._state in states:
            return self._state
        future: asyncio.Future[ConnectionState] = self._loop.create_future()
        self._expected.append((frozenset(states), future))
        return await future

    async def open(self) -> None:
        """Connect for the first time; raise the reason if that fails."""
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
        """Close the session, after waiting for calls under way up to a time limit."""
        if self._closing:
            return
        self._closing = True
        try:
            if self._state is ConnectionState.CONNECTED:
                async with asyncio.timeout(self._config.close_timeout_s):
                    await self._settle()
                    await self._calls.submit(Bye(), _DONE.decode, self._config.close_timeout_s)
                    self._has_left = True
        except (TimeoutError, TocsinError) as error:
            _log.debug("closed without an answer to bye: %s", error)
        finally:
            await self._end(ConnectionState.CLOSED)

    def submit(self, operation: Operation, decode: Callable[[msgspec.Raw], Any], timeout_s: float) -> Any:
        """Put an operation on its way; the future holds the reply, or raises the refusal."""
        if self._closing or self.error is not None:
            self._must_be_open()
        self._calls.must_have_room()
        return self._calls.submit(operation, decode, timeout_s)

    def send_local(self, local: LocalLink, message: Envelope | Written, timeout_s: float) -> "asyncio.Future[Reply]":
        """Send a message to the project in this process; the future holds the reply or the problem."""
        if self._closing or self.error is not None:
            self._must_be_open()
        return self._calls.send_local(local, message, timeout_s)

    def send_batch(
        self, local: LocalLink, messages: "Sequence[Envelope | Written]", timeout_s: float
    ) -> "asyncio.Future[list[Reply]]":
        """Send messages together to the project in this process; the future holds the replies or problems."""
        self._must_be_open()
        return self._calls.send_batch(local, messages, timeout_s)

    def _must_be_open(self) -> None:
        if self.error is not None:
            raise self.error
        if self._closing:
            raise refusal("E_STATE_003", "this agent is closed: connect again", retryable=False)

    def confirm(self, signal_id: str) -> None:
        """Send a receipt with the next frame, or at once to a project in this process."""
        if self.local is not None:
            self.local.confirm(signal_id)
        else:
            self._calls.confirm(signal_id)

    def credit(self, window: int) -> None:
        """Send a new window with the next frame, or at once to a project in this process."""
        self._window = window
        if self.local is None:
            self._calls.credit(window)
        else:
            self.local.credit(window).add_done_callback(partial(self._credited, window))

    def _recredit(self, window: int) -> None:
        """Ask again for a window, unless another one was asked for meanwhile."""
        if window == self._window and not self._closing and self._state is ConnectionState.CONNECTED:
            self.credit(window)

    def _credited(self, window: int, reply: "asyncio.Future[Reply]") -> None:
        if not reply.cancelled() and isinstance(problem := reply.result(), Problem):
            self._calls.credited(error_of(problem), window)

    async def _run(self) -> None:
        """Stay connected; when the event loop ends and nobody has closed the agent, it is closed."""
        try:
            await self._stay_connected()
        except asyncio.CancelledError:
            if not self._closing:
                self._closing = True
                self._calls.end(_closed())
                self._change(ConnectionState.CLOSED)
            raise

    async def _stay_connected(self) -> None:
        """Open and serve links until the connection is closed or has failed."""
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
                self._use_local(link)
                backoff.reset()
                give_up_at = None
                await self._serve(link, items)
                return
            except LinkLost as error:
                lost = error
            except TocsinError as error:
                lost = LinkLost(str(error), refused=error.problem)
            except asyncio.CancelledError:
                await self._leave(link)
                raise
            except Exception as error:
                _log.exception("unexpected error in the client")
                lost = LinkLost(str(error), refused=Problem("E_HUB_004", f"unexpected error in the client: {error!r}"))
            finally:
                self.local = None
                if link is not None:
                    await link.close()
            self._calls.requeue()
            if self._closing and not len(self._calls):
                return  # the hub has answered `bye` and closed the link
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
                gone = unreachable(f"the hub cannot be reached: {lost}")
                self._fail(gone if lost.refused is None else error_of(lost.refused))
                return
            await asyncio.sleep(wait_s)

    async def _leave(self, link: Link | None) -> None:
        """Say goodbye on a link that is given up, unless that is done: the hub then closes the session at once."""
        if link is not None and not self._has_left:
            with contextlib.suppress(TimeoutError, LinkLost, TocsinError):
                async with asyncio.timeout(self._config.goodbye_timeout_s):
                    await link.send(self._calls.last_frame())

    async def _attach(self, session: str | None) -> tuple[Link, Welcome, list[Item]]:
        """Dial and wait for the welcome; return it with the other items that arrived."""
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
                        if isinstance(item, Refused) and item.re == 0:
                            raise error_of(item.problem)
                        if isinstance(item, Answer) and item.re == 0:
                            del items[number]
                            return link, read_reply(_WELCOME.decode, item), items
                        if isinstance(item, Leave):
                            raise LinkLost(item.reason, resumable=item.resume)
        except TimeoutError:
            await _let_go(link)
            raise LinkLost(f"no welcome within {self._config.dial_timeout_s:g} s") from None
        except BaseException:
            await _let_go(link)
            raise

    def _take_up(self, welcome: Welcome) -> None:
        self.welcome = welcome
        self.waiting = welcome.waiting
        self._calls.welcome(welcome)
        self._welcomed(welcome)
        self._change(ConnectionState.CONNECTED)

    def _use_local(self, link: Link) -> None:
        """Take messages directly from a project in this process, beginning with those that it has kept so far."""
        if self._deliver_local is not None and isinstance(link, LocalLink):
            self.local = link
            link.deliver_to(self._deliver_local)

    async def _serve(self, link: Link, items: list[Item]) -> None:
        """Read, write and send heartbeats until the link is lost."""
        self._asked_at = None
        self._calls.work.set()
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
        leave: Leave | None = None
        calls = self._calls
        while True:
            for item in items:
                # Compared by type: `isinstance` takes several times as long for a struct.
                if type(item) is Answer:
                    calls.answered(item)
                elif type(item) is Deliver:
                    self._deliver(item)
                elif type(item) is Refused:
                    calls.refused(item)
                elif type(item) is Leave:
                    leave = item
            calls.note_quiet()
            try:
                items = list(await link.receive())
            except LinkLost as lost:
                if leave is not None and lost.refused is None:
                    raise LinkLost(leave.reason, resumable=leave.resume) from None
                raise
            self._asked_at = None

    async def _write(self, link: Link) -> None:
        while True:
            batch = self._calls.next_batch()
            if batch:
                if self._asked_at is None and self._calls.has_unanswered:
                    self._asked_at = self._loop.time()
                await link.send(batch)
            else:
                self._calls.note_quiet()
                self._calls.work.clear()
                await self._calls.work.wait()

    async def _beat(self) -> None:
        """Send heartbeats, and give up a link on which the hub is silent."""
        if self.welcome is None:
            raise InvariantViolation("no heartbeat can be sent before the welcome")
        every_s, silence_s = self.welcome.heartbeat_s, self._config.silence_max_s
        beat_at = self._loop.time() + every_s
        while True:
            await asyncio.sleep(min(every_s, silence_s / 4))
            now = self._loop.time()
            if self._asked_at is not None and now - self._asked_at > silence_s:
                raise LinkLost(f"the hub was silent for {now - self._asked_at:.1f} s")
            if now >= beat_at:
                beat_at = now + every_s
                reply = self._calls.submit(Ping(id=0), _WAITING.decode, silence_s)
                reply.add_done_callback(self._note_waiting)

    def _note_waiting(self, reply: "asyncio.Future[Any]") -> None:
        if not reply.cancelled() and reply.exception() is None:
            self.waiting = reply.result().waiting

    async def _settle(self) -> None:
        """Wait until all calls are answered and all receipts are written."""
        await self._calls.quiet.wait()
        # A call that is answered after the receipts were written shows that the hub has read them.
        await self._calls.submit(Ping(id=0), _WAITING.decode, self._config.close_timeout_s)

    def _change(self, state: ConnectionState) -> None:
        self._state = self._calls.circumstance = state
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
                _log.exception("a state callback raised an error")

    def _fail(self, error: TocsinError) -> None:
        self.error = error
        self._calls.refuse_all(error)
        self._change(ConnectionState.FAILED)

    async def _end(self, state: ConnectionState) -> None:
        """Stop all tasks, and wait until they have stopped."""
        self._closing = True
        runner, self._runner = self._runner, None
        if runner is not None:
            runner.cancel()
            await asyncio.gather(runner, return_exceptions=True)
        self._calls.end(_closed())
        if self._state is not state and self._state is not ConnectionState.FAILED:
            self._change(state)


def _closed() -> TocsinError:
    return no_answer("the agent was closed before the hub answered")


async def _let_go(link: Link | None) -> None:
    if link is not None:
        await link.close()
