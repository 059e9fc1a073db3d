"""Measurement of handovers: a rolling restart of two hubs on one PostgreSQL under load.

Each project has an agent that sends to itself all the time. The pause of a handover is the longest time without a
confirmation that the senders of a moved project saw while a hub was stopped, or after one was started.
"""

import asyncio
import time
from collections.abc import Awaitable
from itertools import pairwise
from pathlib import Path

from tests.fleet.machines import Fleet, Sender, fleet_of
from tests.postgres import Server

from bench.report import percentile

__all__ = ["handovers"]

HUBS = 2
EACH = 2
SENDERS = 4


def handovers(root: Path, rounds: int) -> dict[str, float]:
    """Restart all hubs several times; return the pauses, and what was lost."""
    server = Server(fsync=True).create()
    try:
        return asyncio.run(_measured(root, server, rounds))
    finally:
        server.remove()


async def _measured(root: Path, server: Server, rounds: int) -> dict[str, float]:
    folder = root / "machines"
    folder.mkdir()
    pauses: list[float] = []
    async with fleet_of(folder, server, "bench_fleet", HUBS) as fleet:
        senders = {name: Sender(fleet.urls, await fleet.add(name), SENDERS) for name in fleet.names(EACH)}
        running = [asyncio.create_task(sender.run()) for sender in senders.values()]
        await _confirmed(senders)
        for _ in range(rounds):
            for number in range(HUBS):
                pauses += await _paused(fleet, senders, fleet.stop(number))
                pauses += await _paused(fleet, senders, fleet.start(number))
        for sender in senders.values():
            sender.stop()
        await asyncio.gather(*running)
    return {
        "handover_ms_p50": percentile(pauses, 50) * 1000,
        "handover_ms_p99": percentile(pauses, 99) * 1000,
        "handovers": float(len(pauses)),
        "handover_messages": float(sum(len(sender.confirmed) for sender in senders.values())),
        "lost": float(sum(len(sender.lost) for sender in senders.values())),
        "failed_calls": float(sum(len(sender.errors) for sender in senders.values())),
    }


async def _confirmed(senders: dict[str, Sender]) -> None:
    await asyncio.gather(*(sender.until_confirmed(50) for sender in senders.values()))


async def _paused(fleet: Fleet, senders: dict[str, Sender], change: Awaitable[None]) -> list[float]:
    """Return the pauses of the projects that a change has moved."""
    owners, began = fleet.addresses(), time.perf_counter()
    await change
    await _confirmed(senders)
    while not _at_rest(fleet, senders):
        await asyncio.sleep(0.1)
    await _confirmed(senders)
    found: list[float] = []
    for name, sender in senders.items():
        if fleet.addresses()[name] != owners[name]:
            times = [began, *(at for at in sender.confirmed_at if at >= began)]
            found.append(max(later - earlier for earlier, later in pairwise(times)))
    return found


def _at_rest(fleet: Fleet, senders: dict[str, Sender]) -> bool:
    """Tell whether every project is where it should be."""
    owners = fleet.addresses()
    return all(owners[name] == fleet.place(name) for name in senders)
