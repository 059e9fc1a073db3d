"""A hub on a loopback port with the usual agents registered."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.gateways.hubs import register_usual
from tests.gateways.websocket.sockets import SocketTeam, sockets_at

__all__ = ["SocketTeam", "socket_team"]


@asynccontextmanager
async def socket_team(path: Path, **config: Any) -> AsyncIterator[SocketTeam]:
    """Serve a project on a port, with ada, bob and a director registered."""
    async with sockets_at(path, **config) as team:
        await register_usual(team)
        yield team
