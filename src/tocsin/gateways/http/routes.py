"""Routes of exact paths, found by a look-up.

Starlette tries its routes one after the other, and the hub has about a hundred. Most calls go to a path without
parameters, so these paths are looked up first; all others are tried in order as before.

A call of an operation or of a tool is answered by an endpoint that answers its own failures. Starlette's layers for
exceptions and routing would add nothing but time, so `HubApp` calls such an endpoint at once.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from starlette.applications import Starlette
from starlette.routing import BaseRoute, Match, Route
from starlette.types import ASGIApp, ExceptionHandler, Receive, Scope, Send

from tocsin.gateways.complete_route import CompleteRoute

__all__ = ["HubApp", "with_exact_paths"]

_FOUND = "tocsin.route"


class HubApp(Starlette):
    """An application that calls the endpoints of complete routes with exact paths at once."""

    def __init__(self, routes: Sequence[BaseRoute], exception_handlers: Mapping[Any, ExceptionHandler]) -> None:
        super().__init__(routes=with_exact_paths(routes), exception_handlers=exception_handlers)
        self._complete: dict[tuple[str, str], ASGIApp] = {}
        for route in routes:
            if isinstance(route, CompleteRoute) and "{" not in route.path:
                for method in route.called:
                    self._complete.setdefault((method, route.path), route.app)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "http" and not scope.get("root_path"):
            complete = self._complete.get((scope["method"], scope["path"]))
            if complete is not None:
                await complete(scope, receive, send)
                return
        await super().__call__(scope, receive, send)


class _ExactPaths(BaseRoute):
    """The routes of paths without parameters."""

    def __init__(self, routes: Sequence[BaseRoute]) -> None:
        self._by_path: dict[str, list[Route]] = {}
        for route in routes:
            if isinstance(route, Route) and "{" not in route.path:
                self._by_path.setdefault(route.path, []).append(route)

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Find the route of a path and method."""
        if scope["type"] == "http" and not scope.get("root_path"):
            for route in self._by_path.get(scope["path"], ()):
                match, found = route.matches(scope)
                if match is Match.FULL:
                    return match, {**found, _FOUND: route}
        return Match.NONE, {}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the route that was found."""
        route: Route = scope.pop(_FOUND)
        scope["route"] = route
        await route.handle(scope, receive, send)


def with_exact_paths(routes: Sequence[BaseRoute]) -> list[BaseRoute]:
    """Return routes that find exact paths first."""
    return [_ExactPaths(routes), *routes]
