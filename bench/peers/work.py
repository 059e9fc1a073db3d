"""The work of every system: many senders at once, a single sender, and a Critical message behind a backlog.

*Crowd*: 64 senders, each waiting for its confirmation before the next send, to 16 mailboxes whose consumers acknowledge
everything. *Alone*: one sender and one consumer. *Order*: the order in which a mailbox with mixed priorities delivers,
to check that priorities are respected. *Backlog*: a mailbox with many messages below Critical whose consumer is busy
with one of them; then a Critical message is sent, and the time until the consumer has it is measured, up to a limit.
"""

import asyncio
import random
import time
from collections.abc import AsyncGenerator

import msgspec

from bench.peers.peer import Letter, Peer
from bench.report import percentile

__all__ = ["MAILBOXES", "MESSAGE_BYTES", "SENDERS", "Found", "do_all"]

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
WARM_UP_S = 0.5
#: Time for consumers to catch up after the senders have stopped, seconds.
DRAIN_MAX_S = 30.0
#: Longest time to wait for a Critical message behind a backlog, seconds.
CRITICAL_MAX_S = 20.0
#: Number of Critical messages measured behind a backlog; the median is used.
CRITICALS = 9
ORDER_COUNT = 200

clock = time.perf_counter


class Found(msgspec.Struct):
    """Results of one system in one round."""

    #: Messages sent, confirmed, consumed and acknowledged per second, until the last one.
    per_s: float
    #: Sends confirmed per second while the senders ran; with a backlog it is more than consumers can process.
    confirmed_per_s: float
    #: Confirmed messages that were not consumed within the time limit; 0 if nothing is lost or late.
    missing: int
    crowd_p50_ms: float
    crowd_p99_ms: float
    alone_p50_ms: float
    alone_p99_ms: float
    #: Time from sending until the consumer has the message, with one sender.
    end_p50_ms: float
    end_p99_ms: float
    #: Whether a mailbox delivered the highest priority first, and the oldest first within one.
    priorities_honoured: bool
    oldest_first: bool
    #: Messages in the backlog.
    backlog: int
    #: Null if it did not arrive within the time limit.
    critical_under_backlog_ms: float | None


class Letters:
    """Creates messages and records their send times."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._filler = "lorem ipsum dolor sit amet " * (MESSAGE_BYTES // 27 + 1)
        self._count = 0
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


def number_of(body: str) -> int:
    """Return the number of a message."""
    return int(body[:9])


def priority_of(body: str) -> int:
    """Return the priority of a message."""
    return int(body[10])


async def do_all(peer: Peer, seconds: float, backlog: int) -> Found:
    """Run all of the work on a running system."""
    per_s, confirmed, missing, crowd_ms = await crowd(peer, seconds)
    alone_ms, end_ms = await alone(peer, seconds / 2)
    honoured, oldest_first = await order(peer)
    critical_ms = await critical(peer, backlog)
    return Found(
        per_s,
        confirmed / seconds,
        missing,
        percentile(crowd_ms, 50),
        percentile(crowd_ms, 99),
        percentile(alone_ms, 50),
        percentile(alone_ms, 99),
        percentile(end_ms, 50),
        percentile(end_ms, 99),
        honoured,
        oldest_first,
        backlog,
        critical_ms,
    )


async def crowd(peer: Peer, seconds: float) -> tuple[float, int, int, list[float]]:
    """Return messages per second, confirmed sends, messages missing at the end, and the times of sends."""
    letters, waits = Letters(1), [0.0]
    confirmed = consumed = 0
    begin = clock() + WARM_UP_S
    last = end = begin + seconds
    all_seen = asyncio.Event()

    async def consume(mailbox: int) -> None:
        nonlocal consumed, last
        async for body in peer.consume(mailbox, AHEAD):
            letters.sent.pop(number_of(body), None)
            if (now := clock()) >= begin:
                consumed += 1
                last = max(last, now)
            if not letters.sent:
                all_seen.set()

    async def send() -> None:
        nonlocal confirmed
        while (started := clock()) < end:
            number, letter = letters.to_anyone()
            letters.sent[number] = started
            await peer.send(letter)
            now = clock()
            if begin <= now <= end:
                confirmed += 1
                waits.append((now - started) * 1e3)

    consumers = [asyncio.create_task(consume(mailbox)) for mailbox in range(MAILBOXES)]
    try:
        await asyncio.gather(*(send() for _ in range(SENDERS)))
        while letters.sent and clock() < end + DRAIN_MAX_S:
            all_seen.clear()
            try:
                await asyncio.wait_for(all_seen.wait(), 1)
            except TimeoutError:
                _raise_of(consumers)
    finally:
        await _stop(consumers)
    return consumed / (last - begin), confirmed, len(letters.sent), waits


async def alone(peer: Peer, seconds: float) -> tuple[list[float], list[float]]:
    """Return the times of single sends, and their times to the consumer."""
    letters, waits, ends = Letters(2), [0.0], [0.0]
    arrived = asyncio.Event()

    async def consume() -> None:
        async for body in peer.consume(ALONE, 1):
            ends.append((clock() - letters.sent[number_of(body)]) * 1e3)
            arrived.set()

    consumer = asyncio.create_task(consume())
    try:
        end = clock() + seconds
        while (started := clock()) < end:
            arrived.clear()
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
