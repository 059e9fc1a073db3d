"""Routes of exact paths: found without trying the others, with the same answers."""

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match, Route
from starlette.types import Receive, Scope, Send

from tocsin.gateways.complete_route import CompleteRoute
from tocsin.gateways.http.routes import HubApp, with_exact_paths
from tocsin.wire.table import OPERATIONS


def routes() -> list[BaseRoute]:
    async def said(request: Request) -> Response:
        return Response(f"{request.scope['route'].name} {request.path_params}")

    return [
        Route("/things/{name}", said, methods=["GET"], name="one"),
        Route("/things", said, methods=["GET"], name="all"),
        Route("/things", said, methods=["POST"], name="add"),
    ]


class Said:
    """An endpoint that tells its name, and whether Starlette has passed the call on to it."""

    def __init__(self, name: str, passed_on: list[bool]) -> None:
        self._name = name
        self._passed_on = passed_on

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._passed_on.append("app" in scope)
        await Response(f"{self._name} {scope.get('path_params', {})}")(scope, receive, send)


def complete_routes(passed_on: list[bool]) -> list[BaseRoute]:
    return [
        CompleteRoute("/things/{name}", Said("one", passed_on), methods=["GET"], name="one"),
        CompleteRoute("/things", Said("all", passed_on), methods=["GET"], name="all"),
        CompleteRoute("/things", Said("add", passed_on), methods=["POST"], name="add"),
        CompleteRoute("/tools", Said("tools", passed_on), name="tools", called=["POST"]),
        Route("/things", Said("late", passed_on), methods=["POST"], name="late"),
    ]


CALLS = [
    *("GET /things", "POST /things", "HEAD /things", "PUT /things", "GET /things/a", "GET /things/", "GET /nothing"),
    *("POST /things?a=b", "POST /tools", "GET /tools", "POST /tools/", "DELETE /tools"),
]


@pytest.mark.parametrize("call", CALLS)
async def test_a_complete_route_answers_as_one_of_starlette_does(call: str) -> None:
    passed_on: list[bool] = []
    at_once = await answer(HubApp(complete_routes(passed_on), {}), call)
    assert at_once == await answer(Starlette(routes=complete_routes([])), call)
    called_at_once = call.partition("?")[0] in ("GET /things", "POST /things", "POST /tools")
    assert passed_on == ([not called_at_once] if at_once[0] == 200 else [])


async def test_a_complete_route_is_not_called_for_the_path_that_the_application_is_mounted_at() -> None:
    app = HubApp(complete_routes([]), {})
    for call in ("GET /things", "GET /things/things"):
        assert await answer(app, call, "/things") == await answer(
            Starlette(routes=complete_routes([])), call, "/things"
        )


async def answer(app: Starlette, call: str, root_path: str = "") -> tuple[int, str, str | None]:
    transport = httpx2.ASGITransport(app=app, root_path=root_path)
    async with httpx2.AsyncClient(transport=transport, base_url="http://hub") as client:
        found = await client.request(*call.split())
        return found.status_code, found.text, found.headers.get("location")


@pytest.mark.parametrize(
    "call",
    ["GET /things", "POST /things", "HEAD /things", "PUT /things", "GET /things/a", "GET /things/", "GET /nothing",
     "POST /things?a=b"],
)  # fmt: skip
async def test_every_path_is_answered_as_without_the_look_up(call: str) -> None:
    indexed = await answer(Starlette(routes=with_exact_paths(routes())), call)
    assert indexed == await answer(Starlette(routes=routes()), call)


def test_an_exact_path_is_found_by_the_first_route() -> None:
    first = with_exact_paths(routes())[0]
    scope = {"type": "http", "path": "/things", "method": "POST", "headers": []}
    assert first.matches(scope)[0] is Match.FULL
    assert first.matches(scope | {"method": "PUT"})[0] is Match.NONE
    assert first.matches(scope | {"path": "/things/a", "method": "GET"})[0] is Match.NONE


def test_no_operation_with_parameters_stands_before_an_exact_path_that_it_matches() -> None:
    """The look-up would change which of them answers."""
    seen: list[Route] = []
    for operation in OPERATIONS.values():
        scope = {"type": "http", "path": operation.path, "method": operation.method}
        if "{" in operation.path:
            seen.append(Route(operation.path, lambda request: Response(), methods=[operation.method]))
        else:
            assert not [route.path for route in seen if route.matches(scope)[0] is Match.FULL]
