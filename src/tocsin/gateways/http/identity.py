"""Who is calling: the token in the Authorization header says, and nothing else in the request does."""

from starlette.requests import HTTPConnection

from tocsin.core.errors import refusal
from tocsin.hub.auth.authority import ADMIN, ROLES
from tocsin.hub.auth.tokens import Grant
from tocsin.hub.config import is_loopback
from tocsin.hub.service import Hub

__all__ = ["check_again", "identify"]

_AT_ITS_WORD = "insecure"


def identify(hub: Hub, request: HTTPConnection) -> Grant:
    """Return what the caller's token grants, or refuse."""
    header = request.headers.get("authorization")
    if header is None and hub.trusting:
        return _taken_at_its_word(hub, request)
    scheme, _, token = (header or "").partition(" ")
    if scheme.lower() != "bearer":
        raise refusal(
            "E_AUTH_001", "nothing but health works without a token", expected="Authorization: Bearer <token>"
        )
    return hub.authority.authenticate(token.strip())


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
