"""Who is calling: the token in the Authorization header says, or the badge of who signed in; nothing else does.

A badge is a cookie, which a browser sends along whoever made it call. So a call with a badge counts only where the
dashboard's own page made it: it bears a header that a foreign page cannot set, and a foreign Origin is refused.
"""

from urllib.parse import urlsplit

from starlette.requests import HTTPConnection

from tocsin.core.errors import refusal
from tocsin.hub.auth.authority import ADMIN, ROLES
from tocsin.hub.auth.tokens import Grant
from tocsin.hub.config import is_loopback
from tocsin.hub.service import Hub

__all__ = [
    "DASHBOARD_HEADER",
    "check_again",
    "check_own_page",
    "cookie_name",
    "identify",
    "identify_reader",
    "may_see_everything",
]

_AT_ITS_WORD = "insecure"
#: What the dashboard's page sends along with every call; no foreign page can without the hub's leave.
DASHBOARD_HEADER = "tocsin-dashboard"


def identify(hub: Hub, request: HTTPConnection) -> Grant:
    """Return what the caller's token grants, or refuse."""
    header = request.headers.get("authorization")
    browser_session = None if header is not None else request.cookies.get(cookie_name(request))
    if browser_session is not None and not (hub.trusting and "tocsin-agent" in request.headers):
        check_own_page(request)
        return hub.browser_sessions.check(browser_session).grant
    if header is None and hub.trusting:
        return _taken_at_its_word(hub, request)
    scheme, _, token = (header or "").partition(" ")
    if scheme.lower() != "bearer":
        raise refusal(
            "E_AUTH_001", "nothing but health works without a token", expected="Authorization: Bearer <token>"
        )
    return hub.authority.authenticate(token.strip())


def identify_reader(hub: Hub, request: HTTPConnection) -> Grant:
    """Return who opens a page, in a window or a frame of the dashboard: there a browser sends no header of ours.

    For pages alone, which change nothing by being looked at and which no other page can read.
    """
    browser_session = None if "authorization" in request.headers else request.cookies.get(cookie_name(request))
    if browser_session is None:
        return identify(hub, request)
    if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        raise refusal("E_AUTH_001", "a badge counts only on the dashboard's own page", expected="a token")
    return hub.browser_sessions.check(browser_session).grant


def cookie_name(request: HTTPConnection) -> str:
    """Name the cookie; hubs on one machine differ by their ports, and cookies do not."""
    return f"tocsin_{request.url.port or 0}"


def check_own_page(request: HTTPConnection) -> None:
    """Refuse a call that a page of somebody else may have made; a browser cannot lie about either header."""
    origin = request.headers.get("origin")
    own = origin is not None and urlsplit(origin).netloc == request.headers.get("host")
    if request.scope["type"] == "websocket":
        allowed = own
    else:
        allowed = DASHBOARD_HEADER in request.headers and (origin is None or own)
    if not allowed:
        raise refusal("E_AUTH_001", "a badge counts only on the dashboard's own page", expected="a token")


def may_see_everything(hub: Hub, grant: Grant) -> bool:
    """Tell whether somebody is a director, a human or an administrator."""
    role = hub.host.exchange.state.policy.roles.get(grant.role)
    return grant.admin or (role is not None and role.directs)


def check_again(hub: Hub, grant: Grant) -> None:
    """Refuse a caller whose token has ended since it was identified; one taken at its word has none."""
    if not (hub.trusting and grant.token_id == _AT_ITS_WORD):
        hub.authority.check(grant)


def _taken_at_its_word(hub: Hub, request: HTTPConnection) -> Grant:
    """Believe a caller on this machine; the header of our own keeps the pages of a browser out."""
    agent, role = request.headers.get("tocsin-agent"), request.headers.get("tocsin-role")
    if not is_loopback(request.url.hostname or ""):
        raise refusal("E_AUTH_001", "without tokens this hub answers to loopback names only")
    if agent is None:
        raise refusal("E_AUTH_001", "without a token, say who you are", expected="Tocsin-Agent: <agent>")
    role = role or ("human" if agent == ADMIN else "primary")
    if role not in ROLES:
        raise refusal("E_AUTH_003", f"{role[:64]!r} is no role", expected="one of " + ", ".join(ROLES))
    return Grant(_AT_ITS_WORD, hub.host.project, agent, role, agent == ADMIN, bytes(32), 0)
