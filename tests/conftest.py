from collections.abc import Iterator

import pytest

from tests.postgres import Server

#: What is started once for all tests that use it, because it is slow to start and heavy: each has a worker of its own.
_SHARED = ("spark", "chromium")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give all tests that share something heavy to one worker; the largest such group is what a worker begins with."""
    for item in items:
        for name in _SHARED:
            if name in getattr(item, "fixturenames", ()):
                item.add_marker(pytest.mark.xdist_group(name))


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
