"""Received messages that wait for the application: most urgent first, each once, and bounded in number.

Theory of operation. A message is *held* from its arrival until its receipt is on its way. The hub pushes no more than
the credit beyond the receipts it has, so the credit bounds the number of held messages. While the application keeps up,
the credit is the window, which the application may change. A message that waits too long for the application pauses
pushing: the messages that the application cannot take stay at the hub, where another session can take them and where
they do not exceed their receipt time. The next credit is smaller, until the application keeps up again. There is no
credit if nobody iterates the inbox. A response that a request waits for must pass messages that nobody takes: during a
request the credit stays ahead of the number of held messages, up to a limit.

Confirmed messages are remembered for a while; when one is pushed again, it is dropped and confirmed again. A message
that arrives with fewer retries than before was redriven, and counts as new.
"""

import asyncio
from collections import deque
from collections.abc import Callable

from tocsin.client.config import ClientConfig
from tocsin.client.messages.message import Message
from tocsin.core.errors import InvariantViolation
from tocsin.core.protocol.priority import Priority

__all__ = ["Inbox"]


class Inbox:
    """Messages of one agent that the application has not taken yet."""

    def __init__(self, config: ClientConfig, confirm: Callable[[str], None], credit: Callable[[int], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._config = config
        self._confirm = confirm
        self._credit = credit
        #: By priority; each message with the time of its arrival.
        self._levels: tuple[deque[tuple[float, Message]], ...] = tuple(deque() for _ in Priority)
        self._most_urgent_first = tuple(reversed(self._levels))
        self._waiters: deque[asyncio.Future[None]] = deque()
        #: Futures of `take_named`, by messageId.
        self._wanted: dict[str, asyncio.Future[Message]] = {}
        self._held: set[str] = set()
        #: Most messages without a receipt, less one: only then the credit depends on their number.
        self._held_many = config.held_max - 1
        self._remembered: dict[str, int] = {}
        self._remembered_max = config.remembered_max
        self._listening = False
        self._awaited = 0
        self._window = config.window
        self._most = config.held_max
        self._allowance = config.window
        self._paused = False
        self._pause_timer: asyncio.TimerHandle | None = None
        self._granted = 0
        self._depth = 0
        self._has_ended = self._frozen = False
        self._why: BaseException | None = None

    def __len__(self) -> int:
        return self._depth

    @property
    def held(self) -> int:
        """Return the number of messages without a receipt."""
        return len(self._held)

    @property
    def window(self) -> int:
        """Return the number of offers without receipt that the hub may make now."""
        held, config = len(self._held), self._config
        if held >= config.held_max:
            return 0
        if self._awaited:
            step = max(1, self._window)
            return min(self._most, step * (held // step + 1))
        return self._allowance if self._listening and not self._paused else 0

    def granted(self, window: int) -> None:
        """Record the window of the welcome, and correct it if it has changed since."""
        self._granted = window
        self._adjust()

    def limit(self, window: int) -> None:
        """Use another window from now on; 0 accepts only what a request waits for."""
        self._window = self._allowance = min(window, self._most)
        self._adjust()

    def shrink(self, refused: int) -> None:
        """Use a smaller window, after the hub refused one."""
        self._most = max(1, refused // 2)
        self._window = min(self._window, self._most)
        self._allowance = min(self._allowance, self._window)
        self._adjust()

    def is_news(self, signal_id: str, attempt: int) -> bool:
        """Tell whether a message is new; confirm it again if it is not."""
        if signal_id in self._held:
            return False
        before = self._remembered.get(signal_id)
        if before is None or attempt < before:
            return True
        self._remembered[signal_id] = attempt
        self._confirm(signal_id)
        return False

    def hold(self, message: Message) -> None:
        """Keep a message unconfirmed for the request that waits for it."""
        self._held.add(message.signal_id)
        self._adjust()

    def put(self, message: Message) -> None:
        """Add a message for the application."""
        if self._frozen:
            return
        held = self._held
        held.add(message.signal_id)
        if self._wanted:
            wanted = self._wanted.pop(message.message_id, None)
            if wanted is not None and not wanted.done():
                wanted.set_result(message)
                self._adjust()
                return
        self._levels[message.level].append((self._loop.time(), message))
        self._depth += 1
        if self._waiters:
            self._wake()
        if self._pause_timer is None and not self._paused:
            self._pause_timer = self._loop.call_later(self._config.pause_after_s, self._look)
        if self._awaited or len(held) >= self._held_many:
            self._adjust()

    def take_now(self) -> Message | None:
        """Return the next message if one is here, most urgent first."""
        if not self._depth:
            return None
        for level in self._most_urgent_first:
            if level:
                message = level.popleft()[1]
                self._depth -= 1
                if not self._depth:
                    self._emptied()
                return message
        raise InvariantViolation("the inbox counts messages that it does not have")

    async def take(self, timeout_s: float | None = None) -> Message | None:
        """Wait for the next message, most urgent first; return null when the inbox has ended or the time is over."""
        self.listen()
        give_up_at = None if timeout_s is None else self._loop.time() + timeout_s
        while (message := self.take_now()) is None:
            if self._has_ended:
                if self._why is not None:
                    raise self._why
                return None
            if give_up_at is not None and self._loop.time() >= give_up_at:
                return None
            waiter = self._loop.create_future()
            self._waiters.append(waiter)
            # Waking it, unlike cancelling it, loses no message that arrives at the same time.
            timer = None if give_up_at is None else self._loop.call_at(give_up_at, _wake_up, waiter)
            try:
                await waiter
            except BaseException:
                waiter.cancel()
                if waiter not in self._waiters and self._depth:
                    self._wake()
                raise
            finally:
                if timer is not None:
                    timer.cancel()
                if waiter in self._waiters:
                    self._waiters.remove(waiter)
        return message

    def has(self, message_id: str) -> bool:
        """Tell whether a message waits here."""
        return any(message.message_id == message_id for level in self._levels for _, message in level)

    async def take_named(self, message_id: str) -> Message:
        """Wait for one message by its id; it is not handed out elsewhere."""
        for level in self._levels:
            for entry in level:
                if entry[1].message_id == message_id:
                    level.remove(entry)
                    self._depth -= 1
                    if not self._depth:
                        self._emptied()
                    return entry[1]
        wanted: asyncio.Future[Message] = self._loop.create_future()
        self._wanted[message_id] = wanted
        try:
            return await wanted
        finally:
            self._wanted.pop(message_id, None)

    def listen(self) -> None:
        """Accept messages, because the application takes them."""
        if not self._listening:
            self._listening = True
            self._adjust()

    def await_response(self) -> None:
        """Accept messages while a request waits for its response."""
        self._awaited += 1
        self._adjust()

    def response_came(self) -> None:
        """End an `await_response`."""
        self._awaited -= 1
        self._adjust()

    def confirm(self, message: Message) -> None:
        """Confirm the receipt of a message, unless it is confirmed already."""
        signal_id = message.signal_id
        if signal_id in self._held:
            self._confirm(signal_id)
            self._remember(signal_id, message)

    def settled(self, message: Message) -> None:
        """Record that the hub has a receipt of a message, or an operation that implies one."""
        if message.signal_id in self._held:
            self._remember(message.signal_id, message)

    def _remember(self, signal_id: str, message: Message) -> None:
        held, remembered = self._held, self._remembered
        held.discard(signal_id)
        if signal_id in remembered:  # Written again at the end: the oldest is forgotten first.
            del remembered[signal_id]
        remembered[signal_id] = message.attempt
        if len(remembered) > self._remembered_max:
            del remembered[next(iter(remembered))]
        if self._awaited or len(held) >= self._held_many:
            self._adjust()

    def forget(self, message: Message) -> None:
        """Forget a message, so that it is handed out when it is delivered again."""
        self._held.discard(message.signal_id)
        self._remembered.pop(message.signal_id, None)
        self._adjust()

    def give_up(self) -> None:
        """Drop the messages that were not taken: their session has ended, and the hub offers them to another."""
        for level in self._levels:
            self._held.difference_update(message.signal_id for _, message in level)
        self._clear()
        self._paused = False

    def freeze(self) -> None:
        """Hand out nothing more, and let those who wait for a message wait: the process ends."""
        self._frozen = True
        self._clear()

    def end(self, error: BaseException | None = None) -> None:
        """End the inbox; messages that were not taken return to the queue at the hub."""
        if self._frozen:
            return
        self._has_ended, self._why = True, error
        self._clear()
        while self._waiters:
            self._wake()

    def _clear(self) -> None:
        for level in self._levels:
            level.clear()
        self._depth = 0
        if self._pause_timer is not None:
            self._pause_timer.cancel()
            self._pause_timer = None

    def _emptied(self) -> None:
        """Continue pushing, and with a larger credit: the application has taken everything."""
        if self._paused or self._allowance != self._window:
            self._paused = False
            self._allowance = min(self._window, self._allowance * 2)
            self._adjust()

    def _wake(self) -> None:
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return

    def _look(self) -> None:
        """Pause pushing if a message has waited too long; otherwise check again when one will have."""
        self._pause_timer = None
        if not self._depth:
            return
        oldest = min(level[0][0] for level in self._levels if level)
        late_s = oldest + self._config.pause_after_s - self._loop.time()
        if late_s > 0:
            self._pause_timer = self._loop.call_later(late_s, self._look)
            return
        self._paused = True
        self._allowance = max(1, self._allowance // 4)
        self._adjust()

    def _adjust(self) -> None:
        wanted = self.window
        if wanted != self._granted and not self._has_ended:
            self._granted = wanted
            self._credit(wanted)


def _wake_up(waiter: "asyncio.Future[None]") -> None:
    if not waiter.done():
        waiter.set_result(None)
