from collections.abc import Iterator
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

from tests.postgres import Server

#: What is started once for all tests that use it, because it is slow to start and heavy: where those tests are.
_SHARED = {"tests/pipeline/": "Spark", "tests/lab/": "Spark", "tests/dashboard/": "Chromium"}


class _OneWorkerForEach(LoadScopeScheduling):  # type: ignore[misc]
    """Gives all tests that share something heavy to one worker, largest share first, and the others as they come."""

    def _split_scope(self, nodeid: str) -> str:
        return next((what for where, what in _SHARED.items() if nodeid.startswith(where)), nodeid)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    """Say how tests are given to workers."""
    return _OneWorkerForEach(config, log)


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
