"""The work of every system: a single sender, many at once, one that does not wait, a load, and a Critical message.

*Alone*: one sender that waits for its confirmation before the next send, and one consumer. *Crowd*: 64 such senders, to
16 mailboxes whose consumers acknowledge everything. *Many*: one sender that does not wait for each confirmation, the
same consumers. *Load*: messages sent at once to mailboxes without a consumer, and then *drained* by consumers.
*Order*: the order in which a mailbox with mixed priorities delivers. *Backlog*: a mailbox with many messages below
Critical whose consumer is busy with one of them; then a Critical message is sent, and the time until the consumer has
it is measured, up to a limit.

The clock includes making each body and reading it at the end, for every system and the floor alike.
"""

import asyncio
import random
import time
from collections.abc import AsyncGenerator, Awaitable, Callable

import msgspec

from bench.peers.peer import Letter, Peer
from bench.report import percentile

__all__ = [
    "MAILBOXES",
    "MESSAGE_BYTES",
    "SENDERS",
    "Checked",
    "Crowd",
    "Found",
    "Letters",
    "Sizes",
    "alone",
    "check",
    "crowd",
    "measure",
]

MESSAGE_BYTES = 600
SENDERS = 64
#: Number of mailboxes of the crowd; each other part of the work has one more.
MAILBOXES = 16
ALONE, ORDER, BACKLOG = MAILBOXES, MAILBOXES + 1, MAILBOXES + 2
#: Share of each priority, per cent, lowest first.
SHARES = (60, 30, 8, 2)
CRITICAL = len(SHARES) - 1
#: Number of messages that a consumer may prefetch when throughput is measured.
AHEAD = 64
#: Messages before the clock starts, as a share of those measured.
WARM_UP = 0.1
#: Time for consumers to make progress after the senders have stopped, seconds.
DRAIN_MAX_S = 30.0
#: Longest time to wait for a Critical message behind a backlog, seconds.
CRITICAL_MAX_S = 20.0
#: Number of Critical messages measured behind a backlog; the median is used.
CRITICALS = 9
ORDER_COUNT = 200
#: Most messages in one part of the work; its number times this is added to the numbers of its messages.
PART = 10_000_000

clock = time.perf_counter


class Sizes(msgspec.Struct, frozen=True):
    """Messages in each part of the work."""

    crowd: int = 20_000
    alone: int = 500
    load: int = 100_000
    #: Messages before a Critical one.
    backlog: int = 100_000


class Found(msgspec.Struct):
    """Results of one system in one round."""

    #: Crowd: messages sent, confirmed, consumed and acknowledged per second, until the last one.
    per_s: float
    #: Crowd: sends confirmed per second.
    confirmed_per_s: float
    crowd_p50_ms: float
    crowd_p99_ms: float
    #: Crowd: processor time of the thread of the event loop, per message.
    loop_us: float
    #: Many: messages sent without waiting for each, confirmed, consumed and acknowledged per second.
    many_per_s: float
    many_loop_us: float
    alone_p50_ms: float
    alone_p99_ms: float
    #: Time from sending until the consumer has the message, with one sender.
    end_p50_ms: float
    end_p99_ms: float
    #: Messages confirmed per second when they are sent at once, and consumed per second afterwards.
    load_per_s: float
    drained_per_s: float
    #: Confirmed messages that were not consumed within the time limit; 0 if nothing is lost or late.
    missing: int


class Checked(msgspec.Struct):
    """Promises of a system, which are looked at once."""

    #: Whether a mailbox delivered the highest priority first, and the oldest first within one.
    priorities_honoured: bool
    oldest_first: bool
    #: Null if it did not arrive within the time limit.
    critical_under_backlog_ms: float | None


class Letters:
    """Creates messages and records their send times."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._filler = "lorem ipsum dolor sit amet " * (MESSAGE_BYTES // 27 + 1)
        #: Numbers differ between parts of the work, because a message may be delivered again in the next part.
        self._count = seed * PART
        self.sent: dict[int, float] = {}

    def write(self, mailbox: int, priority: int | None = None, below: int = CRITICAL + 1) -> tuple[int, Letter]:
        """Return a new message and its number."""
        if priority is None:
            priority = self._random.choices(range(below), SHARES[:below])[0]
        self._count += 1
        head = f"{self._count:09d} {priority} "
        return self._count, Letter(mailbox, priority, head + self._filler[: MESSAGE_BYTES - len(head)])

    def to_anyone(self) -> tuple[int, Letter]:
        """Return a new message to a random mailbox of the crowd."""
        return self.write(self._random.randrange(MAILBOXES))

    def some(self, count: int) -> list[Letter]:
        """Return new messages to random mailboxes of the crowd."""
        found = []
        now = clock()
        for _ in range(count):
            number, letter = self.to_anyone()
            self.sent[number] = now
            found.append(letter)
        return found


def number_of(body: str) -> int:
    """Return the number of a message."""
    return int(body[:9])


def priority_of(body: str) -> int:
    """Return the priority of a message."""
    return int(body[10])


async def measure(peer: Peer, sizes: Sizes) -> Found:
    """Measure a running system; a single sender first, while the system has nothing left to do of a load."""
    await alone(peer, Letters(7), round(sizes.alone * WARM_UP))
    waits, ends = await alone(peer, Letters(2), sizes.alone)
    await crowd(peer, Letters(0), round(sizes.crowd * WARM_UP))
    crowded = await crowd(peer, Letters(1), sizes.crowd)
    many = await send_many(peer, Letters(5), sizes.crowd)
    load_per_s, drained_per_s, left = await load(peer, sizes.load)
    return Found(
        per_s=crowded.per_s,
        confirmed_per_s=crowded.confirmed_per_s,
        crowd_p50_ms=percentile(crowded.waits_ms, 50),
        crowd_p99_ms=percentile(crowded.waits_ms, 99),
        loop_us=crowded.loop_us,
        many_per_s=many.per_s,
        many_loop_us=many.loop_us,
        alone_p50_ms=percentile(waits, 50),
        alone_p99_ms=percentile(waits, 99),
        end_p50_ms=percentile(ends, 50),
        end_p99_ms=percentile(ends, 99),
        load_per_s=load_per_s,
        drained_per_s=drained_per_s,
        missing=crowded.missing + many.missing + left,
    )


async def check(peer: Peer, sizes: Sizes) -> Checked:
    """Look at the promises of a running system."""
    return Checked(*await order(peer), await critical(peer, sizes.backlog))


class Consumers:
    """Consumers of the mailboxes of the crowd, which take out what they get of the messages that were sent."""

    def __init__(self, peer: Peer, letters: "Letters") -> None:
        self._letters = letters
        self._all_seen = asyncio.Event()
        #: Time of the last message, and the processor time of this thread at that moment.
        self.last = clock()
        self.last_cpu = time.thread_time()
        self._tasks = [asyncio.create_task(self._consume(peer, mailbox)) for mailbox in range(MAILBOXES)]

    async def _consume(self, peer: Peer, mailbox: int) -> None:
        sent = self._letters.sent
        async for body in peer.consume(mailbox, AHEAD):
            sent.pop(number_of(body), None)
            if not sent:
                self.last, self.last_cpu = clock(), time.thread_time()
                self._all_seen.set()

    async def finish(self) -> int:
        """Wait until everything is consumed, as long as there is progress; return how many messages are missing."""
        sent = self._letters.sent
        left, moved = len(sent), clock()
        while sent and clock() < moved + DRAIN_MAX_S:
            self._all_seen.clear()
            try:
                await asyncio.wait_for(self._all_seen.wait(), min(1.0, DRAIN_MAX_S))
            except TimeoutError:
                _raise_of(self._tasks)
            if len(sent) < left:
                left, moved = len(sent), clock()
        if sent:
            self.last, self.last_cpu = clock(), time.thread_time()
        return len(sent)

    async def close(self) -> None:
        """Stop the consumers."""
        await _stop(self._tasks)


class Crowd(msgspec.Struct):
    """Results of many messages with consumers."""

    per_s: float
    confirmed_per_s: float
    loop_us: float
    missing: int
    waits_ms: list[float]


async def crowd(peer: Peer, letters: "Letters", count: int) -> Crowd:
    """Let the senders send this many messages, each waiting for its confirmation."""
    waits: list[float] = []
    left = count

    async def send() -> None:
        nonlocal left
        while left > 0:
            left -= 1
            started = clock()
            number, letter = letters.to_anyone()
            letters.sent[number] = started
            await peer.send(letter)
            waits.append((clock() - started) * 1e3)

    async def send_all() -> None:
        await asyncio.gather(*(send() for _ in range(SENDERS)))

    return await _consumed(peer, letters, count, send_all, waits)


async def send_many(peer: Peer, letters: "Letters", count: int) -> Crowd:
    """Send this many messages at once, without waiting for each confirmation."""

    async def send_all() -> None:
        await peer.fill(letters.some(count))

    return await _consumed(peer, letters, count, send_all, [])


async def _consumed(
    peer: Peer, letters: "Letters", count: int, send_all: Callable[[], Awaitable[None]], waits: list[float]
) -> Crowd:
    """Send while the consumers run, and wait until everything is consumed."""
    consumers = Consumers(peer, letters)
    try:
        begin, begin_cpu = clock(), time.thread_time()
        await send_all()
        confirmed_s = clock() - begin
        missing = await consumers.finish()
    finally:
        await consumers.close()
    passed_s = max(consumers.last - begin, confirmed_s)
    loop_us = (consumers.last_cpu - begin_cpu) / count * 1e6
    return Crowd((count - missing) / passed_s, count / confirmed_s, loop_us, missing, waits)


async def load(peer: Peer, count: int) -> tuple[float, float, int]:
    """Send messages at once while nobody consumes, and then consume them; return both rates and what is missing."""
    letters = Letters(6)
    begin = clock()
    await peer.fill(letters.some(count))
    loaded_s = clock() - begin
    begin = clock()
    consumers = Consumers(peer, letters)
    try:
        missing = await consumers.finish()
    finally:
        await consumers.close()
    return count / loaded_s, (count - missing) / (consumers.last - begin), missing


async def alone(peer: Peer, letters: "Letters", count: int) -> tuple[list[float], list[float]]:
    """Return the times of single sends, and their times to the consumer."""
    waits: list[float] = []
    ends: list[float] = []
    arrived = asyncio.Event()

    async def consume() -> None:
        async for body in peer.consume(ALONE, 1):
            started = letters.sent.pop(number_of(body), None)
            if started is not None:
                ends.append((clock() - started) * 1e3)
                arrived.set()

    consumer = asyncio.create_task(consume())
    try:
        for _ in range(count):
            arrived.clear()
            started = clock()
            number, letter = letters.write(ALONE)
            letters.sent[number] = started
            await peer.send(letter)
            waits.append((clock() - started) * 1e3)
            await asyncio.wait_for(arrived.wait(), DRAIN_MAX_S)
    finally:
        await _stop([consumer])
    return waits, ends


async def order(peer: Peer) -> tuple[bool, bool]:
    """Return whether a mailbox delivers the highest priority first, and the oldest first within one."""
    letters, expected = Letters(3), []
    for _ in range(ORDER_COUNT):
        number, letter = letters.write(ORDER)
        expected.append((-letter.priority, number))
        await peer.send(letter)
    expected.sort()
    found: list[tuple[int, int]] = []
    messages = peer.consume(ORDER, 1)
    try:
        while len(found) < ORDER_COUNT:
            body = await asyncio.wait_for(anext(messages), DRAIN_MAX_S)
            found.append((-priority_of(body), number_of(body)))
    finally:
        await messages.aclose()
    honoured = [level for level, _ in found] == [level for level, _ in expected]
    by_level = sorted(found, key=lambda each: each[0])
    return honoured, by_level == expected


async def critical(peer: Peer, backlog: int) -> float | None:
    """Return the median time of a Critical message to a busy consumer with a backlog."""
    letters = Letters(4)
    await peer.fill([letters.write(BACKLOG, below=CRITICAL)[1] for _ in range(backlog)])
    waits: list[float] = []
    messages: AsyncGenerator[str, None] = peer.consume(BACKLOG, 1)
    try:
        await asyncio.wait_for(anext(messages), DRAIN_MAX_S)
        for _ in range(CRITICALS):
            number, letter = letters.write(BACKLOG, CRITICAL)
            started = clock()
            await peer.send(letter)
            try:
                async with asyncio.timeout(CRITICAL_MAX_S):
                    while number_of(await anext(messages)) != number:
                        pass
            except TimeoutError:
                return None
            waits.append((clock() - started) * 1e3)
    finally:
        await messages.aclose()
    return percentile(waits, 50)


async def _stop(tasks: list["asyncio.Task[None]"]) -> None:
    going = set(tasks)
    while going:  # A client library may suppress a cancellation.
        for task in going:
            task.cancel()
        _, going = await asyncio.wait(going, timeout=1)
    for task in tasks:
        if not task.cancelled():
            task.result()


def _raise_of(tasks: list["asyncio.Task[None]"]) -> None:
    """Raise the error of a failed consumer instead of waiting for it."""
    for task in tasks:
        if task.done():
            task.result()
