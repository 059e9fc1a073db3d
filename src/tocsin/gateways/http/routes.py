"""Routes of exact paths, found by a look-up.

Starlette tries its routes one after the other, and the hub has about a hundred. Most calls go to a path without
parameters, so these paths are looked up first; all others are tried in order as before.
"""

from collections.abc import Sequence

from starlette.routing import BaseRoute, Match, Route
from starlette.types import Receive, Scope, Send

__all__ = ["with_exact_paths"]

_FOUND = "tocsin.route"


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
