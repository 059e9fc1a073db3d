"""The application of one open project: HTTP and the gateways beside it."""

import logging
from contextlib import AsyncExitStack
from importlib.util import find_spec
from typing import NamedTuple

from starlette.routing import BaseRoute
from starlette.types import ASGIApp

from tocsin.gateways.dashboard import gateway as dashboard
from tocsin.gateways.dashboard.gateway import DashboardGateway
from tocsin.gateways.endpoints import Endpoint
from tocsin.gateways.feed import FeedGateway
from tocsin.gateways.http.app import build_app
from tocsin.gateways.mcp import mount
from tocsin.gateways.websocket import gateway as websocket
from tocsin.gateways.websocket.gateway import SocketGateway
from tocsin.hub.service import Hub

__all__ = ["Neighbours", "neighbours", "project_app"]

_log = logging.getLogger("tocsin.hub")


class Neighbours(NamedTuple):
    """Routes of the gateways beside HTTP, and the description of their endpoints."""

    routes: list[BaseRoute]
    endpoints: list[Endpoint]


async def project_app(hub: Hub, gateways: AsyncExitStack) -> ASGIApp:
    """Open the gateways of a hub for as long as the context lasts, and return its application."""
    beside = await neighbours(hub, gateways)
    return build_app(hub, beside=beside.routes, described=beside.endpoints)


async def neighbours(hub: Hub, gateways: AsyncExitStack) -> Neighbours:
    """Open the gateways beside HTTP for as long as the context lasts."""
    routes: list[BaseRoute] = [
        *SocketGateway(hub).routes(),
        *FeedGateway(hub).routes(),
        *DashboardGateway(hub).routes(),
    ]
    endpoints: list[Endpoint] = [*websocket.ENDPOINTS, *dashboard.ENDPOINTS]
    if find_spec("mcp") is None:
        _log.info("no MCP: pip install 'tocsin[mcp]'")
    else:
        routes.append(await gateways.enter_async_context(mount.mcp_route(hub)))
        endpoints += mount.ENDPOINTS
    return Neighbours(routes, endpoints)
