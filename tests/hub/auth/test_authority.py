"""Tokens: what they grant, for how long, and what is kept of them."""

import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest

from tests.patience import PATIENCE_S
from tests.postgres import Server
from tocsin.core.errors import TocsinError
from tocsin.hub.auth.authority import Authority
from tocsin.hub.auth.postgres_grants import PostgresGrants
from tocsin.hub.auth.signatures import check_signature
from tocsin.hub.auth.sqlite_grants import SqliteGrants
from tocsin.hub.auth.store import GrantStore
from tocsin.hub.auth.tokens import Grant, fresh_secret, parse_token
from tocsin.hub.auth.verifier import FollowingAuthority
from tocsin.journal.errors import JournalError, JournalUnavailable
from tocsin.wire.signatures import Signer

HOUR_S = 3600.0


class Time:
    def __init__(self) -> None:
        self.now = 1_750_000_000_000_000

    def __call__(self) -> int:
        return self.now

    def pass_s(self, seconds: float) -> None:
        self.now += int(seconds * 1_000_000)


Opening = Callable[[], GrantStore]


@pytest.fixture(params=["sqlite", "postgres"])
def opening(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Opening]:
    """How to open one and the same store, again and again."""
    if request.param == "sqlite":
        yield lambda: SqliteGrants(tmp_path / "data", "team")
        return
    server: Server = request.getfixturevalue("postgres")
    dsn = server.database(f"grants_{abs(hash(tmp_path))}")
    yield lambda: PostgresGrants(dsn, "team")


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def authority(tmp_path: Path, time: Time) -> Iterator[Authority]:
    authority = Authority(SqliteGrants(tmp_path, "team"), "team", time, tokens_per_agent_max=3, tokens_max=100)
    yield authority
    authority.close()


def refused(authority: Authority, token: str) -> str:
    with pytest.raises(TocsinError) as error:
        authority.authenticate(token)
    return error.value.code


def test_a_token_says_who_its_holder_is(authority: Authority) -> None:
    token = authority.issue("ada", "primary").secret.spell()
    grant = authority.authenticate(token)
    assert (grant.agent, grant.role, grant.project, grant.admin) == ("ada", "primary", "team", False)


@pytest.mark.parametrize("token", ["", "tcs_", "nonsense", "tcs_0123456789abcdef_" + "x" * 43, "tcs_é_" + "x" * 43])
def test_what_is_no_token_of_this_project_is_refused(authority: Authority, token: str) -> None:
    authority.issue("ada", "primary")
    assert refused(authority, token) == "E_AUTH_001"


def test_the_right_id_with_another_secret_is_refused(authority: Authority) -> None:
    secret = authority.issue("ada", "primary").secret
    assert refused(authority, f"tcs_{secret.token_id}_{fresh_secret().secret}") == "E_AUTH_001"


def test_a_token_of_another_project_is_refused(tmp_path: Path, time: Time) -> None:
    folder = tmp_path / "shared"
    ours = Authority(SqliteGrants(folder, "team"), "team", time, tokens_per_agent_max=3, tokens_max=100)
    theirs = Authority(SqliteGrants(folder, "other"), "other", time, tokens_per_agent_max=3, tokens_max=100)
    token = ours.issue("ada", "primary").secret.spell()
    assert refused(theirs, token) == "E_AUTH_001"
    mistaken = Authority(SqliteGrants(folder, "team"), "other", time, tokens_per_agent_max=3, tokens_max=100)
    assert refused(mistaken, token) == "E_AUTH_001"
    mistaken.close()
    ours.close()
    theirs.close()


def test_a_token_expires(authority: Authority, time: Time) -> None:
    token = authority.issue("ada", "primary", lifetime_s=HOUR_S).secret.spell()
    time.pass_s(HOUR_S - 1)
    authority.authenticate(token)
    time.pass_s(1)
    assert refused(authority, token) == "E_AUTH_004"


def test_rotation_ends_the_old_token_at_once_or_after_an_overlap(authority: Authority, time: Time) -> None:
    first = authority.issue("ada", "primary").secret.spell()
    second = authority.rotate("ada").secret.spell()
    assert refused(authority, first) == "E_AUTH_005"
    third = authority.rotate("ada", overlap_s=60).secret.spell()
    authority.authenticate(second)
    time.pass_s(60)
    assert refused(authority, second) == "E_AUTH_004"
    assert authority.authenticate(third).role == "primary"


def test_revoking_takes_every_token_of_an_agent(authority: Authority) -> None:
    tokens = [authority.issue("ada", "primary").secret.spell() for _ in range(2)]
    authority.revoke("ada")
    assert [refused(authority, token) for token in tokens] == ["E_AUTH_005", "E_AUTH_005"]


def test_the_last_administrator_cannot_be_revoked(authority: Authority) -> None:
    authority.issue("admin", "human", admin=True)
    with pytest.raises(TocsinError, match="only one who can administer"):
        authority.revoke("admin")
    authority.issue("deputy", "human", admin=True)
    authority.revoke("admin")
    assert authority.has_admin()


def test_an_agent_has_one_role_and_not_too_many_tokens(authority: Authority) -> None:
    for _ in range(3):
        authority.issue("ada", "primary")
    with pytest.raises(TocsinError, match="E_ADMISSION_008"):
        authority.issue("ada", "primary")
    with pytest.raises(TocsinError, match="E_STATE_002"):
        authority.issue("ada", "director")


@pytest.mark.parametrize(("agent", "role"), [("", "primary"), ("a/b", "primary"), ("tocsin", "human"), ("ada", "king")])
def test_names_and_roles_are_checked(authority: Authority, agent: str, role: str) -> None:
    with pytest.raises(TocsinError, match="E_VALIDATION"):
        authority.issue(agent, role)


def test_grants_outlive_the_hub(opening: Opening, time: Time) -> None:
    first = Authority(opening(), "team", time, tokens_per_agent_max=3, tokens_max=100)
    ada, bob = first.issue("ada", "director", admin=True, lifetime_s=HOUR_S), first.issue("bob", "clone")
    first.revoke("bob")
    known = first.grants()
    first.close()
    second = Authority(opening(), "team", time, tokens_per_agent_max=3, tokens_max=100)
    assert sorted(second.grants(), key=str) == sorted(known, key=str)
    assert second.authenticate(ada.secret.spell()) == ada.grant
    assert refused(second, bob.secret.spell()) == "E_AUTH_005"
    second.close()


def test_a_token_that_could_not_be_stored_is_not_in_force(authority: Authority) -> None:
    token = authority.issue("ada", "primary").secret.spell()
    authority.close()
    with pytest.raises(JournalError, match=r"tokens\.db"):
        authority.issue("bob", "primary")
    with pytest.raises(JournalError, match=r"tokens\.db"):
        authority.rotate("ada")
    assert [grant.agent for grant in authority.grants()] == ["ada"]
    assert authority.authenticate(token).agent == "ada", "it keeps what it has"


def stored(opening: Opening) -> list[Grant]:
    store = opening()
    try:
        return store.load()
    finally:
        store.close()


class Unsteady:
    """A store that can be away."""

    def __init__(self, store: GrantStore) -> None:
        self._store = store
        self.away = False
        self.damaged = store.damaged
        self.now = store.now

    def load(self) -> list[Grant]:
        return self._store.load()

    def write(self, grants: list[Grant], by: str | None = None, at: int = 0) -> None:
        self._must_be_here()
        self._store.write(grants, by, at)

    def changed(self) -> bool:
        self._must_be_here()
        return self._store.changed()

    def _must_be_here(self) -> None:
        if self.away:
            raise JournalUnavailable("connection_lost", "away")

    def close(self) -> None:
        self._store.close()


def test_tokens_of_another_process_are_followed(opening: Opening, time: Time) -> None:
    owner = Authority(opening(), "team", time, tokens_per_agent_max=3, tokens_max=100)
    follower = FollowingAuthority(opening(), "team", time)
    token = owner.issue("ada", "primary").secret.spell()
    grant = _once_followed(lambda: follower.authenticate(token))
    owner.revoke("ada")
    with pytest.raises(TocsinError, match="revoked"):
        _once_followed(lambda: follower.check(grant), until=TocsinError)
    owner.close()
    follower.close()


def _once_followed(ask: Callable[[], Any], until: type[Exception] | None = None) -> Any:
    """Return an answer once the follower has looked."""
    deadline = monotonic() + PATIENCE_S
    while True:
        try:
            answer = ask()
            if until is None or monotonic() > deadline:
                return answer
        except TocsinError:
            if until is not None or monotonic() > deadline:
                raise
        sleep(0.05)


def test_a_revocation_is_in_force_at_once_and_can_be_stored_later(opening: Opening, time: Time) -> None:
    store = Unsteady(opening())
    authority = Authority(store, "team", time, tokens_per_agent_max=3, tokens_max=100)
    token = authority.issue("ada", "primary").secret.spell()
    asked_at, store.away = time.now, True
    with pytest.raises(JournalUnavailable):
        authority.revoke("ada")
    assert refused(authority, token) == "E_AUTH_005"
    assert [grant.revoked_at for grant in authority.grants()] == [asked_at], "what is listed is what is checked"
    assert stored(opening)[0].revoked_at is None
    time.pass_s(60)
    store.away = False
    authority.revoke("ada")
    assert stored(opening)[0].revoked_at == asked_at
    with pytest.raises(TocsinError, match="E_ROUTING_001"):
        authority.revoke("ada")
    authority.close()


def test_who_is_stopped_counts_no_longer_as_an_administrator(opening: Opening, time: Time) -> None:
    store = Unsteady(opening())
    authority = Authority(store, "team", time, tokens_per_agent_max=3, tokens_max=100)
    for name in ("admin", "deputy"):
        authority.issue(name, "human", admin=True)
    store.away = True
    with pytest.raises(JournalUnavailable):
        authority.revoke("deputy")
    with pytest.raises(TocsinError, match="E_STATE_002"):
        authority.stop("admin")
    authority.close()


def test_what_is_stopped_stays_so_through_a_rotation(authority: Authority) -> None:
    old = authority.issue("ada", "primary").secret.spell()
    authority.stop("ada")
    new = authority.rotate("ada", overlap_s=60).secret.spell()
    assert refused(authority, old) == "E_AUTH_005"
    assert authority.authenticate(new).agent == "ada"
    assert [grant.revoked_at is None for grant in authority.grants()] == [False, True]


def test_grants_are_found_again_after_the_connection_is_lost(postgres: Server) -> None:
    dsn = postgres.database("grants_cut")
    store = PostgresGrants(dsn, "team")
    made = Authority(store, "team", Time(), tokens_per_agent_max=3, tokens_max=100)
    made.issue("ada", "primary")
    for change in (lambda: made.issue("bob", "primary"), lambda: made.revoke("ada")):
        postgres.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'grants_cut'")
        change()
    postgres.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'grants_cut'")
    assert sorted((grant.agent, grant.revoked_at is None) for grant in store.load()) == [("ada", False), ("bob", True)]
    made.close()


def test_a_rotated_token_lives_as_long_as_the_last_one_was_to(authority: Authority, time: Time) -> None:
    authority.issue("ada", "primary", lifetime_s=HOUR_S)
    time.pass_s(60)
    for overlap_s in (0.0, 5.0, 5.0):
        rotated = authority.rotate("ada", overlap_s=overlap_s).grant
        assert rotated.expires_at == time.now + int(HOUR_S * 1_000_000), "and an overlap is no lifetime"
    assert authority.rotate("ada", lifetime_s=60).grant.expires_at == time.now + 60_000_000
    assert authority.rotate("ada", lifetime_s=None).grant.expires_at is None
    assert authority.rotate("ada").grant.expires_at is None


def test_only_hashes_are_stored_and_only_the_owner_reads_them(authority: Authority, tmp_path: Path) -> None:
    issued = authority.issue("ada", "primary")
    files = list(tmp_path.glob("tokens.db*"))
    assert all(stat.S_IMODE(file.stat().st_mode) == 0o600 for file in files)
    stored = b"".join(file.read_bytes() for file in files)
    assert issued.grant.token_id.encode() in stored
    assert issued.secret.secret.encode() not in stored


def test_a_secret_does_not_show_itself(authority: Authority) -> None:
    issued = authority.issue("ada", "primary")
    assert issued.secret.secret not in f"{issued!r} {issued.secret!r} {issued.grant!r}"
    assert parse_token(issued.secret.spell()) == issued.secret


def test_a_signature_fits_one_body_and_one_token(authority: Authority) -> None:
    ada, bob = authority.issue("ada", "primary"), authority.issue("bob", "primary")
    signature = Signer(ada.secret.spell()).sign(b'{"a": 1}')
    check_signature(ada.grant, b'{"a": 1}', signature, required=True)
    for grant, body, given in ((ada.grant, b'{"a": 2}', signature), (bob.grant, b'{"a": 1}', signature)):
        with pytest.raises(TocsinError, match="E_AUTH_006"):
            check_signature(grant, body, given, required=False)
    check_signature(ada.grant, b"", None, required=False)
    with pytest.raises(TocsinError, match="E_AUTH_006"):
        check_signature(ada.grant, b"", None, required=True)
