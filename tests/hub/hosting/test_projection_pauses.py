"""The thread that writes the tables pauses long while nobody needs them, and briefly for a reader that waits."""

import asyncio
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.hub.hosting.test_host import ADA, hosted, message
from tests.patience import PATIENCE_S
from tocsin.core.commands import Receipt
from tocsin.hub.hosting import projection_writer

LONG_S = 0.0123
POLICY = f"storage: {{projection_interval_s: 600, projection_pause_s: {LONG_S}, projection_events_max: 1000000}}"


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the lengths of the pauses, none of which takes any time."""
    found: list[float] = []
    fake = SimpleNamespace(monotonic=time.monotonic, time=time.time, sleep=found.append)
    monkeypatch.setattr(projection_writer, "time", fake)
    return found


async def test_a_reader_that_waits_shortens_the_pauses(tmp_path: Path, pauses: list[float]) -> None:
    async with hosted(tmp_path, POLICY) as (host, _):
        await host.projected(host.committed_seq)
        pauses.clear()
        for number in range(100):
            assert isinstance(await host.submit(message(number), ADA), Receipt)
        async with asyncio.timeout(PATIENCE_S):
            await host.projected(host.committed_seq)
        # Two for the rows of a hundred messages; what follows when they are written delays no reader.
        assert len([pause for pause in pauses if pause < LONG_S]) >= 2


async def test_without_a_reader_the_pauses_are_long(tmp_path: Path, pauses: list[float]) -> None:
    async with hosted(tmp_path, POLICY.replace("_interval_s: 600", "_interval_s: 0.05")) as (host, _):
        await host.projected(host.committed_seq)
        pauses.clear()
        for number in range(100):
            assert isinstance(await host.submit(message(number), ADA), Receipt)
        async with asyncio.timeout(PATIENCE_S):
            while LONG_S not in pauses:
                await asyncio.sleep(0.001)
