"""What other gateways serve on the hub's port, as OpenAPI describes it; a hub's document names those that are there."""

from typing import Any

from tocsin.gateways.dashboard.assets import PREFIX
from tocsin.gateways.dashboard.gateway import SignedInView, SignInBody
from tocsin.gateways.dashboard.reports import PATH as REPORT
from tocsin.gateways.http.openapi import Door
from tocsin.gateways.http.operation import Access

__all__ = ["DOORS"]


#: A request of JSON-RPC 2.0; what it must be beyond that is for MCP to say.
_JSON_RPC = dict[str, Any]
_HTML = ("text/html",)
_JSON = ("application/json",)
_OWN_PAGE = {"Tocsin-Dashboard": "Anything: says that the dashboard's own page calls, for no foreign page can."}

DOORS = (
    Door("GET", "/asyncapi.json", "describe_socket", "Describe the WebSocket as AsyncAPI 3.", "hub", {200: _JSON}),
    Door(
        "POST",
        "/mcp",
        "mcp",
        "Speak MCP: streamable HTTP without sessions, one JSON-RPC request at a time.",
        "mcp",
        {200: _JSON, 202: ()},
        body=_JSON_RPC,
        protocol="mcp",
    ),
    Door(
        "GET",
        "/",
        "dashboard",
        "Show the dashboard, or where to sign in.",
        "dashboard",
        {200: _HTML, 303: ()},
        access=Access.OPEN,
    ),
    Door(
        "GET",
        "/sign-in",
        "sign_in_page",
        "Show where to sign in.",
        "dashboard",
        {200: _HTML, 303: ()},
        access=Access.OPEN,
    ),
    Door(
        "POST",
        "/sign-in",
        "sign_in",
        "Take a token once, and give a badge for it: a cookie that counts on the dashboard's own page.",
        "dashboard",
        {200: _JSON},
        access=Access.OPEN,
        body=SignInBody,
        reply=SignedInView,
        headers=_OWN_PAGE,
    ),
    Door(
        "POST",
        "/sign-out",
        "sign_out",
        "Take the badge away, for good.",
        "dashboard",
        {204: ()},
        access=Access.OPEN,
        headers=_OWN_PAGE,
    ),
    Door(
        "GET",
        PREFIX + "/{version}/{name}",
        "dashboard_file",
        "Give a file of the dashboard.",
        "dashboard",
        {200: ("*/*",)},
        access=Access.OPEN,
    ),
    Door(
        "GET",
        REPORT,
        "report_page",
        "Show a report of the lab: for directors and humans, by token or badge.",
        "dashboard",
        {200: _HTML},
    ),
)
