"""Ownership in PostgreSQL: leases that end, sessions that are ended, and statements that take too long."""

import secrets

import pytest

from tests.postgres import Server
from tocsin.journal.errors import CommitFailed, JournalUnavailable, OwnershipLost
from tocsin.journal.postgres import PostgresJournal, ownership
from tocsin.journal.postgres.connection import connect, translated
from tocsin.journal.postgres.ownership import Sighting, Watch
from tocsin.journal.terms import OwnershipTerms, StoreTimeouts

TERMS = OwnershipTerms(lease_s=10, renew_s=2, look_s=0.5)


@pytest.fixture
def dsn(postgres: Server) -> str:
    return postgres.database(f"ownership_{secrets.token_hex(6)}")


def seen(renewals: int, epoch: int = 1, lease_s: float = 10) -> Sighting:
    return Sighting(epoch, "one", "one:1", renewals, lease_s)


def test_a_lease_ends_when_the_number_stands_still_for_it() -> None:
    watch = Watch()
    assert [watch.is_over(seen(7), now) for now in (100, 104, 108, 109.9, 110)] == [False, False, False, False, True]


def test_a_renewal_and_a_new_owner_begin_it_anew() -> None:
    watch = Watch()
    assert not any(watch.is_over(seen(number), 100 + 4 * number) for number in range(20))
    assert not watch.is_over(seen(19, epoch=2), 180)
    assert not watch.is_over(seen(19, epoch=2), 184)
    assert not watch.is_over(seen(19, epoch=2), 188)


def test_time_in_which_nobody_looked_does_not_count() -> None:
    """A standby that was stopped itself has not seen the renewals: it waits for a whole lease again."""
    watch = Watch()
    assert not watch.is_over(seen(7), 100)
    assert not watch.is_over(seen(7), 160)
    assert not watch.is_over(seen(7), 164)
    assert not watch.is_over(seen(7), 168)
    assert watch.is_over(seen(7), 170)


def test_an_owner_without_a_lease_is_never_replaced() -> None:
    watch = Watch()
    assert not any(watch.is_over(seen(0, lease_s=0), 100 + number) for number in range(100))


def test_the_owner_renews_and_stops_in_time(dsn: str) -> None:
    journal = PostgresJournal(dsn, "test", hub="one", address="one:1", terms=TERMS)
    onlooker = connect(dsn, "test")
    first = ownership.look(onlooker, "test")
    assert first == Sighting(1, "one", "one:1", 0, 10)
    journal.renew()
    assert ownership.look(onlooker, "test") == Sighting(1, "one", "one:1", 1, 10)
    assert 0 < journal.lease_left_s() <= TERMS.lease_s - TERMS.renew_s
    onlooker.close()
    journal.close()


def test_an_owner_is_deposed_only_as_it_was_seen(dsn: str) -> None:
    journal = PostgresJournal(dsn, "test", hub="one", terms=TERMS)
    standby = connect(dsn, "test")
    before = ownership.look(standby, "test")
    assert before is not None
    journal.renew()
    assert ownership.depose(standby, "test", before) == 0
    journal.probe()
    now = ownership.look(standby, "test")
    assert now is not None
    assert not ownership.lock(standby, "test", 0)
    assert ownership.depose(standby, "test", now) == 1
    assert ownership.lock(standby, "test", 30)
    assert ownership.take(standby, "test", "two", "two:2", 10) == 2
    with pytest.raises(CommitFailed, match="connection_lost"):
        journal.probe()
    with pytest.raises(OwnershipLost):
        journal.renew()
    with pytest.raises(OwnershipLost):
        journal.recover()
    standby.close()
    journal.close()


def test_a_former_owner_that_stopped_in_a_transaction_does_not_block_the_next(dsn: str) -> None:
    """It holds the row of the epoch locked, which the next owner has to change."""
    timeouts = StoreTimeouts(commit_timeout_s=5, query_timeout_s=5, batch_timeout_s=5)
    former = PostgresJournal(dsn, "test", hub="one", terms=TERMS)
    other = PostgresJournal(dsn, "test2", hub="one", terms=TERMS)
    stopped = connect(dsn, ownership.session_name("tables", "test"))
    stopped.execute("BEGIN")
    stopped.execute("SELECT FROM tocsin.projects WHERE project = 'test' FOR SHARE")
    standby = connect(dsn, "test")
    owner = ownership.look(standby, "test")
    assert owner is not None
    assert ownership.depose(standby, "test", owner) == 1
    standby.close()
    journal = PostgresJournal(dsn, "test", hub="two", terms=TERMS, timeouts=timeouts, wait_s=30)
    assert journal.epoch == 2
    other.probe()  # the sessions of other projects are left alone
    for closing in (stopped, journal, former, other):
        closing.close()


def test_a_statement_that_takes_too_long_ends_its_connection(dsn: str) -> None:
    connection = connect(dsn, "test", timeout_s=0.2)
    with (
        pytest.raises(JournalUnavailable, match=r"did not answer within 0\.2 s"),
        translated(JournalUnavailable),
    ):
        connection.execute("SELECT pg_sleep(600)")
    assert connection.closed
