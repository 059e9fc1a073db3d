"""The owner's lease: it is renewed while the loop runs, and without it nothing is served."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.hub.hosting.test_host import ADA, BOB, QUICK, message
from tests.hub.journals import MeddledJournal
from tocsin.core.commands import Receipt, RegisterAgent
from tocsin.core.errors import Problem
from tocsin.hub.hosting.host import Condition, Host
from tocsin.journal.errors import JournalUnavailable, OwnershipLost
from tocsin.journal.terms import OwnershipTerms
from tocsin.policies import parse_policy

TERMS = OwnershipTerms(lease_s=0.5, renew_s=0.01, look_s=0.01)


async def leased(path: Path) -> tuple[Host, MeddledJournal]:
    """Start a host whose journal has a lease."""
    journal = MeddledJournal(path / "project")
    journal.terms, journal.left_s = TERMS, 0.02
    host = await Host.start(journal, parse_policy(QUICK))
    for caller in (ADA, BOB):
        await host.submit(RegisterAgent("Manager", ("1.1.0",)), caller)
    return host, journal


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.001)


async def test_a_lease_is_renewed_while_the_loop_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()
    timers: list[asyncio.TimerHandle] = []
    call_later = loop.call_later

    def remember(*arguments: Any) -> asyncio.TimerHandle:
        timers.append(call_later(*arguments))
        return timers[-1]

    monkeypatch.setattr(loop, "call_later", remember)
    host, journal = await leased(tmp_path)
    await until(lambda: journal.renewals >= 5)
    assert host.condition is Condition.SERVING
    await host.close()
    assert timers
    assert not [timer for timer in timers if timer.when() > loop.time() and not timer.cancelled()]


async def test_a_lapsed_lease_stops_service_and_a_renewal_resumes_it_with_the_same_state(tmp_path: Path) -> None:
    host, journal = await leased(tmp_path)
    assert isinstance(await host.submit(message(1), ADA), Receipt)
    state, recoveries = host.exchange, journal.recoveries
    journal.renew_errors, journal.left_s = [JournalUnavailable("connection_lost", "gone")], -1
    await until(lambda: host.condition is Condition.RECOVERING)
    refused = await host.submit(message(2), ADA)
    assert isinstance(refused, Problem)
    assert (refused.code, refused.retryable) == ("E_HUB_001", True)
    assert "lease" in refused.detail
    journal.renew_errors, journal.left_s = [], 10
    await until(lambda: host.condition is Condition.SERVING)
    assert isinstance(await host.submit(message(2), ADA), Receipt)
    assert (host.exchange, journal.recoveries) == (state, recoveries)
    await host.close()


async def test_a_renewal_that_finds_another_owner_ends_service(tmp_path: Path) -> None:
    host, journal = await leased(tmp_path)
    journal.renew_errors = [OwnershipLost("test", 1)]
    assert "another hub has taken over" in await host.stopped()
    refused = await host.submit(message(1), ADA)
    assert isinstance(refused, Problem)
    assert (refused.code, refused.retryable) == ("E_HUB_002", True)
    await host.close()
