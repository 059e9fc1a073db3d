"""Tokens that are not stored as they were issued: flipped bits, changed rights, and files of earlier versions."""

import logging
import random
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import apsw
import msgspec
import psycopg
import pytest

from tests.postgres import Server
from tests.soak import SOAK, tally
from tocsin.core.errors import TocsinError
from tocsin.hub.auth.administration import TokenAdministration
from tocsin.hub.auth.authority import Authority
from tocsin.hub.auth.postgres_grants import PostgresGrants
from tocsin.hub.auth.sqlite_grants import SqliteGrants, project_of_grants
from tocsin.hub.auth.store import GrantStore
from tocsin.hub.auth.tokens import Grant, Issued, Secret, fresh_secret, hash_of, rights_mac, with_mac
from tocsin.journal.errors import JournalError
from tocsin.journal.postgres import PostgresJournal
from tocsin.journal.postgres.connection import connect
from tocsin.journal.postgres.schemas import migrate as migrate_postgres
from tocsin.journal.postgres.verification import verify_database
from tocsin.journal.sqlite.schema import migrate
from tocsin.journal.sqlite.verification import verify_directory
from tocsin.journal.verification import Examined

#: `make test` flips one of so many bits, and `make soak` each of them.
STRIDE = 1 if SOAK else 251


def opened(store: GrantStore) -> Authority:
    return Authority(store, "team", store.now, tokens_per_agent_max=9, tokens_max=100)


def issued_in(folder: Path) -> list[Issued]:
    """Issue some tokens of which one is revoked, in a file without unused pages."""
    authority = opened(SqliteGrants(folder, "team"))
    admin = authority.issue("admin", "human", admin=True)
    made = [admin]
    for agent, role in (("ada", "director"), ("bob", "primary"), ("eve", "clone"), ("gone", "director")):
        made.append(authority.issue(agent, role, types=("AdHoc", "Manager"), lifetime_s=1e6, by=admin.grant))
    authority.revoke("gone", by=admin.grant)
    authority.close()
    connection = apsw.Connection(str(folder / "tokens.db"))
    connection.execute("VACUUM")
    connection.close()
    return made


def told(authority: Authority, token: Secret) -> Grant | str:
    """Present a token, and return the grant or the code of the refusal."""
    try:
        return authority.authenticate(token.spell())
    except TocsinError as error:
        return error.code


def examined(folder: Path) -> list[Examined]:
    return [found for found in verify_directory(folder) if "tokens" in found.what]


@pytest.mark.timeout(3600 if SOAK else 300)
def test_no_flipped_bit_changes_an_identity_unnoticed(tmp_path: Path) -> None:
    logging.getLogger("tocsin.auth").setLevel(logging.CRITICAL)
    tokens = issued_in(tmp_path)
    file = tmp_path / "tokens.db"
    whole = file.read_bytes()
    authority = opened(SqliteGrants(tmp_path, "team"))
    before = {one.secret: told(authority, one.secret) for one in tokens}
    assert [one if isinstance(one, str) else one.agent for one in before.values()] == [
        *("admin", "ada", "bob", "eve"),
        "E_AUTH_005",
    ]
    authority.close()
    first = random.SystemRandom().randrange(STRIDE)
    print(f"the first bit is {first}")  # noqa: T201
    noticed = 0
    for bit in range(first, len(whole) * 8, STRIDE):
        tally("inputs_tried")
        flipped = bytearray(whole)
        flipped[bit // 8] ^= 1 << bit % 8
        for left in tmp_path.glob("tokens.db-*"):
            left.unlink()
        file.write_bytes(flipped)
        try:
            authority = opened(SqliteGrants(tmp_path, "team"))
        except JournalError:
            noticed += 1
            continue
        after = {secret: told(authority, secret) for secret in before}
        authority.close()
        changed = [secret for secret, what in before.items() if after[secret] != what]
        for secret in changed:
            assert after[secret] in ("E_AUTH_008", "E_AUTH_001"), f"bit {bit}: {before[secret]} became {after[secret]}"
        if changed:
            noticed += 1
            assert not all(found.good for found in examined(tmp_path)), f"bit {bit}"
    assert noticed > len(whole) * 8 / STRIDE / 20
    logging.getLogger("tocsin.auth").setLevel(logging.NOTSET)


def change(folder: Path, token: Issued, values: dict[str, object]) -> None:
    """Change the row of a token, with a checksum that fits."""
    store = SqliteGrants(folder, "team")
    (grant,) = (grant for grant in store.load() if grant.token_id == token.secret.token_id)
    store.write([msgspec.structs.replace(grant, **values)])
    store.close()


@pytest.mark.parametrize(
    "values", [{"admin": True}, {"role": "human"}, {"agent": "admin"}, {"types": None}], ids=lambda values: str(*values)
)
def test_rights_that_were_changed_with_their_checksum_are_refused(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, values: dict[str, object]
) -> None:
    _, _, bob, *_ = issued_in(tmp_path)
    change(tmp_path, bob, values)
    assert all(found.good for found in examined(tmp_path))
    authority = opened(SqliteGrants(tmp_path, "team"))
    assert told(authority, bob.secret) == "E_AUTH_008"
    assert f"token {bob.secret.token_id} is refused" in caplog.text
    assert bob.secret.secret not in caplog.text
    authority.close()


def test_a_damaged_row_is_refused_and_counted_and_the_others_go_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tokens = issued_in(tmp_path)
    connection = apsw.Connection(str(tmp_path / "tokens.db"))
    connection.execute("UPDATE grants SET admin = 1 WHERE agent = 'bob'")
    connection.execute("UPDATE grants SET agent = CAST(x'ff' AS TEXT) WHERE agent = 'eve'")
    connection.execute("UPDATE grants SET revoked_at = NULL WHERE agent = 'gone'")
    connection.close()
    authority = opened(SqliteGrants(tmp_path, "team"))
    codes = [what if isinstance(what, str) else what.agent for what in (told(authority, one.secret) for one in tokens)]
    assert codes == ["admin", "ada", "E_AUTH_008", "E_AUTH_008", "E_AUTH_008"]
    for damaged in tokens[2:]:
        assert f"token {damaged.secret.token_id} is refused: the checksum of its columns does not match" in caplog.text
    assert not any(one.secret.secret in caplog.text for one in tokens)
    authority.issue("bob", "primary")
    authority.close()
    (rows,) = (found for found in examined(tmp_path) if "structure" not in found.what)
    assert (rows.read, rows.damaged) == (6, 3)
    assert f"token {tokens[2].secret.token_id}: the checksum of its columns does not match" in rows.problems


def test_the_project_of_a_folder_is_taken_from_an_intact_row(tmp_path: Path) -> None:
    issued_in(tmp_path)
    connection = apsw.Connection(str(tmp_path / "tokens.db"))
    connection.execute("UPDATE grants SET project = 'else' WHERE agent = 'admin'")
    connection.close()
    assert project_of_grants(tmp_path) == "team"


def test_a_file_whose_version_does_not_fit_is_not_brought_up_to_date_again(tmp_path: Path) -> None:
    issued_in(tmp_path)
    connection = apsw.Connection(str(tmp_path / "tokens.db"))
    connection.execute("PRAGMA user_version = 0")
    connection.close()
    with pytest.raises(JournalError, match="not that of its version"):
        SqliteGrants(tmp_path, "team")


def test_the_stored_hash_does_not_give_the_key_of_the_mac(tmp_path: Path) -> None:
    grant = issued_in(tmp_path)[0].grant
    secret = fresh_secret()
    assert rights_mac(secret.secret, grant) != rights_mac(hash_of(secret.secret).hex(), grant)
    assert with_mac(grant, secret).mac not in (None, hash_of(secret.secret))


class Earlier(NamedTuple):
    """A store of the version before checksums."""

    open: Callable[[], GrantStore]
    #: Of the token in it.
    secret: Secret
    #: Changes all rows, and no checksum.
    change: Callable[[str], None]


@pytest.fixture(params=["sqlite", "postgres"])
def earlier(request: pytest.FixtureRequest, tmp_path: Path) -> Earlier:
    """A store of the version before checksums, with a token in it."""
    secret = fresh_secret()
    values = (secret.token_id, "team", "ada", "primary", False, hash_of(secret.secret), 1, None, None, "AdHoc")
    if request.param == "sqlite":
        file = apsw.Connection(str(tmp_path / "tokens.db"))
        migrate(file, "tokens", upto=1)
        file.execute("PRAGMA user_version = 0")
        file.execute(f"INSERT INTO grants VALUES ({', '.join('?' * len(values))})", values)  # noqa: S608
        file.close()
        return Earlier(lambda: SqliteGrants(tmp_path, "team"), secret, lambda text: _changed_in_file(tmp_path, text))
    server: Server = request.getfixturevalue("postgres")
    dsn = server.database(f"earlier_{secrets.token_hex(6)}")
    connection = connect(dsn, "test")
    migrate_postgres(connection, upto=7)
    marks = ", ".join(["%s"] * len(values))
    connection.execute(f"INSERT INTO tocsin.grants VALUES ({marks})".encode(), values)  # noqa: S608
    connection.close()
    return Earlier(lambda: PostgresGrants(dsn, "team"), secret, lambda text: _changed_in_database(dsn, text))


def _changed_in_file(folder: Path, change: str) -> None:
    file = apsw.Connection(str(folder / "tokens.db"))
    file.execute(f"UPDATE grants SET {change}")  # noqa: S608
    file.close()


def _changed_in_database(dsn: str, change: str) -> None:
    with psycopg.connect(dsn) as connection:
        connection.execute(f"UPDATE tocsin.grants SET {change}".encode())  # noqa: S608


async def test_a_token_of_the_version_before_gets_its_mac_when_it_is_presented(earlier: Earlier) -> None:
    opening, secret, _ = earlier
    store = opening()
    assert [(grant.agent, grant.types, grant.mac) for grant in store.load()] == [("ada", ("AdHoc",), None)]
    authority = opened(store)
    administration = TokenAdministration(authority)
    for _ in range(3):
        assert authority.authenticate(secret.spell()).agent == "ada"
    await administration.close()
    (grant,) = store.load()
    assert grant.mac == rights_mac(secret.secret, grant)
    store.write([msgspec.structs.replace(grant, role="director")])
    authority.close()
    again = opened(opening())
    assert told(again, secret) == "E_AUTH_008"
    again.close()


def test_a_mac_that_is_lost_is_damage(earlier: Earlier) -> None:
    authority = opened(earlier.open())
    made = authority.issue("bob", "primary")
    authority.close()
    earlier.change("mac = NULL")
    again = opened(earlier.open())
    assert told(again, made.secret) == "E_AUTH_008"
    assert isinstance(told(again, earlier.secret), Grant), "it had none"
    again.close()


def test_a_damaged_row_in_a_database_is_refused_and_counted(postgres: Server) -> None:
    dsn = postgres.database(f"damaged_{secrets.token_hex(6)}")
    PostgresJournal(dsn, "team").close()
    authority = opened(PostgresGrants(dsn, "team"))
    ada, bob, eve = (authority.issue(agent, "primary") for agent in ("ada", "bob", "eve"))
    authority.close()
    with psycopg.connect(dsn) as connection:
        connection.execute("UPDATE tocsin.grants SET admin = true WHERE agent = 'bob'")
        connection.execute("UPDATE tocsin.grants SET project = 'tean' WHERE agent = 'eve'")
    authority = opened(PostgresGrants(dsn, "team"))
    codes = [told(authority, one.secret) for one in (bob, eve)]
    assert codes == ["E_AUTH_008", "E_AUTH_001"]
    assert authority.authenticate(ada.secret.spell()).agent == "ada"
    authority.close()
    (found,) = (found for found in verify_database(dsn, "team") if found.what == "tokens")
    assert (found.read, found.damaged) == (3, 2)


def test_tokens_are_valid_in_a_database_that_was_dumped_and_restored(postgres: Server) -> None:
    name = f"dumped_{secrets.token_hex(6)}"
    authority = opened(PostgresGrants(postgres.database(name), "team"))
    ada, bob = authority.issue("ada", "primary", types=("AdHoc",)), authority.issue("bob", "primary")
    authority.revoke("bob")
    authority.close()
    restored = opened(PostgresGrants(postgres.copy(name, f"{name}_restored"), "team"))
    assert restored.authenticate(ada.secret.spell()) == ada.grant
    assert told(restored, bob.secret) == "E_AUTH_005"
    restored.close()


def test_rows_of_a_hub_of_the_version_before_are_refused_by_the_database(postgres: Server) -> None:
    dsn = postgres.database(f"before_{secrets.token_hex(6)}")
    PostgresGrants(dsn, "team").close()
    columns = "token_id, project, agent, role, admin, digest, created_at"
    with psycopg.connect(dsn) as connection, pytest.raises(psycopg.errors.NotNullViolation):
        connection.execute(
            f"INSERT INTO tocsin.grants ({columns}) VALUES ('1', 'team', 'ada', 'primary', true, '', 1)".encode()  # noqa: S608
        )
