"""Two hubs on one PostgreSQL: one serves, the other takes over; never both."""

import asyncio
import secrets
import threading
from pathlib import Path

import psycopg
import pytest

from tests.forks import Forked
from tests.hub.hosting.test_host import ADA, BOB, QUICK, message
from tests.ids import SeededIds
from tests.patience import PATIENCE_S
from tests.postgres import Server
from tests.stores.test_recovery import assert_same, lived
from tocsin.core.commands import Receipt, RegisterAgent
from tocsin.core.errors import Problem
from tocsin.core.exchange import Exchange
from tocsin.hub.config import load_config
from tocsin.hub.hosting.host import Host
from tocsin.hub.ownership import Announcements, Standby, owners
from tocsin.journal.errors import JournalUnavailable, OwnershipLost
from tocsin.journal.log import tail
from tocsin.journal.postgres import PostgresJournal, ownership
from tocsin.journal.postgres.connection import connect
from tocsin.journal.postgres.ownership import lock_key
from tocsin.journal.projection import batch_of
from tocsin.journal.tables import Segment
from tocsin.journal.terms import OwnershipTerms
from tocsin.policies import parse_policy

POLICY = parse_policy(QUICK)


@pytest.fixture
def dsn(postgres: Server) -> str:
    return postgres.database(f"failover_{secrets.token_hex(6)}")


async def team(host: Host) -> None:
    for caller in (ADA, BOB):
        await host.submit(RegisterAgent("Manager", ("1.1.0",)), caller)


def waits_for_lock(dsn: str) -> bool:
    with psycopg.connect(dsn, autocommit=True) as connection:
        row = connection.execute("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted").fetchone()
        return row is not None and row[0] > 0


async def until_waiting(dsn: str) -> None:
    while not await asyncio.to_thread(waits_for_lock, dsn):
        await asyncio.sleep(0.01)


def cut_off(dsn: str) -> None:
    """End the connection of whoever owns the project: the owner has lost the database, and does not know."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        key = lock_key("test") & ((1 << 64) - 1)
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted AND classid = %s",
            (key >> 32,),
        )


async def test_a_standby_takes_over_when_the_owner_leaves(dsn: str) -> None:
    first = await Standby(dsn, "test", POLICY, hub="one", address="one:1").serve()
    await team(first)
    assert isinstance(await first.submit(message(1), ADA), Receipt)
    standby = asyncio.create_task(Standby(dsn, "test", POLICY, hub="two", address="two:2").serve())
    await until_waiting(dsn)
    assert [(owner.project, owner.hub, owner.address) for owner in owners(dsn)] == [("test", "one", "one:1")]
    assert not standby.done()
    await first.close()
    second = await standby
    assert [(owner.hub, owner.epoch) for owner in owners(dsn)] == [("two", 2)]
    again = await second.submit(message(1), ADA)
    assert isinstance(again, Receipt)
    assert again.duplicate
    await second.close()


async def test_an_owner_that_renews_is_left_alone_and_one_that_does_not_is_replaced(dsn: str) -> None:
    config = load_config(ownership={"lease_s": 1, "renew_s": 0.1, "look_s": 0.1})
    first = await Standby(dsn, "test", POLICY, hub="one", config=config).serve()
    await team(first)
    waiting = Standby(dsn, "test", POLICY, hub="two", config=config)
    standby = asyncio.create_task(waiting.serve())
    while waiting.seen.owner is None or waiting.seen.owner.renewals < 25:  # more than two leases
        await asyncio.sleep(0.01)
    assert waiting.seen.owner.hub == "one"
    assert isinstance(await first.submit(message(1), ADA), Receipt)
    renew = first.journal.renew
    first.journal.renew = lambda: None  # type: ignore[method-assign]
    second = await standby
    assert [(owner.hub, owner.epoch) for owner in owners(dsn)] == [("two", 2)]
    late = await first.submit(message(2), ADA)
    assert isinstance(late, Problem)
    assert late.retryable
    first.journal.renew = renew  # type: ignore[method-assign]
    assert "another hub has taken over" in await first.stopped()
    assert isinstance(await second.submit(message(2), ADA), Receipt)
    await first.close()
    await second.close()


async def test_an_idle_owner_learns_from_its_renewal_that_it_was_replaced(dsn: str) -> None:
    """It commits nothing, writes no tables and no search index, and has pruned: all that it writes is the renewal."""
    terms = OwnershipTerms(lease_s=1, renew_s=0.1, look_s=0.1)
    journal = PostgresJournal(dsn, "test", hub="one", terms=terms)
    pruned, prune = threading.Event(), journal.prune

    def noticed(upto_seq: int, before_at: int, limit: int) -> int:
        try:
            return prune(upto_seq, before_at, limit)
        finally:
            pruned.set()

    journal.prune = noticed  # type: ignore[method-assign]
    host = await Host.start(journal, parse_policy("storage: {search: false, prune_interval_s: 3600}"))
    await host.projected(host.committed_seq)
    assert await asyncio.to_thread(pruned.wait, PATIENCE_S)
    with connect(dsn, "two") as other:
        assert ownership.take(other, "test", "two", "two:2", terms.lease_s) == 2
    async with asyncio.timeout(PATIENCE_S):
        assert "another hub has taken over" in await host.stopped()
    refused = await host.submit(message(1), ADA)
    assert isinstance(refused, Problem)
    assert refused.code == "E_HUB_002"
    await host.close()


async def test_an_owner_that_lost_its_connection_is_fenced_and_steps_down(dsn: str) -> None:
    first = await Standby(dsn, "test", POLICY, hub="one").serve()
    await team(first)
    await first.submit(message(1), ADA)
    standby = asyncio.create_task(Standby(dsn, "test", POLICY, hub="two").serve())
    await until_waiting(dsn)
    await asyncio.to_thread(cut_off, dsn)
    second = await standby
    assert isinstance(await second.submit(message(2), ADA), Receipt)
    late = await first.submit(message(3), ADA)
    assert isinstance(late, Problem)
    assert late.retryable
    assert "another hub has taken over" in await first.stopped()
    refused = await first.submit(message(4), ADA)
    assert isinstance(refused, Problem)
    assert refused.code == "E_HUB_002"
    assert isinstance(await second.submit(message(5), ADA), Receipt)
    ids = {entry.message_id for entry in second.exchange.state.messages.values()}
    assert {"msg_1_x", "msg_2_x", "msg_5_x"} == ids
    await first.close()
    await second.close()


async def test_an_owner_that_lost_its_connection_and_nobody_else_goes_on(dsn: str) -> None:
    host = await Standby(dsn, "test", POLICY, hub="one").serve()
    await team(host)
    await asyncio.to_thread(cut_off, dsn)
    assert isinstance(await host.submit(message(1), ADA), Problem)
    while not isinstance(await host.submit(message(1), ADA), Receipt):
        await asyncio.sleep(0.001)
    await host.close()


def test_a_connection_that_another_thread_waits_on_is_let_go_of_and_not_waited_for(dsn: str) -> None:
    journal = PostgresJournal(dsn, "test")
    journal.recover()  # from now on the next connection gets the number of the reader's socket
    asked: list[Exception] = []

    def ask() -> None:
        try:
            journal.last_at()
        except Exception as error:
            asked.append(error)

    with psycopg.connect(dsn) as blocker:
        blocker.execute("LOCK TABLE tocsin_test.journal IN ACCESS EXCLUSIVE MODE")
        reader = threading.Thread(target=ask, daemon=True)
        reader.start()
        with psycopg.connect(dsn, autocommit=True) as onlooker:
            while (
                onlooker.execute("SELECT 1 FROM pg_locks WHERE NOT granted AND locktype = 'relation'").fetchone()
                is None
            ):
                pass
        recovery = threading.Thread(target=journal.recover, daemon=True)
        recovery.start()
        reader.join(30)
        assert [type(error) for error in asked] == [JournalUnavailable]
        blocker.rollback()
    recovery.join(30)
    assert not recovery.is_alive()
    assert journal.last_at() == 0
    journal.close()


async def test_two_hubs_that_fight_over_a_project_never_both_commit(dsn: str) -> None:
    hosts = [await Standby(dsn, "test", POLICY, hub="0").serve()]
    await team(hosts[0])
    confirmed: set[str] = set()

    async def send(host: Host, name: int) -> None:
        for number in range(300):
            reply = await host.submit(message(name * 1000 + number), ADA)
            if isinstance(reply, Receipt):
                confirmed.add(reply.message_id)
            elif host.condition == "stopped":
                return
            else:
                await asyncio.sleep(0.001)

    senders = [asyncio.create_task(send(hosts[0], 1))]
    for number in range(2, 5):
        standby = asyncio.create_task(Standby(dsn, "test", POLICY, hub=str(number)).serve())
        while not standby.done():
            # Between two waits of the standby the old owner may win the lock back: then it is cut off again.
            await until_waiting(dsn)
            await asyncio.to_thread(cut_off, dsn)
            await asyncio.wait([standby], timeout=5)
        hosts.append(await standby)
        senders.append(asyncio.create_task(send(hosts[-1], number)))
    await asyncio.gather(*senders)
    for host in hosts:
        await host.close()
    journal = PostgresJournal(dsn, "test")
    epochs = [group.epoch for group in journal.read(0)]
    assert epochs == sorted(epochs)
    replayed = Exchange(SeededIds(0))
    replayed.replay(event for _, event in tail(journal, 0))
    assert_same(hosts[-1].exchange.state, replayed.state)
    assert confirmed <= {entry.message_id for entry in replayed.state.messages.values()}
    assert len(confirmed) >= 300
    journal.close()


def test_a_replaced_owner_cannot_take_the_tables_back(dsn: str) -> None:
    journal = PostgresJournal(dsn, "test")
    tables = journal.tables()
    exchange = lived(journal, tables, 31, 100, 0.0)
    late = batch_of(exchange.capture())
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("UPDATE tocsin.projects SET epoch = epoch + 1")
    with pytest.raises(OwnershipLost):
        tables.write(late)
    with pytest.raises(OwnershipLost):
        tables.record_segment(Segment(1, 2, "path", 3, 4))
    assert tables.standing().seq == 0
    tables.close()
    journal.close()


async def test_a_killed_owner_is_replaced(dsn: str, tmp_path: Path) -> None:
    victim = Forked(["tests.acceptance.victim", "postgres", dsn, str(tmp_path / "segments"), "1"])
    try:
        out = victim.stdout
        assert out is not None
        lines = [out.readline() for _ in range(200)]
        standby = asyncio.create_task(Standby(dsn, "test", POLICY, hub="two").serve())
        await until_waiting(dsn)
        victim.kill()
        lines += out.readlines()
        host = await standby
        sent = {line.split()[1] for line in lines if line.startswith("sent")}
        assert sent
        tables = await asyncio.to_thread(host.journal.tables)
        await host.close()
        missing = [name for name in sent if not tables.signals(name)]
        tables.close()
        assert not missing
    finally:
        victim.kill()
        victim.communicate()


async def test_a_wait_can_be_given_up(dsn: str) -> None:
    host = await Standby(dsn, "test", POLICY, hub="one").serve()
    standby = asyncio.create_task(Standby(dsn, "test", POLICY, hub="two").serve())
    await until_waiting(dsn)
    standby.cancel()
    with pytest.raises(asyncio.CancelledError):
        await standby
    await host.close()


async def test_many_projects_are_spread_over_many_hubs(dsn: str) -> None:
    hosts = []
    for number in range(6):
        standby = Standby(dsn, f"project{number}", POLICY, hub=f"hub{number % 2}", address=f"host{number % 2}:80")
        hosts.append(await standby.serve())
        await team(hosts[-1])
        await hosts[-1].submit(message(number), ADA)
    served = {owner.project: owner.address for owner in owners(dsn)}
    assert served == {f"project{number}": f"host{number % 2}:80" for number in range(6)}
    for number, host in enumerate(hosts):
        assert [entry.message_id for entry in host.exchange.state.messages.values()] == [f"msg_{number}_x"]
        await host.close()


async def test_commits_are_announced_to_other_hubs(dsn: str) -> None:
    host = await Standby(dsn, "test", POLICY, hub="one").serve()
    listener = Announcements(dsn)
    await team(host)
    heard: list[tuple[str, int]] = []
    while ("test", 3) not in heard:
        heard += await asyncio.to_thread(listener.wait, 5.0)
    listener.close()
    await host.close()


def test_a_database_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(JournalUnavailable, match="connection_lost"):
        PostgresJournal(f"host={tmp_path} dbname=nothing")
