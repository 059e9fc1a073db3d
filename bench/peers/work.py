"""The work that every system does: many senders at once, one sender alone, and a Critical message behind a backlog.

*Crowd*: 64 senders, each waiting for its confirmation before it sends on, to 16 mailboxes whose consumers acknowledge
everything. *Alone*: one sender and one consumer, nothing else. *Order*: what a mailbox with a mixed lot in it hands
out, one at a time: whether priorities are honoured is looked at here, not believed. *Backlog*: a mailbox with very many
messages below Critical whose consumer is busy with one of them; then a Critical message is sent, and timed until the
consumer has it. A system that hands it out after everything else is given up on after a while.
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
#: Mailboxes of the crowd; each other part of the work has one more of its own.
MAILBOXES = 16
ALONE, ORDER, BACKLOG = MAILBOXES, MAILBOXES + 1, MAILBOXES + 2
#: Of a hundred messages, how many are of each priority, lowest first.
SHARES = (60, 30, 8, 2)
CRITICAL = len(SHARES) - 1
#: How many a consumer may take at a time, where throughput is what counts.
AHEAD = 64
WARM_UP_S = 0.5
#: Time for consumers to catch up once the senders have stopped, seconds.
DRAIN_MAX_S = 30.0
#: How long a Critical message is waited for behind a backlog, seconds.
CRITICAL_MAX_S = 20.0
#: Critical messages that are timed one after another behind a backlog; the median counts.
CRITICALS = 9
ORDER_COUNT = 200

clock = time.perf_counter


class Found(msgspec.Struct):
    """What one system did, in one round."""

    #: Messages that were sent, confirmed, consumed and acknowledged, per second, until the last of them was.
    per_s: float
    #: Sends confirmed per second, while there were senders: more than consumers can take, where a backlog builds up.
    confirmed_per_s: float
    #: Confirmed messages that no consumer had seen when there was no more patience: 0 where nothing is lost or late.
    missing: int
    crowd_p50_ms: float
    crowd_p99_ms: float
    alone_p50_ms: float
    alone_p99_ms: float
    #: From the moment of sending until the consumer has it, with one sender.
    end_p50_ms: float
    end_p99_ms: float
    #: Whether a mailbox handed out the highest priority first, and the oldest first within one.
    priorities_honoured: bool
    oldest_first: bool
    #: Messages in the backlog.
    backlog: int
    #: Null: it had not come when there was no more patience.
    critical_under_backlog_ms: float | None


class Letters:
    """Writes messages, and remembers when each was sent."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._filler = "lorem ipsum dolor sit amet " * (MESSAGE_BYTES // 27 + 1)
        self._count = 0
        self.sent: dict[int, float] = {}

    def write(self, mailbox: int, priority: int | None = None, below: int = CRITICAL + 1) -> tuple[int, Letter]:
        """Write one message and return its number with it."""
        if priority is None:
            priority = self._random.choices(range(below), SHARES[:below])[0]
        self._count += 1
        head = f"{self._count:09d} {priority} "
        return self._count, Letter(mailbox, priority, head + self._filler[: MESSAGE_BYTES - len(head)])

    def to_anyone(self) -> tuple[int, Letter]:
        """Write one to any mailbox of the crowd."""
        return self.write(self._random.randrange(MAILBOXES))


def number_of(body: str) -> int:
    """Read which message it is."""
    return int(body[:9])


def priority_of(body: str) -> int:
    """Read of which priority it is."""
    return int(body[10])


async def do_all(peer: Peer, seconds: float, backlog: int) -> Found:
    """Do all of the work with a system that has been started."""
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
    """Return messages done per second, sends confirmed in the time, what was missing at the end, and sends' times."""
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
    """Return what single sends took, and what they took to their consumer."""
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
    """Return whether a mailbox hands out the highest priority first, and the oldest first within one."""
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
    """Return how long a Critical message took to a busy consumer with a backlog, as the median of several."""
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
    while going:  # a client library may swallow a cancellation
        for task in going:
            task.cancel()
        _, going = await asyncio.wait(going, timeout=1)
    for task in tasks:
        if not task.cancelled():
            task.result()


def _raise_of(tasks: list["asyncio.Task[None]"]) -> None:
    """Raise what a consumer failed by: it is not waited for."""
    for task in tasks:
        if task.done():
            task.result()
