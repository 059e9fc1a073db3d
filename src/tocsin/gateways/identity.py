"""Authentication of callers by the token in the Authorization header, or by a browser session.

A browser session is a cookie, and a browser sends a cookie no matter which page made the request. So a request with one
is accepted only if the dashboard's page made it: it has a header that a page of another origin cannot set, and a
foreign Origin is refused.
"""

from urllib.parse import urlsplit

from starlette.requests import HTTPConnection

from tocsin.core.errors import refusal
from tocsin.hub.auth.authority import ADMIN
from tocsin.hub.auth.tokens import ROLES, UNAUTHENTICATED, Grant
from tocsin.hub.config import is_loopback
from tocsin.hub.operations import Call
from tocsin.hub.service import Hub
from tocsin.wire.operation import Access

__all__ = [
    "DASHBOARD_HEADER",
    "check_again",
    "check_own_page",
    "cookie_name",
    "identify",
    "identify_reader",
    "may_see_everything",
]

#: Header of every request from the dashboard's page; a page of another origin cannot set it without CORS permission.
DASHBOARD_HEADER = "tocsin-dashboard"


def identify(hub: Hub, request: HTTPConnection, *, browser: bool = True) -> Grant:
    """Return the grant of the caller, or refuse; `browser` tells whether a browser session is accepted."""
    header = request.headers.get("authorization")
    browser_session = None if header is not None or not browser else request.cookies.get(cookie_name(request))
    if browser_session is not None and not (hub.trusting and "tocsin-agent" in request.headers):
        check_own_page(request)
        return hub.browser_sessions.check(browser_session).grant
    if header is None and hub.trusting:
        return _unauthenticated(hub, request)
    scheme, _, token = (header or "").partition(" ")
    if scheme.lower() != "bearer":
        raise refusal("E_AUTH_001", "this endpoint requires a token", expected="Authorization: Bearer <token>")
    return hub.authority.authenticate(token.strip())


def identify_reader(hub: Hub, request: HTTPConnection) -> Grant:
    """Return the grant of a caller that opens a page in a window or an iframe, where the dashboard's header is absent.

    Use it only for pages: reading one changes nothing, and a page of another origin cannot read it.
    """
    browser_session = None if "authorization" in request.headers else request.cookies.get(cookie_name(request))
    if browser_session is None:
        return identify(hub, request)
    if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        raise refusal("E_AUTH_001", "a browser session is accepted only from the dashboard's page", expected="a token")
    return hub.browser_sessions.check(browser_session).grant


def cookie_name(request: HTTPConnection) -> str:
    """Return the name of the cookie; it contains the port, because the hubs of a machine share cookies."""
    return f"tocsin_{request.url.port or 0}"


def check_own_page(request: HTTPConnection) -> None:
    """Refuse a request that a page of another origin may have made; a page cannot forge either header."""
    origin = request.headers.get("origin")
    own = origin is not None and urlsplit(origin).netloc == request.headers.get("host")
    if request.scope["type"] == "websocket":
        allowed = own
    else:
        allowed = DASHBOARD_HEADER in request.headers and (origin is None or own)
    if not allowed:
        raise refusal("E_AUTH_001", "a browser session is accepted only from the dashboard's page", expected="a token")


def may_see_everything(hub: Hub, grant: Grant) -> bool:
    """Tell whether the caller is a director, a human or an administrator."""
    return Call(hub.project, grant.caller, grant).has_access(Access.OVERSEER)


def check_again(hub: Hub, grant: Grant) -> None:
    """Refuse a caller whose token has been revoked or has expired; an unauthenticated caller has none."""
    if not (hub.trusting and grant.token_id == UNAUTHENTICATED):
        hub.authority.check(grant)


def _unauthenticated(hub: Hub, request: HTTPConnection) -> Grant:
    """Return the grant of the agent that a local caller names; pages in a browser cannot set the required header."""
    agent, role = request.headers.get("tocsin-agent"), request.headers.get("tocsin-role")
    if not is_loopback(request.url.hostname or ""):
        raise refusal(
            "E_AUTH_001",
            "a hub that accepts callers without tokens serves loopback host names only",
            expected="a Host such as 127.0.0.1",
        )
    if agent is None:
        raise refusal("E_AUTH_001", "a request without a token must name its agent", expected="Tocsin-Agent: <agent>")
    role = role or ("human" if agent == ADMIN else "primary")
    if role not in ROLES:
        raise refusal("E_AUTH_003", f"{role[:64]!r} is not a role", expected="one of " + ", ".join(ROLES))
    return Grant(UNAUTHENTICATED, hub.host.project, agent, role, agent == ADMIN, bytes(32), 0)
