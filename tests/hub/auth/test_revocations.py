"""Revocations among several processes: when they are answered, and what a revoked token can still do."""

import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep

import pytest

from tests.patience import PATIENCE_S
from tests.postgres import Server
from tocsin.core.errors import TocsinError
from tocsin.hub.auth.authority import Authority
from tocsin.hub.auth.followed_grants import FollowedGrants
from tocsin.hub.auth.postgres_grants import PostgresGrants
from tocsin.hub.auth.sqlite_grants import SqliteGrants
from tocsin.hub.auth.store import GrantStore, row_of
from tocsin.hub.auth.tokens import Grant
from tocsin.hub.auth.verifier import FollowingAuthority, TokenVerifier
from tocsin.journal.errors import JournalUnavailable, OwnershipLost
from tocsin.journal.postgres import PostgresJournal
from tocsin.journal.postgres.connection import connect

#: A lease that does not end during a test, and an interval in which no reader looks by itself.
LONG_S = 3600.0


@pytest.fixture
def dsn(postgres: Server) -> str:
    return postgres.database(f"revocations_{secrets.token_hex(6)}")


def owner(store: GrantStore, project: str = "home", parent: TokenVerifier | None = None) -> Authority:
    return Authority(store, project, store.now, tokens_per_agent_max=100, tokens_max=1000, parent=parent)


@contextmanager
def following(dsn: str, *, beat_s: float = LONG_S, lease_s: float = LONG_S) -> Iterator[FollowingAuthority]:
    """Follow the tokens of the home project as another hub does."""
    grants = FollowedGrants(PostgresGrants(dsn, "home"), "test", beat_s=beat_s, lease_s=lease_s)
    follower = FollowingAuthority(grants, "home", grants.now)
    try:
        yield follower
    finally:
        follower.close()


@contextmanager
def opened(dsn: str) -> Iterator[Authority]:
    """Own the home project, which has an administrator that is not revoked."""
    home = owner(PostgresGrants(dsn, "home"))
    home.issue("operator", "human", admin=True)
    try:
        yield home
    finally:
        home.close()


def code(call: Callable[..., object], *values: object, **named: object) -> str:
    """Make a call, and return the code of its refusal."""
    with pytest.raises(TocsinError) as error:
        call(*values, **named)
    return error.value.code


def test_a_revocation_is_answered_when_every_reader_refuses_the_token(dsn: str) -> None:
    with opened(dsn) as home, following(dsn) as one, following(dsn) as two:
        for _ in range(9):
            token = home.issue("ada", "human", admin=True).secret.spell()
            assert [follower.authenticate(token).agent for follower in (one, two)] == ["ada", "ada"]
            home.revoke("ada")
            refused = [code(follower.authenticate, token) for follower in (one, two)]
            assert refused == ["E_AUTH_005", "E_AUTH_005"]


def test_a_revocation_waits_for_a_silent_reader_until_its_lease_has_ended(dsn: str) -> None:
    with opened(dsn) as home:
        reader = PostgresGrants(dsn, "home")
        reader.show_read("silent", reader.version(), 0.5)
        shown_at = monotonic()
        home.issue("ada", "primary")
        assert monotonic() - shown_at > 0.4, "it was waited for"
        reader.show_read("silent", reader.version() - 1, LONG_S)
        revoking = threading.Thread(target=home.revoke, args=("ada",))
        revoking.start()
        while reader.version() < 3:
            sleep(0.01)
        assert revoking.is_alive(), "it has not read the revocation"
        reader.show_read("silent", reader.version(), LONG_S)
        revoking.join(PATIENCE_S)
        assert not revoking.is_alive()
        reader.leave("silent")
        reader.close()


def test_a_reader_that_has_left_is_not_waited_for(dsn: str) -> None:
    with opened(dsn) as home:
        with following(dsn):
            pass
        home.issue("ada", "primary")
        with connect(dsn, "test") as looking:
            assert looking.execute("SELECT count(*) FROM tocsin.token_readers").fetchone() == (0,)


class Unanswering(PostgresGrants):
    """A database that can stop answering."""

    away = False

    def version(self) -> int:
        """Return the number of changes so far."""
        if self.away:
            raise JournalUnavailable("timeout", "away")
        return super().version()


def test_without_a_database_tokens_are_accepted_until_the_lease_ends(dsn: str) -> None:
    with opened(dsn) as home:
        token = home.issue("ada", "human", admin=True).secret.spell()
        store = Unanswering(dsn, "home")
        grants = FollowedGrants(store, "test", beat_s=0.05, lease_s=1.0)
        follower = FollowingAuthority(grants, "home", grants.now)
        grant = follower.authenticate(token)
        store.away = True
        follower.check(grant)
        with pytest.raises(TocsinError) as refused:
            _until_refused(lambda: follower.check(grant))
        assert (refused.value.code, refused.value.problem.retryable) == ("E_HUB_007", True)
        assert code(follower.authenticate, token) == "E_HUB_007"
        assert code(follower.authenticate, "tcs_0123456789abcdef_" + "x" * 43) == "E_HUB_007"
        assert follower.find(grant.token_id) == grant, "where a call is passed on does not depend on it"
        home.revoke("ada")
        store.away = False
        deadline = monotonic() + PATIENCE_S
        while code(follower.check, grant) != "E_AUTH_005":
            assert monotonic() < deadline
            sleep(0.01)
        follower.close()


def _until_refused(call: Callable[[], object]) -> None:
    deadline = monotonic() + PATIENCE_S
    while monotonic() < deadline:
        call()
        sleep(0.01)


def test_an_owner_whose_lease_has_ended_accepts_no_token(dsn: str) -> None:
    lease = [1.0]
    store = PostgresGrants(dsn, "home")
    home = Authority(store, "home", store.now, tokens_per_agent_max=3, tokens_max=9, is_current=lambda: lease[0] > 0)
    token = home.issue("ada", "primary").secret.spell()
    for left_s in (1.0, 0.0, 1.0):
        lease[0] = left_s
        if left_s:
            assert home.authenticate(token).agent == "ada"
        else:
            assert code(home.authenticate, token) == "E_HUB_007"
    home.close()


def test_a_change_by_a_token_that_the_database_has_revoked_is_refused(dsn: str) -> None:
    with opened(dsn) as home:
        token = home.issue("ada", "human", admin=True).secret.spell()
        # These have read the tokens before the revocation, and follow nobody.
        stale = owner(PostgresGrants(dsn, "home"))
        acme = owner(PostgresGrants(dsn, "acme"), "acme", parent=stale)
        acme.issue("bob", "primary")
        by = acme.authenticate(token)
        home.revoke("ada")
        for change in (
            lambda: acme.issue("eve", "primary", by=by),
            lambda: acme.rotate("bob", by=by),
            lambda: acme.revoke("bob", by=by),
            lambda: stale.issue("eve", "primary", by=stale.authenticate(token)),
        ):
            assert code(change) == "E_AUTH_005"
        with connect(dsn, "test") as looking:
            rows = looking.execute("SELECT agent, revoked_at FROM tocsin.grants WHERE agent IN ('eve', 'bob')")
            assert rows.fetchall() == [("bob", None)]
        acme.close()
        stale.close()


def test_a_former_owner_changes_no_tokens(dsn: str) -> None:
    journal = PostgresJournal(dsn, "home")
    former = owner(PostgresGrants(dsn, "home", epoch=journal.epoch))
    former.issue("ada", "primary")
    journal.close()
    PostgresJournal(dsn, "home").close()
    for change in (lambda: former.issue("eve", "primary"), lambda: former.revoke("ada")):
        with pytest.raises(OwnershipLost):
            change()
    former.close()


def test_a_hub_that_hangs_in_the_middle_of_a_change_holds_no_revocation_up(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(dsn) as home:
        ada = home.issue("ada", "human", admin=True)
        acme = owner(
            PostgresGrants(dsn, "acme", 0.5),
            "acme",
            parent=TokenVerifier(home_store := PostgresGrants(dsn, "home"), "home", home_store.now),
        )
        by = acme.authenticate(ada.secret.spell())
        hangs, goes_on = threading.Event(), threading.Event()

        def hung(grant: Grant) -> tuple[object, ...]:
            """Hang once the author of the change has been looked up."""
            if grant.agent == "eve":
                hangs.set()
                assert goes_on.wait(PATIENCE_S)
            return row_of(grant)

        monkeypatch.setattr("tocsin.hub.auth.postgres_grants.row_of", hung)
        refused: list[str] = []
        hanging = threading.Thread(target=lambda: refused.append(code(acme.issue, "eve", "primary", by=by)))
        hanging.start()
        assert hangs.wait(PATIENCE_S)
        home.revoke("ada")
        goes_on.set()
        hanging.join(PATIENCE_S)
        assert refused == ["E_AUTH_005"]
        acme.close()
        home_store.close()


def test_a_change_of_tokens_that_was_made_but_not_answered_can_be_made_again(dsn: str) -> None:
    with opened(dsn) as home:
        ada = home.issue("ada", "human", admin=True).grant
        home.stop("ada")
        revoked = [grant for grant in home.grants() if grant.agent == "ada"]
        store = PostgresGrants(dsn, "home")
        for _ in range(2):
            store.write(revoked, ada.token_id, store.now())
        assert code(store.write, [ada], ada.token_id, store.now()) == "E_AUTH_005"
        store.close()


@pytest.fixture(params=["sqlite", "postgres"])
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str], GrantStore]:
    """How to open the tokens of a project."""
    if request.param == "sqlite":
        return lambda project: SqliteGrants(tmp_path / project, project)
    dsn: str = request.getfixturevalue("dsn")
    return lambda project: PostgresGrants(dsn, project)


class Away:
    """A store to which nothing can be written for a while."""

    def __init__(self, store: GrantStore) -> None:
        self._store = store
        self.away = False
        self.damaged = store.damaged
        self.load, self.changed, self.now, self.close = store.load, store.changed, store.now, store.close

    def write(self, grants: list[Grant], by: str | None = None, at: int = 0) -> None:
        """Store grants, or fail."""
        if self.away:
            raise JournalUnavailable("connection_lost", "away")
        self._store.write(grants, by, at)


def test_what_a_revoked_token_has_issued_since_is_void(stores: Callable[[str], GrantStore]) -> None:
    store = Away(stores("home"))
    home = owner(store)
    home.issue("operator", "human", admin=True)
    ada = home.issue("ada", "human", admin=True)
    elsewhere = TokenVerifier(stores("home"), "home", store.now)
    acme = owner(stores("acme"), "acme", parent=elsewhere)
    by = acme.authenticate(ada.secret.spell())
    before = acme.issue("bob", "primary", by=by)
    store.away = True
    with pytest.raises(JournalUnavailable):
        home.revoke("ada")
    # The revocation is asked for and not stored; another process does not know of it.
    eve = acme.issue("eve", "human", admin=True, by=by)
    mallory = acme.issue("mallory", "primary", by=eve.grant)
    store.away = False
    home.revoke("ada")
    elsewhere.close()
    acme.close()
    again = owner(acme_store := stores("acme"), "acme", parent=home)
    assert again.authenticate(before.secret.spell()).issued_by == ada.grant.token_id
    for issued in (eve, mallory):
        assert code(again.authenticate, issued.secret.spell()) == "E_AUTH_005"
        assert code(again.check, issued.grant) == "E_AUTH_005"
    assert [grant.agent for grant in again.grants() if grant.is_live(acme_store.now())] == ["bob"]
    assert not again.has_admin()
    again.close()
    home.close()


def test_a_token_that_is_stopped_issues_nothing_more(stores: Callable[[str], GrantStore]) -> None:
    home = owner(stores("home"))
    home.issue("operator", "human", admin=True)
    ada = home.issue("ada", "human", admin=True).grant
    home.stop("ada")
    assert code(home.issue, "eve", "primary", by=ada) == "E_AUTH_005"
    assert code(home.rotate, "operator", by=ada) == "E_AUTH_005"
    home.close()


def test_an_administrator_rotates_and_revokes_itself(stores: Callable[[str], GrantStore]) -> None:
    home = owner(stores("home"))
    home.issue("operator", "human", admin=True)
    ada = home.issue("ada", "human", admin=True)
    for _ in range(3):
        old, ada = ada, home.rotate("ada", by=home.authenticate(ada.secret.spell()))
        assert code(home.authenticate, old.secret.spell()) == "E_AUTH_005"
    bob = home.issue("bob", "primary", by=home.authenticate(ada.secret.spell()))
    home.revoke("ada", by=home.authenticate(ada.secret.spell()))
    assert home.authenticate(bob.secret.spell()).agent == "bob", "it was issued before the revocation"
    home.close()


def test_the_times_of_tokens_are_those_of_the_database(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store = PostgresGrants(dsn, "home")
    with connect(dsn, "test") as looking:
        row = looking.execute("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint").fetchone()
        assert row is not None
        assert abs(store.now() - row[0]) < 60_000_000
    import time

    machine = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: machine() + 3600 * 10**9)
    behind = PostgresGrants(dsn, "home")
    assert abs(behind.now() - row[0]) < 60_000_000, "this machine's clock is an hour ahead"
    behind.close()
    store.close()
