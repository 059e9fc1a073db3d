"""The calls of one agent that are not answered yet, whatever link carries them.

Calls join the backlog; a writer takes them out in batches, as many as the hub allows unanswered, and an answer finds
its call by number. What was written to a link that was lost goes back to the head of the backlog, as it was. Every call
has a deadline. Nothing here waits: `work` and `quiet` say when there is something to write, and when all is answered.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Any

import msgspec

from tocsin.client.config import ClientConfig
from tocsin.client.errors import error_of, no_answer
from tocsin.client.operations import Bye, Confirm, Credit, Operation, Ping, Send
from tocsin.client.replies import Nothing, Welcome
from tocsin.client.transport import Answer
from tocsin.core.errors import InvariantViolation, TocsinError, ValidationFailed, refusal

__all__ = ["Calls", "read_answer"]

_log = logging.getLogger("tocsin.client")
_NOTHING = msgspec.json.Decoder(Nothing)
#: What an operation takes of a frame beside its envelope, bytes, generously.
_OVERHEAD_BYTES = 256


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


class Calls:
    """Calls, receipts and credit on their way."""

    def __init__(self, config: ClientConfig, overdrawn: Callable[[int], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._config = config
        self._overdrawn = overdrawn
        self._last_id = 0
        self._backlog: deque[_Pending] = deque()
        self._unanswered: dict[int, _Pending] = {}
        self._receipts: list[str] = []
        self._credit: int | None = None
        self._welcome: Welcome | None = None
        self._sweeper: asyncio.TimerHandle | None = None
        #: How the client is attached, for the message of a call that was given up.
        self.circumstance = ""
        #: Set while there is something to write.
        self.work = asyncio.Event()
        #: Set while every call is answered.
        self.quiet = asyncio.Event()
        self.quiet.set()

    def __len__(self) -> int:
        return len(self._backlog) + len(self._unanswered)

    @property
    def has_unanswered(self) -> bool:
        """Tell whether anything that was written is not answered."""
        return bool(self._unanswered)

    @property
    def has_room(self) -> bool:
        """Tell whether many more calls can be made: half of the backlog is for those that come alone."""
        return len(self) < max(1, self._config.backlog_max // 2)

    def welcome(self, welcome: Welcome) -> None:
        """Go by what the hub allows on a new link."""
        self._welcome = welcome
        self._credit = None

    def submit(
        self, operation: Operation, decoder: "msgspec.json.Decoder[Any]", timeout_s: float
    ) -> "asyncio.Future[Any]":
        """Put a call into the backlog; the future holds the reply, or raises the refusal."""
        future: asyncio.Future[Any] = self._loop.create_future()
        self._last_id += 1
        operation.id = self._last_id
        self._backlog.append(_Pending(operation, decoder, future, self._loop.time() + timeout_s))
        self.quiet.clear()
        self.work.set()
        if self._sweeper is None:
            self._sweeper = self._loop.call_later(self._config.sweep_interval_s, self._sweep)
        return future

    def must_have_room(self) -> None:
        """Refuse a call more than the backlog takes."""
        if len(self) >= self._config.backlog_max:
            detail = f"{self._config.backlog_max} calls wait for an answer already"
            raise refusal("E_ADMISSION_008", detail, field="$.backlog_max")

    def confirm(self, signal_id: str) -> None:
        """Let a receipt go with the next frame."""
        self._receipts.append(signal_id)
        self.work.set()

    def credit(self, window: int) -> None:
        """Let the hub know how many offers to make from now on."""
        self._credit = window
        self.work.set()

    def note_quiet(self) -> None:
        """Say so, where every call is answered."""
        if not self._unanswered and not self._backlog:
            self.quiet.set()

    def answered(self, answer: Answer) -> None:
        """Give an answer to whoever waits for it."""
        pending = None if answer.re is None else self._unanswered.pop(answer.re, None)
        if self._backlog and len(self._unanswered) < self._in_flight_max:
            self.work.set()
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
            pending.future.set_result(read_answer(pending.decoder, answer))
        except msgspec.DecodeError as error:
            pending.future.set_exception(refusal("E_PROTOCOL_002", f"the hub's answer cannot be read: {error}"))

    @property
    def _in_flight_max(self) -> int:
        return 1 if self._welcome is None else self._welcome.in_flight_max

    def next_batch(self) -> list[Operation]:
        """Take what goes into the next frame: receipts, credit, and calls as far as the hub takes them."""
        welcome = self._welcome
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

    def requeue(self) -> None:
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
                name = type(pending.operation).__name__.lower()
                pending.future.set_exception(no_answer(f"no answer to {name} in time, while {self.circumstance}"))
        if self._unanswered or self._backlog:
            self._sweeper = self._loop.call_later(self._config.sweep_interval_s, self._sweep)

    def refuse_all(self, error: TocsinError) -> None:
        """Tell everyone who waits that there will be no answer."""
        waiting = [*self._unanswered.values(), *self._backlog]
        self._unanswered.clear()
        self._backlog.clear()
        self.quiet.set()
        for pending in waiting:
            if not pending.future.done():
                pending.future.set_exception(error)
                pending.future.exception()  # whoever waits is told; nobody has to

    def end(self, error: TocsinError) -> None:
        """Refuse all that waits, and look at no deadline any more."""
        if self._sweeper is not None:
            self._sweeper.cancel()
        self.refuse_all(error)


def read_answer(decoder: "msgspec.json.Decoder[Any]", answer: Answer) -> Any:
    """Return what an answer says: as it is from a bus in this process, decoded where it travelled."""
    return decoder.decode(answer.ok) if isinstance(answer.ok, msgspec.Raw) else answer.ok


def _size(operation: Operation) -> int:
    if isinstance(operation, Send):
        return memoryview(operation.envelope).nbytes + _OVERHEAD_BYTES
    if isinstance(operation, Confirm):
        return sum([len(name) + 4 for name in operation.message_ids]) + _OVERHEAD_BYTES
    return len(msgspec.json.encode(operation))


def _too_large(operation: Send, welcome: Welcome) -> TocsinError:
    size, limit = memoryview(operation.envelope).nbytes, welcome.message_bytes_max
    detail = f"the message has {size} bytes: at most {limit} are taken"
    return refusal("E_VALIDATION_005", detail, found=f"{size} bytes", expected=f"at most {limit} bytes")
