"""The route of an endpoint that needs none of Starlette's layers around it."""

from collections.abc import Collection

from starlette.routing import Route
from starlette.types import ASGIApp

__all__ = ["CompleteRoute"]


class CompleteRoute(Route):
    """The route of an endpoint that answers its own failures.

    `called` are the methods with which the endpoint is called at once; by default all methods of the route.
    """

    def __init__(
        self,
        path: str,
        endpoint: ASGIApp,
        *,
        name: str,
        methods: Collection[str] | None = None,
        called: Collection[str] = (),
    ) -> None:
        super().__init__(path, endpoint, name=name, methods=methods)
        self.called = called or methods or ()
