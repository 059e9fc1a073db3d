"""A hub on a port for each test."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.gateways.websocket.sockets import SocketTeam, socket_team


@pytest.fixture
async def team(tmp_path: Path) -> AsyncIterator[SocketTeam]:
    """A project with ada, bob and a director registered."""
    async with socket_team(tmp_path) as made:
        yield made
