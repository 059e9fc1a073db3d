"""Calls of one agent that are not answered yet, independent of the link that carries them.

Calls join the backlog. A writer takes them out in batches, as many as the hub allows unanswered, and an answer finds
its call by number. Calls that were written to a link that was lost return to the head of the backlog unchanged. Every
call has a deadline. Nothing here waits: the events `work` and `quiet` report when there is something to write, and when
everything is answered.
"""

import asyncio
import logging
import math
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import msgspec

from tocsin.client.config import ClientConfig
from tocsin.client.connection.transport import LocalLink, Refused
from tocsin.client.errors import error_of, no_answer
from tocsin.core.errors import InvariantViolation, TocsinError, ValidationFailed, refusal
from tocsin.core.protocol.envelope import Envelope
from tocsin.wire.drafts import Written
from tocsin.wire.socket import Answer, Bye, Call, Confirm, Credit, Operation, Ping, Send, Welcome

__all__ = ["Calls", "read_reply"]

_log = logging.getLogger("tocsin.client")
#: Size of an operation in a frame besides its envelope, bytes, rounded up.
_OVERHEAD_BYTES = 256
#: Code of the refusal of a hub that does not serve the project any more.
_MOVED = "E_HUB_002"


class _Pending:
    """A call without an answer."""

    __slots__ = ("deadline", "decode", "future", "operation")

    def __init__(
        self,
        operation: Operation,
        decode: Callable[[msgspec.Raw], Any],
        future: "asyncio.Future[Any]",
        deadline: float,
    ) -> None:
        self.operation = operation
        self.decode = decode
        self.future = future
        self.deadline = deadline


class Calls:
    """Calls, receipts and credit that are on their way."""

    def __init__(
        self,
        config: ClientConfig,
        overdrawn: Callable[[int], None],
        recredit: Callable[[int], None] | None = None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._config = config
        self._overdrawn = overdrawn
        self._recredit = recredit
        self._last_id = 0
        self._backlog: deque[_Pending] = deque()
        self._unanswered: dict[int, _Pending] = {}
        #: Sends to a bus in this process, oldest first, with their deadlines; those that are done are dropped later.
        self._local: deque[tuple[asyncio.Future[Any], float]] = deque()
        #: Number of messages in the batches among them, without one for each batch.
        self._batched = 0
        self._backlog_max = config.backlog_max
        self._receipts: list[str] = []
        self._credit: int | None = None
        self._welcome: Welcome | None = None
        self._sweeper: asyncio.TimerHandle | None = None
        #: No call has an earlier deadline; in the loop's time.
        self._first_deadline = math.inf
        #: State of the connection, for the error of a call that was given up.
        self.circumstance = ""
        #: Set while there is something to write.
        self.work = asyncio.Event()
        #: Set while every call is answered.
        self.quiet = asyncio.Event()
        self.quiet.set()

    def __len__(self) -> int:
        local = self._local
        while local and local[0][0].done():
            local.popleft()
        return len(self._backlog) + len(self._unanswered) + len(local) + self._batched

    @property
    def has_unanswered(self) -> bool:
        """Tell whether a written call has no answer."""
        return bool(self._unanswered)

    @property
    def has_room(self) -> bool:
        """Tell whether many more calls can be made: half of the backlog is reserved for single calls."""
        return len(self) < max(1, self._config.backlog_max // 2)

    def welcome(self, welcome: Welcome) -> None:
        """Apply the limits of a new link."""
        self._welcome = welcome
        self._credit = None

    def submit(
        self, operation: Operation, decode: Callable[[msgspec.Raw], Any], timeout_s: float
    ) -> "asyncio.Future[Any]":
        """Put a call into the backlog; the future holds the reply, or raises the refusal."""
        future: asyncio.Future[Any] = self._loop.create_future()
        self._last_id += 1
        operation.id = self._last_id
        deadline = self._loop.time() + timeout_s
        self._backlog.append(_Pending(operation, decode, future, deadline))
        self.quiet.clear()
        self.work.set()
        self._watch(deadline)
        return future

    def _watch(self, deadline: float) -> None:
        """See to it that a deadline is checked."""
        if deadline < self._first_deadline:
            self._first_deadline = deadline
        if self._sweeper is None:
            self._sweeper = self._loop.call_later(self._config.sweep_interval_s, self._sweep)

    def send_local(self, link: LocalLink, message: Envelope | Written, timeout_s: float) -> "asyncio.Future[Any]":
        """Send a message to a bus in this process; the future holds the reply, or a timeout."""
        local = self._local
        while local and local[0][0].done():
            local.popleft()
        if len(local) + len(self._backlog) + len(self._unanswered) + self._batched >= self._backlog_max:
            self.must_have_room()
        return self._expect_local(link.send_message(message), timeout_s)

    def send_batch(
        self, link: LocalLink, messages: "Sequence[Envelope | Written]", timeout_s: float
    ) -> "asyncio.Future[Any]":
        """Send messages together to a bus in this process; the future holds their replies, or a timeout."""
        self.must_have_room()
        future = self._expect_local(link.send_messages(messages), timeout_s)
        self._batched += len(messages) - 1
        future.add_done_callback(partial(self._batch_ended, len(messages) - 1))
        return future

    def _batch_ended(self, more: int, future: "asyncio.Future[Any]") -> None:
        self._batched -= more

    def _expect_local(self, future: "asyncio.Future[Any]", timeout_s: float) -> "asyncio.Future[Any]":
        """Fail a future at its deadline."""
        deadline = self._loop.time() + timeout_s
        self._local.append((future, deadline))
        if deadline < self._first_deadline or self._sweeper is None:
            self._watch(deadline)
        return future

    def must_have_room(self) -> None:
        """Refuse a call that the backlog has no room for."""
        if len(self) >= self._backlog_max:
            detail = f"{self._backlog_max} calls wait for an answer already"
            raise refusal("E_ADMISSION_008", detail, field="$.backlog_max")

    def confirm(self, signal_id: str) -> None:
        """Send a receipt with the next frame."""
        self._receipts.append(signal_id)
        self.work.set()

    def credit(self, window: int) -> None:
        """Send a new window with the next frame."""
        self._credit = window
        self.work.set()

    def note_quiet(self) -> None:
        """Set `quiet` if every call is answered."""
        if not self._unanswered and not self._backlog:
            self.quiet.set()

    def answered(self, answer: Answer) -> None:
        """Give an answer to its call."""
        pending = self._unanswered.pop(answer.re, None)
        if self._backlog:
            self._continue_writing()
        if pending is None or pending.future.done():
            return
        try:
            pending.future.set_result(read_reply(pending.decode, answer))
        except msgspec.DecodeError as error:
            pending.future.set_exception(refusal("E_PROTOCOL_002", f"the hub's answer cannot be read: {error}"))

    def refused(self, answer: Refused) -> None:
        """Give a refusal to its call."""
        number = answer.re
        if answer.problem.code == _MOVED and number in self._unanswered:
            return  # The hub did nothing and closes the link: the call is written to the next one.
        pending = None if number is None else self._unanswered.pop(number, None)
        if self._backlog:
            self._continue_writing()
        if pending is None:
            _log.warning("the hub refused an operation: %s", answer.problem.detail)
        elif not pending.future.done():
            pending.future.set_exception(error_of(answer.problem))

    def _continue_writing(self) -> None:
        if len(self._unanswered) < self._in_flight_max:
            self.work.set()

    @property
    def _in_flight_max(self) -> int:
        return 1 if self._welcome is None else self._welcome.in_flight_max

    def next_batch(self) -> list[Operation]:
        """Return the operations of the next frame: credit, receipts, and as many calls as the hub allows.

        A receipt makes room for another message unless the window has become smaller, so the credit goes first.
        """
        welcome = self._welcome
        if welcome is None:
            raise InvariantViolation("nothing can be written before the welcome")
        count = min(self._config.batch, welcome.batch_max)
        batch: list[Operation] = []
        if self._credit is not None:
            batch.append(self._credit_operation(self._credit))
            self._credit = None
        if self._receipts:
            batch.append(self._next_receipts(welcome))
        room = welcome.frame_bytes_max
        for operation in batch:
            room -= _size(operation)
        backlog, unanswered = self._backlog, self._unanswered
        while backlog and len(batch) < count and len(unanswered) < welcome.in_flight_max:
            pending = backlog[0]
            if pending.future.done():
                backlog.popleft()
                continue
            size = _size(pending.operation)
            if type(pending.operation) is Send and size > welcome.message_bytes_max + _OVERHEAD_BYTES:
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

    def last_frame(self) -> list[Operation]:
        """Return the operations of a frame that nobody answers any more: receipts, and `bye`."""
        if self._receipts and self._welcome is not None:
            return [self._next_receipts(self._welcome), Bye()]
        return [Bye()]

    def _next_receipts(self, welcome: Welcome) -> Confirm:
        receipts = tuple(self._receipts[: welcome.batch_max])
        del self._receipts[: welcome.batch_max]
        return Confirm(message_ids=receipts)

    def _credit_operation(self, window: int) -> Credit:
        """Return the operation that asks for a window; the hub refuses one that is larger than the policy allows."""
        self._last_id += 1
        operation = Credit(id=self._last_id, window=window)
        future: asyncio.Future[Any] = self._loop.create_future()
        future.add_done_callback(lambda reply: self._credited(reply, window))
        deadline = self._loop.time() + self._config.call_timeout_s
        self._unanswered[self._last_id] = _Pending(operation, _ignore, future, deadline)
        self._watch(deadline)
        return operation

    def _credited(self, reply: "asyncio.Future[Any]", window: int) -> None:
        if not reply.cancelled():
            self.credited(reply.exception(), window)

    def credited(self, refused: BaseException | None, window: int) -> None:
        """Ask for a smaller window if one was larger than the policy allows, and again if it was refused for now."""
        if isinstance(refused, ValidationFailed):
            _log.warning("a window of %d is more than the hub allows", window)
            self._overdrawn(window)
        elif isinstance(refused, TocsinError) and refused.retryable and self._recredit is not None:
            self._loop.call_later(self._config.backoff_first_s, self._recredit, window)

    def requeue(self) -> None:
        """Return unanswered calls to the head of the backlog, except those that concern the lost link only."""
        unanswered = [pending for pending in self._unanswered.values() if not pending.future.done()]
        self._unanswered.clear()
        for pending in reversed(unanswered):
            if isinstance(pending.operation, Ping | Bye | Credit):
                pending.future.cancel()
            else:
                self._backlog.appendleft(pending)

    def _sweep(self) -> None:
        """Fail the calls whose deadline has passed; they are looked at one by one only if one may have."""
        self._sweeper = None
        now = self._loop.time()
        if now >= self._first_deadline:
            self._fail_late(now)
        if len(self):
            self._sweeper = self._loop.call_later(self._config.sweep_interval_s, self._sweep)
        else:
            self._first_deadline = math.inf

    def _fail_late(self, now: float) -> None:
        first = math.inf
        for pending in (*self._unanswered.values(), *self._backlog):
            if pending.future.done():
                continue
            if now >= pending.deadline:
                detail = f"no answer to {_name(pending.operation)} in time, while {self.circumstance}"
                pending.future.set_exception(no_answer(detail))
            else:
                first = min(first, pending.deadline)
        local, self._local = self._local, deque()
        for future, deadline in local:
            if future.done():
                continue
            if now >= deadline:
                future.set_exception(no_answer(f"no answer to send in time, while {self.circumstance}"))
            else:
                self._local.append((future, deadline))
                first = min(first, deadline)
        self._first_deadline = first

    def refuse_all(self, error: TocsinError) -> None:
        """Fail all calls with an error."""
        waiting = [pending.future for pending in (*self._unanswered.values(), *self._backlog)]
        waiting += [future for future, _ in self._local]
        self._unanswered.clear()
        self._backlog.clear()
        self._local.clear()
        self.quiet.set()
        for future in waiting:
            if not future.done():
                future.set_exception(error)
                future.exception()  # marks it as retrieved: a call that nobody awaits is not an error

    def end(self, error: TocsinError) -> None:
        """Fail all calls and stop checking deadlines."""
        if self._sweeper is not None:
            self._sweeper.cancel()
        self.refuse_all(error)


def read_reply(decode: Callable[[msgspec.Raw], Any], answer: Answer) -> Any:
    """Return the reply of an answer; one from a bus in this process is not JSON and needs no decoding."""
    return decode(answer.ok) if isinstance(answer.ok, msgspec.Raw) else answer.ok


def _ignore(reply: msgspec.Raw) -> None:
    return None


def _name(operation: Operation) -> str:
    if isinstance(operation, Call):
        return operation.operation
    return str(operation.__struct_config__.tag)


def _size(operation: Operation) -> int:
    if type(operation) is Send:
        return memoryview(operation.envelope).nbytes + _OVERHEAD_BYTES
    if type(operation) is Confirm:
        return sum([len(name) + 4 for name in operation.message_ids]) + _OVERHEAD_BYTES
    return len(msgspec.json.encode(operation))


def _too_large(operation: Send, welcome: Welcome) -> TocsinError:
    size, limit = memoryview(operation.envelope).nbytes, welcome.message_bytes_max
    detail = f"the message has {size} bytes: at most {limit} are accepted"
    return refusal("E_VALIDATION_005", detail, found=f"{size} bytes", expected=f"at most {limit} bytes")
