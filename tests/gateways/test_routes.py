"""Routes of exact paths: found without trying the others, with the same answers."""

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match, Route

from tocsin.gateways.http.routes import with_exact_paths
from tocsin.wire.table import OPERATIONS


def routes() -> list[BaseRoute]:
    async def said(request: Request) -> Response:
        return Response(f"{request.scope['route'].name} {request.path_params}")

    return [
        Route("/things/{name}", said, methods=["GET"], name="one"),
        Route("/things", said, methods=["GET"], name="all"),
        Route("/things", said, methods=["POST"], name="add"),
    ]


@pytest.mark.parametrize(
    "call",
    ["GET /things", "POST /things", "HEAD /things", "PUT /things", "GET /things/a", "GET /things/", "GET /nothing",
     "POST /things?a=b"],
)  # fmt: skip
async def test_every_path_is_answered_as_without_the_look_up(call: str) -> None:
    async def answer(app: Starlette) -> tuple[int, str, str | None]:
        transport = httpx2.ASGITransport(app=app)
        async with httpx2.AsyncClient(transport=transport, base_url="http://hub") as client:
            found = await client.request(*call.split())
            return found.status_code, found.text, found.headers.get("location")

    indexed = await answer(Starlette(routes=with_exact_paths(routes())))
    assert indexed == await answer(Starlette(routes=routes()))


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
