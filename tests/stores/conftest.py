from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.stores.stores import STORES, Store
from tocsin.journal.base import Journal


@pytest.fixture(params=list(STORES))
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """One store after the other: every test that asks for it is part of the conformance suite."""
    return STORES[request.param](tmp_path)


@pytest.fixture
def journal(store: Store) -> Iterator[Journal]:
    """An empty project's journal, open."""
    opened = store.open()
    yield opened
    opened.close()
