"""The pages of reports.

A report's page is foreign HTML, so it is served in a sandbox: without scripts, in an origin of its own, and without
network access.
"""

import asyncio

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tocsin.core.errors import TocsinError, refusal
from tocsin.gateways.identity import identify_reader, may_see_everything
from tocsin.gateways.problems import problem_response
from tocsin.hub.reports import REPORT_PATH, read_report
from tocsin.hub.service import Hub

__all__ = ["SANDBOX", "report_routes"]

#: Content security policy of a report's page.
SANDBOX = (
    "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; font-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
)


def report_routes(hub: Hub) -> list[Route]:
    """Return the route that serves a report."""

    async def show(request: Request) -> Response:
        try:
            grant = identify_reader(hub, request)
            if not may_see_everything(hub, grant):
                raise refusal("E_AUTH_003", f"{grant.agent} may not read reports: it needs a director or a human")
            page = await asyncio.to_thread(read_report, hub, request.path_params["report"])
        except TocsinError as error:
            return problem_response(error.problem)
        headers = {
            "Content-Security-Policy": SANDBOX,
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "no-referrer",
            "Cache-Control": "no-store",
        }
        return Response(page, media_type="text/html; charset=utf-8", headers=headers)

    return [Route(REPORT_PATH, show, methods=["GET"], name="report_page")]
