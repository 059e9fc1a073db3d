"""The host: durable, then spoken; and what happens when it cannot be made durable."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from tests.envelopes import parsed
from tests.hub.journals import MeddledJournal
from tests.ids import SeededIds
from tests.patience import PATIENCE_S
from tests.stores.test_recovery import assert_same
from tocsin.core import events as ev
from tocsin.core.commands import (
    SYSTEM,
    AdoptPolicy,
    BroadcastReceipt,
    Caller,
    Confirm,
    Delivery,
    Drain,
    Drained,
    OpenSession,
    Publish,
    Published,
    Receipt,
    RegisterAgent,
    Requested,
    Send,
    SendRequest,
    SessionReady,
    Subscribe,
)
from tocsin.core.commands.base import CommandBase
from tocsin.core.errors import Problem
from tocsin.core.exchange import Exchange
from tocsin.core.policy import document_of
from tocsin.hub.clock import Clock
from tocsin.hub.hosting.host import Condition, Host
from tocsin.journal.errors import CommitFailed, JournalDamaged, JournalUnavailable, OwnershipLost
from tocsin.journal.log import EventLog, tail
from tocsin.journal.recovery import reopen
from tocsin.journal.sqlite.tables import SqliteTables
from tocsin.policies import parse_policy

QUICK = """
storage: {recovery_backoff_s: 0.001, recovery_attempts_max: 3, projection_interval_s: 0.02, group_events_max: 50}
sweeper: {interval_s: 0.01}
"""
ADA, BOB = Caller("ada", "primary"), Caller("bob", "primary")
FULL_DISK = CommitFailed("disk_full", "no space left")


@asynccontextmanager
async def hosted(
    path: Path, policy: str = QUICK, commit_timeout_s: float | None = None
) -> AsyncIterator[tuple[Host, MeddledJournal]]:
    journal = MeddledJournal(path / "project", commit_timeout_s=commit_timeout_s)
    host = await Host.start(journal, parse_policy(policy))
    for caller in (ADA, BOB):
        await host.submit(RegisterAgent("Manager", ("1.1.0",)), caller)
    try:
        yield host, journal
    finally:
        await host.close()


def message(number: int, receiver: str = "bob", message_type: str = "StatusUpdate", ttl: float | None = None) -> Send:
    metadata = None if ttl is None else {"ttl": ttl}
    return Send(parsed(number, receiver=receiver, messageType=message_type, metadata=metadata, priority=None))


def replayed(journal: MeddledJournal) -> Exchange:
    exchange = Exchange(SeededIds(0))
    exchange.replay(event for _, event in tail(journal, 0))
    return exchange


async def test_a_reply_is_spoken_after_the_commit_and_says_what_it_is_worth(tmp_path: Path) -> None:
    async with hosted(tmp_path) as (host, journal):
        journal.gate.clear()
        replies = [host.submit(message(number), ADA) for number in range(3)]
        await journal.held()
        assert not any(reply.done() for reply in replies)
        journal.gate.set()
        for reply in await asyncio.gather(*replies):
            assert isinstance(reply, Receipt)
            assert (reply.durability, reply.copies) == ("flushed", 1)


async def test_receipts_inside_other_replies_are_worth_the_same(tmp_path: Path) -> None:
    async with hosted(tmp_path) as (host, _):
        await host.submit(Subscribe("news"), BOB)
        broadcast = await host.submit(message(1, "*"), ADA)
        assert isinstance(broadcast, BroadcastReceipt)
        published = await host.submit(Publish("news", message(2, "*").envelope), ADA)
        assert isinstance(published, Published)
        question = msgspec.structs.replace(message(3).envelope, correlation_id="req_1")
        requested = await host.submit(SendRequest(question), ADA)
        assert isinstance(requested, Requested)
        receipts = [*broadcast.receipts, *published.receipts, requested.receipt]
        assert [(receipt.durability, receipt.copies) for receipt in receipts] == [("flushed", 1)] * 3


async def test_a_reply_without_events_waits_for_the_commits_that_it_has_seen(tmp_path: Path) -> None:
    async with hosted(tmp_path) as (host, journal):
        journal.gate.clear()
        first = host.submit(message(1), ADA)
        await asyncio.sleep(0)
        again = host.submit(message(1), ADA)
        await journal.held()
        assert not again.done()
        journal.append_errors.append(FULL_DISK)
        journal.gate.set()
        assert isinstance(await first, Problem)
        assert isinstance(await again, Problem)


async def test_waiting_commands_share_a_commit_and_a_lone_one_waits_for_none(tmp_path: Path) -> None:
    async with hosted(tmp_path) as (host, journal):
        before = len(journal.groups)
        await host.submit(message(0), ADA)
        assert len(journal.groups) == before + 1
        journal.gate.clear()
        replies = [host.submit(message(1), ADA)]
        await journal.held()
        replies += [host.submit(message(number), ADA) for number in range(2, 40)]
        journal.gate.set()
        await asyncio.gather(*replies)
        assert [len(group) for group in journal.groups[before:]] == [1, 1, 38]


async def test_a_group_is_no_larger_than_the_policy_allows(tmp_path: Path) -> None:
    async with hosted(tmp_path) as (host, journal):
        replies = await asyncio.gather(*[host.submit(message(number), ADA) for number in range(180)])
        assert all(isinstance(reply, Receipt) for reply in replies)
        assert max(len(group) for group in journal.groups) == 50


async def test_more_than_may_wait_is_refused_at_once(tmp_path: Path) -> None:
    policy = QUICK.replace("group_events_max: 50", "group_events_max: 5, commands_waiting_max: 10")
    async with hosted(tmp_path, policy) as (host, _):
        replies = await asyncio.gather(*[host.submit(message(number), ADA) for number in range(40)])
        problems = [reply for reply in replies if isinstance(reply, Problem)]
        assert {(problem.code, problem.retryable) for problem in problems} == {("E_HUB_001", True)}
        assert len(problems) == 25


async def test_a_failed_commit_tells_everyone_to_try_again_and_service_goes_on(tmp_path: Path) -> None:
    async with hosted(tmp_path) as (host, journal):
        await host.submit(message(0), ADA)
        journal.gate.clear()
        replies = [host.submit(message(1), ADA)]
        await journal.held()
        replies += [host.submit(message(number), ADA) for number in range(2, 5)]
        journal.append_errors.append(FULL_DISK)
        journal.gate.set()
        for reply in await asyncio.gather(*replies):
            assert isinstance(reply, Problem)
            assert (reply.code, reply.retryable) == ("E_HUB_001", True)
            assert "no space left" in reply.detail
        assert await served(host, message(1)) == "msg_1_x"
        assert journal.recoveries == 1
        assert_same(host.exchange.state, replayed(journal).state)


async def served(host: Host, command: Send) -> str:
    """Send until the host is back, and return what was accepted."""
    while True:
        reply = await host.submit(command, ADA)
        if isinstance(reply, Receipt):
            return reply.message_id
        assert isinstance(reply, Problem)
        assert reply.retryable
        await asyncio.sleep(0)


async def test_a_commit_that_does_not_end_is_given_up_and_its_late_result_counts(tmp_path: Path) -> None:
    async with hosted(tmp_path, commit_timeout_s=0.2) as (host, journal):
        journal.gate.clear()
        for number in (1, 2):
            reply = await host.submit(message(number), ADA)
            assert isinstance(reply, Problem)
            assert (reply.code, reply.retryable) == ("E_HUB_001", True)
            assert "did not commit within 0.2 s" in reply.detail
            assert host.condition is Condition.RECOVERING
        journal.gate.set()
        while not isinstance(again := await host.submit(message(1), ADA), Receipt):
            await asyncio.sleep(0.001)
        assert again.duplicate
        assert isinstance(await host.submit(message(2), ADA), Receipt)
        assert_same(host.exchange.state, replayed(journal).state)


async def test_a_commit_whose_answer_was_lost_is_found_again(tmp_path: Path) -> None:
    async with hosted(tmp_path) as (host, journal):
        journal.lost_answers.append(CommitFailed("connection_lost", "gone"))
        assert isinstance(await host.submit(message(1), ADA), Problem)
        await served(host, message(2))
        reply = await host.submit(message(1), ADA)
        assert isinstance(reply, Receipt)
        assert reply.duplicate


async def test_a_host_that_cannot_come_back_stops_and_says_why(tmp_path: Path) -> None:
    async with hosted(tmp_path) as (host, journal):
        journal.append_errors.append(FULL_DISK)
        journal.probe_errors += [FULL_DISK] * 3
        assert isinstance(await host.submit(message(1), ADA), Problem)
        assert "gave up after 3 tries: disk_full: no space left" in await host.stopped()
        reply = await host.submit(message(2), ADA)
        assert isinstance(reply, Problem)
        assert (reply.code, reply.retryable) == ("E_HUB_003", True)
        assert "no space left" in reply.detail


async def test_a_host_comes_back_when_the_database_does(tmp_path: Path) -> None:
    async with hosted(tmp_path) as (host, journal):
        journal.append_errors.append(CommitFailed("connection_lost", "gone"))
        journal.recover_errors += [JournalUnavailable("connection_lost", "still gone")] * 2
        assert isinstance(await host.submit(message(1), ADA), Problem)
        assert await served(host, message(1)) == "msg_1_x"
        assert journal.recoveries == 3


@pytest.mark.parametrize(
    ("error", "code"), [(OwnershipLost("test", 1), "E_HUB_002"), (JournalDamaged("a row is damaged"), "E_HUB_003")]
)
async def test_a_host_that_must_not_go_on_stops_at_once(tmp_path: Path, error: Exception, code: str) -> None:
    async with hosted(tmp_path) as (host, journal):
        journal.append_errors.append(error)
        assert isinstance(await host.submit(message(1), ADA), Problem)
        assert str(error) in await host.stopped()
        reply = await host.submit(message(2), ADA)
        assert isinstance(reply, Problem)
        assert reply.code == code
        assert journal.recoveries == 0


async def test_a_group_that_cannot_be_encoded_stops_the_host(tmp_path: Path) -> None:
    async with hosted(tmp_path) as (host, journal):
        journal.epoch = 1 << 63
        reply = await host.submit(message(1), ADA)
        assert isinstance(reply, Problem)
        assert reply.code == "E_HUB_001"
        assert "too large" in await host.stopped()
        assert not [group for group in journal.groups if any(isinstance(event, ev.MessageAccepted) for event in group)]


class Undecided(CommandBase, frozen=True):
    """A command that the exchange has no decision for."""


async def test_a_decision_that_breaks_throws_the_state_away(tmp_path: Path) -> None:
    async with hosted(tmp_path) as (host, journal):
        await host.submit(message(1), ADA)
        reply = await host.submit(Undecided(), ADA)
        assert isinstance(reply, Problem)
        assert reply.code == "E_HUB_001"
        await served(host, message(2))
        assert_same(host.exchange.state, replayed(journal).state)


async def test_pushes_leave_after_the_commit(tmp_path: Path) -> None:
    async with hosted(tmp_path) as (host, journal):
        await host.submit(message(0), ADA)
        pushed: list[Delivery] = []
        ready = await host.submit(OpenSession("push"), BOB, pushed.append)
        assert isinstance(ready, SessionReady)
        assert [push.signal_id for push in pushed] == ["msg_0_x"]
        journal.gate.clear()
        sent = host.submit(message(1), ADA)
        await journal.held()
        assert len(pushed) == 1
        journal.gate.set()
        await sent
        assert [push.signal_id for push in pushed] == ["msg_0_x", "msg_1_x"]
        host.detach(ready.session)
        await host.submit(message(2), ADA)
        assert len(pushed) == 2


async def test_a_failed_commit_pushes_nothing_and_the_session_lives_on(tmp_path: Path) -> None:
    async with hosted(tmp_path) as (host, journal):
        inbox: asyncio.Queue[Delivery] = asyncio.Queue()
        await host.submit(OpenSession("push"), BOB, inbox.put_nowait)
        journal.append_errors.append(FULL_DISK)
        assert isinstance(await host.submit(message(1), ADA), Problem)
        await served(host, message(2))
        assert (await inbox.get()).signal_id == "msg_2_x"
        assert inbox.empty()


async def test_an_attached_session_gets_again_what_it_has_not_confirmed(tmp_path: Path) -> None:
    async with hosted(tmp_path) as (host, journal):
        first: list[Delivery] = []
        ready = await host.submit(OpenSession("push"), BOB, first.append)
        assert isinstance(ready, SessionReady)
        for number in range(3):
            await host.submit(message(number), ADA)
        await host.submit(Confirm(("msg_1_x",)), BOB)
        host.detach(ready.session)
        journal.gate.clear()
        sent = host.submit(message(3), ADA)
        second: list[Delivery] = []
        attached = host.attach(ready.session, second.append)
        await journal.held()
        assert not second, "what it is offered is not durable yet"
        journal.gate.set()
        await asyncio.gather(sent, attached)
        await host.submit(message(4), ADA)
        assert [(push.signal_id, push.offer) for push in second] == [(f"msg_{number}_x", 1) for number in (0, 2, 3, 4)]
        assert [push.signal_id for push in first] == ["msg_0_x", "msg_1_x", "msg_2_x"]
        gone = await host.attach("ses_0_gone", second.append)
        assert isinstance(gone, Problem)
        assert gone.code == "E_STATE_003"


async def test_an_offer_whose_commit_got_lost_is_pushed_by_the_rebuilt_host(tmp_path: Path) -> None:
    async with hosted(tmp_path) as (host, journal):
        inbox: asyncio.Queue[Delivery] = asyncio.Queue()
        await host.submit(OpenSession("push"), BOB, inbox.put_nowait)
        journal.lost_answers.append(CommitFailed("connection_lost", "gone"))
        assert isinstance(await host.submit(message(1), ADA), Problem)
        assert (await inbox.get()).signal_id == "msg_1_x"


async def test_a_sink_that_fails_hurts_nobody_else(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def broken(push: Delivery) -> None:
        raise ConnectionError("gone")

    async with hosted(tmp_path) as (host, _):
        await host.submit(OpenSession("push"), BOB, broken)
        assert isinstance(await host.submit(message(1), ADA), Receipt)
    assert "pushing msg_1_x failed" in caplog.text


async def test_a_follower_is_told_of_every_group_after_it_is_durable_and_spoken(tmp_path: Path) -> None:
    async with hosted(tmp_path) as (host, journal):
        told: list[tuple[int, list[ev.Event]]] = []

        def follow(first_seq: int, events: list[ev.Event]) -> None:
            told.append((first_seq, events))
            assert journal.last_seq() == first_seq + len(events) - 1

        stop = host.follow(follow)
        before = journal.last_seq()
        sent = host.submit(message(1), ADA)
        assert not told
        await sent
        await host.durable()
        assert [type(event) for _, events in told for event in events] == [ev.MessageAccepted]
        assert told[0][0] == before + 1
        stop()
        stop()
        await host.submit(message(2), ADA)
        assert len(told) == 1


async def test_a_follower_of_some_kinds_of_events_is_told_of_groups_with_one_of_them(tmp_path: Path) -> None:
    async with hosted(tmp_path) as (host, _):
        told: list[list[ev.Event]] = []
        stop = host.follow(lambda _, events: told.append(events), frozenset({ev.MessageExpired, ev.AgentRegistered}))
        await host.submit(message(1), ADA)
        await host.durable()
        assert not told
        await host.submit(RegisterAgent("Manager"), Caller("eve", "primary"))
        await host.durable()
        assert [type(event) for events in told for event in events] == [ev.AgentRegistered]
        stop()
        await host.submit(RegisterAgent("Manager"), Caller("fay", "primary"))
        await host.durable()
        assert len(told) == 1


async def test_a_follower_that_fails_hurts_nobody_else(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with hosted(tmp_path) as (host, _):
        told: list[int] = []

        def fail(first_seq: int, events: list[ev.Event]) -> None:
            raise ValueError("I cannot")

        host.follow(fail)
        host.follow(lambda first_seq, _: told.append(first_seq))
        assert isinstance(await host.submit(message(1), ADA), Receipt)
        await host.durable()
        assert len(told) == 1
        assert host.condition is Condition.SERVING
    assert "a follower of project" in caplog.text


async def test_a_follower_hears_nothing_of_a_commit_that_failed(tmp_path: Path) -> None:
    async with hosted(tmp_path) as (host, journal):
        told: list[list[ev.Event]] = []
        host.follow(lambda _, events: told.append(events))
        journal.append_errors.append(FULL_DISK)
        assert isinstance(await host.submit(message(1), ADA), Problem)
        assert not told


async def test_durable_waits_for_the_commits_under_way_and_tells_where_they_fail(tmp_path: Path) -> None:
    async with hosted(tmp_path) as (host, journal):
        before = journal.last_seq()
        sent = host.submit(message(1), ADA)
        assert not isinstance(await host.durable(), Problem)
        assert sent.done()
        assert journal.last_seq() > before
        journal.append_errors.append(FULL_DISK)
        sent = host.submit(message(2), ADA)
        assert isinstance(await host.durable(), Problem)


async def test_timers_fire_by_themselves(tmp_path: Path) -> None:
    async with hosted(tmp_path) as (host, journal):
        expired = journal.appended(ev.MessageExpired)
        await host.submit(message(1, ttl=0.02), ADA)
        assert isinstance(await expired, ev.MessageExpired)


async def test_closing_finishes_what_has_begun_and_brings_the_tables_up_to_date(tmp_path: Path) -> None:
    journal = MeddledJournal(tmp_path / "project")
    host = await Host.start(journal, parse_policy(QUICK))
    await host.submit(RegisterAgent("Manager", ("1.1.0",)), ADA)
    await host.submit(RegisterAgent("Manager", ("1.1.0",)), BOB)
    journal.gate.clear()
    replies = [host.submit(message(number), ADA) for number in range(120)]
    closing = asyncio.create_task(host.close())
    await journal.held()
    refused = await host.submit(message(500), ADA)
    assert isinstance(refused, Problem)
    assert refused.code == "E_HUB_003"
    journal.gate.set()
    assert all(isinstance(reply, Receipt) for reply in await asyncio.gather(*replies))
    await closing
    again = MeddledJournal(tmp_path / "project")
    tables = again.tables()
    assert tables.standing().seq == again.last_seq() == 123
    tables.close()
    again.close()


async def test_no_capture_is_taken_while_another_is_on_its_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It used to replace the one that was being written, and the tables lost what it held."""
    policy = QUICK.replace("projection_interval_s: 0.02", "projection_interval_s: 600, projection_events_max: 1")
    async with hosted(tmp_path, policy) as (host, journal):
        await host.submit(message(0), ADA)
        await host.projected(host.committed_seq)
        writing = threading.Event()
        monkeypatch.setattr(journal, "harden", lambda: writing.wait(PATIENCE_S))
        journal.gate.clear()
        first = host.submit(message(1), ADA)
        await journal.held()
        second = host.submit(message(2), ADA)
        journal.gate.set()
        await asyncio.gather(first, second)
        writing.set()
    journal = MeddledJournal(tmp_path / "project")
    tables = journal.tables()
    assert_same(reopen(journal, tables, SeededIds(0)).state, replayed(journal).state)
    tables.close()
    journal.close()


async def test_a_restarted_host_knows_everything_but_the_connections(tmp_path: Path) -> None:
    async with hosted(tmp_path) as (host, _):
        ready = await host.submit(OpenSession("push"), BOB, lambda push: None)
        polled = await host.submit(OpenSession("piggyback"), ADA)
        await host.submit(message(1), ADA)
        assert isinstance(polled, SessionReady)
        assert isinstance(ready, SessionReady)
    async with hosted(tmp_path) as (host, _):
        await host.submit(RegisterAgent("Manager", ("1.1.0",)), BOB)
        assert set(host.exchange.state.sessions) == {polled.session}
        mine = await host.submit(OpenSession("piggyback"), BOB)
        assert isinstance(mine, SessionReady)
        drained = await host.submit(Drain(mine.session, 10), BOB)
        assert isinstance(drained, Drained)
        assert [delivery.signal_id for delivery in drained.deliveries] == ["msg_1_x"]


async def test_tables_that_cannot_follow_stop_the_host_in_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with hosted(tmp_path) as (host, journal):
        error = JournalUnavailable("disk_full", "no space for tables")
        monkeypatch.setattr(journal, "harden", lambda: (_ for _ in ()).throw(error))
        await host.submit(message(1), ADA)
        assert "no space for tables" in await host.stopped()
        assert host.condition is Condition.STOPPED


async def test_a_host_with_nothing_to_do_notices_that_its_journal_is_gone_and_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with hosted(tmp_path) as (host, journal):
        asked, recover = asyncio.Event(), journal.recover
        conditions: list[Condition] = []

        def recovered() -> None:
            conditions.append(host.condition)
            recover()
            loop.call_soon_threadsafe(asked.set)

        def away(tables: SqliteTables, limit: int) -> int:
            if journal.recoveries:
                return index(tables, limit)
            raise JournalUnavailable("connection_lost", "the server is away")

        loop, index = asyncio.get_running_loop(), SqliteTables.index
        monkeypatch.setattr(journal, "recover", recovered)
        journal.probe_errors.append(CommitFailed("connection_lost", "the server is away"))
        monkeypatch.setattr(SqliteTables, "index", away)
        await asked.wait()
        assert conditions == [Condition.RECOVERING]
        while host.condition is Condition.RECOVERING:
            await asyncio.sleep(0)
        assert isinstance(await host.submit(message(1), ADA), Receipt)


async def test_a_host_does_not_go_back_before_what_has_happened(tmp_path: Path) -> None:
    journal = MeddledJournal(tmp_path / "project")
    exchange, future = Exchange(SeededIds(1)), time.time_ns() // 1000 + 3_600_000_000
    events = exchange.handle(AdoptPolicy(document_of(parse_policy(QUICK)), "first"), SYSTEM, future).events
    EventLog(journal).append(events)
    host = await Host.start(journal, parse_policy(QUICK))
    await host.submit(RegisterAgent("Manager", ("1.1.0",)), ADA)
    assert [event.at >= future for group in journal.groups for event in group] == [True, True]
    await host.close()


def test_time_never_runs_backwards(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter([5_000_000, 3_000_000, 9_000_000])
    monkeypatch.setattr("time.time_ns", lambda: next(now))
    clock = Clock(not_before=4_000)
    assert [clock.now(), clock.now(), clock.now()] == [5_000, 5_000, 9_000]
    clock.advance(20_000)
    monkeypatch.setattr("time.time_ns", lambda: 10_000_000)
    assert clock.now() == 20_000
