"""Readiness: a commit has just worked, or the hub is not ready."""

import asyncio
from pathlib import Path

from tests.hub.hosting.test_host import ADA, FULL_DISK, hosted, message
from tocsin.core.commands import Receipt
from tocsin.hub.config import ReadinessConfig
from tocsin.hub.observability.readiness import Readiness

#: No commit is so young that it stands for the next.
STRICT = ReadinessConfig(fresh_s=1e-9, timeout_s=0.05)


async def test_a_hub_is_ready_because_a_commit_works(tmp_path: Path) -> None:
    async with hosted(tmp_path) as (host, _):
        before = host.committed_at
        found = await Readiness(host, asyncio.Event(), ReadinessConfig(fresh_s=1e-9, timeout_s=30)).check()
        assert (found.ready, found.condition, found.reason) == (True, "serving", "")
        assert host.committed_at > before


async def test_a_commit_of_a_moment_ago_is_proof_enough(tmp_path: Path) -> None:
    async with hosted(tmp_path) as (host, journal):
        assert isinstance(await host.submit(message(1), ADA), Receipt)
        journal.probe_errors.append(FULL_DISK)
        assert (await Readiness(host, asyncio.Event(), ReadinessConfig(fresh_s=600, timeout_s=30)).check()).ready
        assert journal.probe_errors


async def test_a_hub_whose_commits_do_not_end_is_not_ready(tmp_path: Path) -> None:
    async with hosted(tmp_path) as (host, journal):
        journal.gate.clear()
        readiness = Readiness(host, asyncio.Event(), STRICT)
        stalled = await asyncio.gather(*(readiness.check() for _ in range(20)))
        assert {(found.ready, found.condition) for found in stalled} == {(False, "stalled")}
        assert "no commit has ended" in stalled[0].reason
        journal.gate.set()
        while not (await readiness.check()).ready:
            pass


async def test_a_hub_whose_commit_fails_is_not_ready(tmp_path: Path) -> None:
    async with hosted(tmp_path) as (host, journal):
        journal.probe_errors += [FULL_DISK] * 2
        found = await Readiness(host, asyncio.Event(), ReadinessConfig(fresh_s=1e-9, timeout_s=30)).check()
        assert (found.ready, found.condition) == (False, "recovering")
        assert "no space left" in found.reason


async def test_a_hub_that_shuts_down_is_not_ready(tmp_path: Path) -> None:
    async with hosted(tmp_path) as (host, _):
        closing = asyncio.Event()
        closing.set()
        assert not (await Readiness(host, closing, STRICT).check()).ready
