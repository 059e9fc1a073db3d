"""The ASGI application: the operations, the hub's own endpoints, and the routes of other gateways."""

import logging
from collections.abc import Awaitable, Callable, Sequence
from importlib.metadata import version

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket

from tocsin.core.errors import TocsinError
from tocsin.gateways.complete_route import CompleteRoute
from tocsin.gateways.endpoints import Endpoint
from tocsin.gateways.http import openapi
from tocsin.gateways.http.export import EXPORT, export_project
from tocsin.gateways.http.routes import HubApp
from tocsin.gateways.http.serving import OperationEndpoint
from tocsin.gateways.identity import identify
from tocsin.gateways.problems import problem_response, unhandled
from tocsin.hub.observability.exposition import exposed
from tocsin.hub.projects import AllReady
from tocsin.hub.service import Hub
from tocsin.wire.table import OPERATIONS

__all__ = ["ENDPOINTS", "HubCondition", "build_app"]

_log = logging.getLogger("tocsin.http")


class HubCondition(msgspec.Struct, frozen=True):
    """Condition of a hub."""

    #: `serving`, `stalled` (commits do not end), `recovering` or `stopped`; of a hub on PostgreSQL also `opening`,
    #: `standing_by` (another hub has the project, or the database is down) or `not_ready` (its share is not known).
    condition: str
    #: Why it is not serving.
    reason: str = ""
    #: Readiness of the open projects, where it was asked for.
    projects: AllReady | msgspec.UnsetType = msgspec.UNSET


_JSON = ("application/json",)

#: The endpoints of this gateway that are not operations.
ENDPOINTS = (
    Endpoint(
        http="GET /health",
        name="health",
        summary="Report that the process answers.",
        tag="hub",
        answers={200: _JSON},
        public=True,
        reply=HubCondition,
    ),
    Endpoint(
        http="GET /ready",
        name="ready",
        summary="Report whether the hub serves its project, with `?projects=all` all open ones: a commit just worked.",
        tag="hub",
        answers={200: _JSON, 503: _JSON},
        public=True,
        reply=HubCondition,
    ),
    Endpoint(
        http="GET /metrics",
        name="metrics",
        summary="Expose metrics in the Prometheus format.",
        tag="hub",
        answers={200: ("text/plain",)},
    ),
    Endpoint(
        http="GET /openapi.json",
        name="describe",
        summary="Describe the HTTP operations and endpoints as OpenAPI 3.1.",
        tag="hub",
        answers={200: _JSON},
    ),
    EXPORT,
)


def build_app(hub: Hub, *, beside: Sequence[BaseRoute] = (), described: Sequence[Endpoint] = ()) -> HubApp:
    """Make the application of a hub; `beside` are the routes of other gateways, `described` their endpoints."""
    own = _OwnEndpoints(hub, tuple(described))
    routes: list[BaseRoute] = [
        CompleteRoute(operation.path, OperationEndpoint(hub, operation), methods=[operation.method], name=name)
        for name, operation in OPERATIONS.items()
    ]
    routes += [
        Route(endpoint.http.split(" ")[1], getattr(own, endpoint.name), methods=["GET"], name=endpoint.name)
        for endpoint in ENDPOINTS
    ]
    return HubApp(
        [*routes, *beside, WebSocketRoute("/{path:path}", _no_such_socket, name="no_such_socket")],
        {HTTPException: _http_problem, Exception: _bug},
    )


class _OwnEndpoints:
    """The endpoints that are not operations."""

    def __init__(self, hub: Hub, described: tuple[Endpoint, ...]) -> None:
        self._hub = hub
        self._described = described
        #: The OpenAPI document, by whether callers without a token are accepted.
        self._documents: dict[bool, bytes] = {}

    async def health(self, request: Request) -> Response:
        return self._counted("health", _json(HubCondition(self._hub.host.condition)))

    async def ready(self, request: Request) -> Response:
        hub = self._hub
        found = await hub.readiness.check()
        condition, ready = HubCondition(found.condition, found.reason), found.ready
        if hub.projects is not None and request.query_params.get("projects") == "all":
            projects = hub.projects
            every = await hub.answer_cache.ask(
                "readiness", hub.config.readiness.fresh_s, lambda: projects.readiness(hub)
            )
            condition = msgspec.structs.replace(condition, projects=every)
            ready = ready and not (every.not_ready or every.workers_silent)
        return self._counted("ready", _json(condition, 200 if ready else 503))

    async def metrics(self, request: Request) -> Response:
        return await self._identified("metrics", request, self._exposed)

    async def describe(self, request: Request) -> Response:
        return await self._identified("describe", request, self._openapi)

    async def export_project(self, request: Request) -> Response:
        return await self._answered("export_project", lambda: export_project(self._hub, request))

    async def _exposed(self, admin: bool) -> Response:
        """Return the metrics; administrators of the home project see those of all open projects."""
        hub = self._hub
        if hub.projects is None:
            return Response(hub.metrics.expose(hub.host.exchange.state), media_type="text/plain")
        if admin:
            return Response(await hub.projects.metrics(hub), media_type="text/plain")
        shown = exposed([hub.metrics.families(hub.host.exchange.state, hub.host.project)])
        return Response(shown, media_type="text/plain")

    async def _openapi(self, admin: bool) -> Response:
        trusting = self._hub.trusting
        if trusting not in self._documents:
            endpoints = (*ENDPOINTS, *self._described)
            described = openapi.document(OPERATIONS, version("tocsin"), endpoints, trusting=trusting)
            self._documents[trusting] = msgspec.json.encode(described)
        return Response(self._documents[trusting], media_type="application/json")

    async def _identified(self, name: str, request: Request, answer: Callable[[bool], Awaitable[Response]]) -> Response:
        async def identified() -> Response:
            return await answer(identify(self._hub, request).admin)

        return await self._answered(name, identified)

    async def _answered(self, name: str, answer: Callable[[], Awaitable[Response]]) -> Response:
        try:
            response = await answer()
        except TocsinError as error:
            response = problem_response(error.problem)
        except Exception:
            _log.exception("%s failed", name)
            response = unhandled(500, "the hub failed to answer; its log has the reason")
        return self._counted(name, response)

    def _counted(self, name: str, response: Response) -> Response:
        self._hub.metrics.requests.add(name, str(response.status_code))
        return response


def _json(value: msgspec.Struct, status: int = 200) -> Response:
    return Response(msgspec.json.encode(value), status, media_type="application/json")


async def _http_problem(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    what = "there is no endpoint at this path" if status == 404 else f"this path does not support {request.method}"
    response = unhandled(status, what)
    if isinstance(error, HTTPException) and error.headers:
        response.headers.update(error.headers)
    return response


async def _no_such_socket(socket: WebSocket) -> None:
    await socket.send_denial_response(unhandled(404, "there is no socket at this path"))


async def _bug(request: Request, error: Exception) -> Response:
    """Answer for an endpoint that failed; the server logs the reason."""
    return unhandled(500, "the hub failed to answer; its log has the reason")
