"""The HTTP endpoint that exports a project as an archive."""

from contextlib import AsyncExitStack

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from tocsin.core.errors import refusal
from tocsin.gateways.endpoints import Endpoint
from tocsin.gateways.identity import identify
from tocsin.hub.service import Hub

__all__ = ["EXPORT", "export_project"]

_TAR = "application/x-tar"
EXPORT = Endpoint(
    http="GET /v1/projects/{project}/export",
    name="export_project",
    summary="Export a project as an archive that `tocsin restore` reads, while the hub serves it.",
    tag="projects",
    answers={200: (_TAR,)},
)


class _Archive(StreamingResponse):
    """An archive; what was made for it is removed once it is sent, or its reader has gone."""

    made: AsyncExitStack

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        async with self.made:
            await super().__call__(scope, receive, send)


async def export_project(hub: Hub, request: Request) -> Response:
    """Return the archive of a project to an administrator of the home project, or raise a refusal."""
    if not identify(hub, request).admin:
        raise refusal("E_AUTH_003", "exporting a project needs an admin token", expected="an admin token")
    if hub.projects is None:
        raise refusal("E_STATE_004", "only the home project administers projects")
    project = request.path_params["project"]
    async with AsyncExitStack() as made:
        chunks = await made.enter_async_context(hub.projects.export(project))
        headers = {"Content-Disposition": f'attachment; filename="{project}.tar"', "Cache-Control": "no-store"}
        response = _Archive(chunks, headers=headers, media_type=_TAR)
        response.made = made.pop_all()
    return response
