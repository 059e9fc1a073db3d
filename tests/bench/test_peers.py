"""The comparison can be trusted: it finds out who breaks the order or loses messages, and compares like with like."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Any

import pytest
from bench.peers import __main__ as command
from bench.peers import work
from bench.peers.floor_file import File
from bench.peers.floor_memory import Memory
from bench.peers.peer import Grouped, Letter
from bench.peers.tocsin_agents import POLICY
from bench.peers.tocsin_embedded import TocsinEmbedded
from bench.peers.work import Found

from tocsin.policies import parse_policy


class FirstComeFirstServed(Memory):
    """Knows no priorities."""

    def _put(self, letter: Letter) -> None:
        self._count += 1
        self._queues[letter.mailbox].put_nowait((0, self._count, letter.body))


class NewestFirst(Memory):
    """Knows priorities, and hands out the newest of one first."""

    def _put(self, letter: Letter) -> None:
        self._count += 1
        self._queues[letter.mailbox].put_nowait((-letter.priority, -self._count, letter.body))


class Loser(Memory):
    """Confirms everything and keeps nine of ten."""

    def _put(self, letter: Letter) -> None:
        super()._put(letter)
        if self._count % 10 == 0:
            self._queues[letter.mailbox].get_nowait()


class Slow(FirstComeFirstServed):
    """Hands out so slowly that what comes last is not seen in time."""

    async def consume(self, mailbox: int, ahead: int) -> AsyncGenerator[str, None]:
        async for body in super().consume(mailbox, ahead):
            yield body
            await asyncio.sleep(0.001)


async def started(peer: Memory, folder: Path) -> Memory:
    await peer.start(folder, work.BACKLOG + 1)
    return peer


@pytest.mark.parametrize(
    ("peer", "found"), [(Memory, (True, True)), (FirstComeFirstServed, (False, True)), (NewestFirst, (True, False))]
)
async def test_the_order_is_looked_at(peer: type[Memory], found: tuple[bool, bool], tmp_path: Path) -> None:
    assert await work.order(await started(peer(), tmp_path)) == found


async def test_what_was_confirmed_and_never_came_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "DRAIN_MAX_S", 0.1)

    async def missing(peer: Memory) -> int:
        return (await work.crowd(await started(peer, tmp_path), work.Letters(1), 300)).missing

    assert await missing(Memory()) == 0
    assert await missing(Loser()) > 0


async def test_a_critical_message_that_does_not_come_in_time_has_no_figure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work, "CRITICAL_MAX_S", 0.05)

    async def critical(peer: Memory) -> float | None:
        return await work.critical(await started(peer, tmp_path), 500)

    assert await critical(Memory()) is not None
    assert await critical(Slow()) is None


async def test_what_is_delivered_again_from_an_earlier_part_counts_for_nothing(tmp_path: Path) -> None:
    peer = await started(Memory(), tmp_path)
    await peer.fill(work.Letters(0).some(50))
    assert (await work.crowd(peer, work.Letters(1), 100)).missing == 0


@pytest.mark.parametrize("peer", [File, TocsinEmbedded])
async def test_the_whole_work_is_done(peer: type[File | TocsinEmbedded], tmp_path: Path) -> None:
    sizes = work.Sizes(crowd=200, alone=10, load=300, backlog=300)
    one = peer()
    try:
        await one.start(tmp_path, work.BACKLOG + 1)
        found, checked = await work.measure(one, sizes), await work.check(one, sizes)
    finally:
        await one.close()
    assert checked.priorities_honoured
    assert checked.oldest_first
    assert checked.critical_under_backlog_ms is not None
    assert found.missing == 0
    assert min(found.per_s, found.many_per_s, found.load_per_s, found.drained_per_s, found.loop_us) > 0
    assert found.alone_p50_ms > 0


def test_bodies_have_the_size_that_the_table_says() -> None:
    assert {len(work.Letters(1).write(0)[1].body) for _ in range(10)} == {work.MESSAGE_BYTES}


async def test_those_who_wait_together_share_a_trip_and_its_failure() -> None:
    trips: list[int] = []

    async def write(letters: list[Letter]) -> None:
        trips.append(len(letters))
        await asyncio.sleep(0)
        if any(letter.body == "bad" for letter in letters):
            raise OSError("the disk is gone")

    async def send(bodies: Sequence[str]) -> list[BaseException | None]:
        grouped = Grouped(write, lines=1, most=8)
        try:
            return await asyncio.gather(*(grouped.send(Letter(0, 0, body)) for body in bodies), return_exceptions=True)
        finally:
            await grouped.close()

    assert await send(["good"] * 20) == [None] * 20
    assert trips == [8, 8, 4]
    assert {type(told) for told in await send(["good", "bad"])} == {OSError}


def result(per_s: float, *, load_per_s: float = 1.0, alone_ms: float = 1.0, loop_us: float = 1.0) -> Found:
    return Found(
        per_s=per_s,
        confirmed_per_s=per_s,
        crowd_p50_ms=1.0,
        crowd_p99_ms=2.0,
        loop_us=loop_us,
        many_per_s=per_s * 2,
        many_loop_us=1.0,
        alone_p50_ms=alone_ms,
        alone_p99_ms=2.0,
        end_p50_ms=1.0,
        end_p99_ms=2.0,
        load_per_s=load_per_s,
        drained_per_s=1.0,
        missing=0,
    )


def figures_of(monkeypatch: pytest.MonkeyPatch, **found: Found) -> dict[str, Any]:
    kinds = {"tocsin_embedded": TocsinEmbedded, "careful": File, "quick_to_load": File, "careless": Memory}
    kinds |= {"floor_file": File, "tocsin_ws": TocsinEmbedded}
    monkeypatch.setattr(command, "peer_of", kinds.__getitem__)
    return command.figures({name: command.middle([each]) for name, each in found.items()})


def test_only_promises_of_one_kind_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """A peer that does not fsync, and a floor that does, are faster here and count for nothing."""
    said = figures_of(
        monkeypatch,
        tocsin_embedded=result(3000.0),
        careful=result(1000.0),
        careless=result(9000.0),
        floor_file=result(8000.0),
    )
    assert said["best_fsynced_peer"] == "careful"
    assert said["ratio_embedded_to_best_fsynced_peer"] == 3.0
    assert "ratio_ws_to_best_fsynced_peer" not in said


def test_every_aim_has_its_figure_and_every_figure_its_floor_or_peer(monkeypatch: pytest.MonkeyPatch) -> None:
    said = figures_of(
        monkeypatch,
        tocsin_embedded=result(3000.0, load_per_s=600.0, alone_ms=3.0, loop_us=90.0),
        tocsin_ws=result(1500.0, alone_ms=5.0),
        careful=result(1000.0, load_per_s=200.0),
        quick_to_load=result(500.0, load_per_s=400.0),
        floor_file=result(5000.0, load_per_s=9000.0, alone_ms=2.0, loop_us=30.0),
    )
    assert {aim.name: said[aim.name] for aim in command.AIMS} == {
        "ratio_embedded_to_best_fsynced_peer": 3.0,
        "ratio_ws_to_best_fsynced_peer": 1.5,
        "embedded_over_floor": 0.6,
        "embedded_send_many_over_floor": 1.2,
        "loop_over_floor_loop": 3.0,
        "single_p50_over_floor_embedded": 1.5,
        "single_p50_over_floor_ws": 2.5,
        "load_embedded_over_best_peer": 1.5,
    }


def test_rounds_are_put_together_by_their_median_and_their_worst() -> None:
    bad = result(5.0)
    bad.missing = 7
    told = command.middle([result(1.0), bad, result(3.0)])
    assert told["per_s"] == 3.0
    assert told["missing"] == 7


def test_nothing_is_raised_while_a_backlog_is_filled() -> None:
    policy = parse_policy(POLICY)
    assert not policy.aging.enabled
    waiting = [rule for rule in policy.escalation.rules.values() if rule.trigger == "time_in_queue"]
    assert waiting
    assert all((rule.after_s or 0) > 3600 for rule in waiting)
