"""The ASGI application: the table of operations, wired. Other gateways add their routes beside these."""

import re
from collections.abc import Awaitable, Callable, Sequence
from functools import lru_cache
from importlib.metadata import version

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket

from tocsin.gateways.dashboard import dead_letters, waits
from tocsin.gateways.dashboard import history as past
from tocsin.gateways.http import (
    agents,
    attention,
    history,
    leases,
    messages,
    openapi,
    oversight,
    overview,
    patterns,
    project,
)
from tocsin.gateways.http.doors import DOORS
from tocsin.gateways.http.operation import Call, Gateway, Operation
from tocsin.gateways.http.problems import unhandled
from tocsin.hub.service import Hub

__all__ = ["OPERATIONS", "build_app", "doors_of"]

#: What Starlette adds to the name of a parameter.
_CONVERTER = re.compile(r":\w+\}")


async def describe(call: Call) -> bytes:
    """Show this document."""
    return _document(call.gateway.beside, call.hub.trusting)


OPERATIONS: tuple[Operation, ...] = (
    *messages.OPERATIONS,
    *history.OPERATIONS,
    *agents.OPERATIONS,
    *leases.OPERATIONS,
    *project.OPERATIONS,
    *attention.OPERATIONS,
    *patterns.OPERATIONS,
    *oversight.OPERATIONS,
    *overview.OPERATIONS,
    *waits.OPERATIONS,
    *dead_letters.OPERATIONS,
    *past.OPERATIONS,
    Operation("GET", "/openapi.json", describe, dict, tag="hub"),
)


@lru_cache(maxsize=8)
def _document(beside: frozenset[tuple[str, str]], trusting: bool) -> bytes:
    doors = tuple(door for door in DOORS if (door.method, door.path) in beside)
    return msgspec.json.encode(openapi.document(OPERATIONS, version("tocsin"), doors, trusting=trusting))


def doors_of(routes: Sequence[BaseRoute]) -> frozenset[tuple[str, str]]:
    """Return method and path, as OpenAPI writes it, of all that is served by HTTP."""
    return frozenset(
        (method, _CONVERTER.sub("}", route.path))
        for route in routes
        if isinstance(route, Route)
        for method in (route.methods or {"POST"}) - {"HEAD"}
    )


def build_app(hub: Hub, *, beside: Sequence[BaseRoute] = (), gateway: Gateway | None = None) -> Starlette:
    """Make the application of a hub; `beside` are the routes of other gateways on the same port, sharing `gateway`."""
    gateway = Gateway(hub) if gateway is None else gateway
    gateway.beside = doors_of(beside)
    routes: list[BaseRoute] = [
        Route(operation.path, _endpoint(operation, gateway), methods=[operation.method], name=operation.name)
        for operation in OPERATIONS
    ]
    return Starlette(
        routes=[*routes, *beside, WebSocketRoute("/{path:path}", _no_such_socket, name="no_such_socket")],
        exception_handlers={HTTPException: _http_problem, Exception: _bug},
    )


def _endpoint(operation: Operation, gateway: Gateway) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        return await operation.serve(gateway, request)

    return endpoint


async def _http_problem(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    response = unhandled(status, f"{request.method} is nothing that this path answers to")
    if isinstance(error, HTTPException) and error.headers:
        response.headers.update(error.headers)
    return response


async def _no_such_socket(socket: WebSocket) -> None:
    await socket.send_denial_response(unhandled(404, "there is no socket at this path"))


async def _bug(request: Request, error: Exception) -> Response:
    """Answer for a door of another gateway that failed; whoever runs the application logs why."""
    return unhandled(500, "the hub failed to answer; its log says why")
