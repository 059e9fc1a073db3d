from collections.abc import Iterator

import pytest

from tests.postgres import Server


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """A PostgreSQL server that tests share; each makes a database of its own."""
    server = Server()
    try:
        yield server.create()
    finally:
        server.remove()


@pytest.fixture
def replicated() -> Iterator[tuple[Server, Server]]:
    """A primary and its synchronous standby, for one test to break."""
    primary = Server()
    standby: Server | None = None
    try:
        primary.create()
        standby = primary.standby("standby1")
        yield primary, standby
    finally:
        for server in (standby, primary):
            if server is not None:
                server.remove()
