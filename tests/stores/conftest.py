from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.postgres import Server
from tests.stores.stores import PostgresStore, SqliteStore, Store
from tocsin.journal.base import Journal


@pytest.fixture(params=["sqlite-full", "sqlite-normal", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """One store after the other: every test that asks for it is part of the conformance suite."""
    if request.param == "postgres":
        server: Server = request.getfixturevalue("postgres")
        return PostgresStore(server)
    return SqliteStore(tmp_path / "project", request.param.removeprefix("sqlite-").upper())


@pytest.fixture
def journal(store: Store) -> Iterator[Journal]:
    """An empty project's journal, open."""
    opened = store.open()
    yield opened
    opened.close()
