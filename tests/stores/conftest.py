from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.postgres import Server
from tests.stores.stores import PostgresStore, SqliteStore, Store
from tocsin.journal.base import Journal

STORES = ("sqlite-full", "sqlite-normal", "postgres")


def new_store(request: pytest.FixtureRequest, folder: Path) -> Store:
    """Make the empty store that a fixture's parameter names."""
    if request.param == "postgres":
        server: Server = request.getfixturevalue("postgres")
        return PostgresStore(server)
    return SqliteStore(folder / "project", request.param.removeprefix("sqlite-").upper())


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """One store after the other: every test that asks for it is part of the conformance suite."""
    return new_store(request, tmp_path)


@pytest.fixture
def journal(store: Store) -> Iterator[Journal]:
    """An empty project's journal, open."""
    opened = store.open()
    yield opened
    opened.close()
