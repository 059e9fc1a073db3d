"""The application of a hub with several projects: it passes each call to the project that the caller's token is of.

An administrator of the home project may name another project in the header `Tocsin-Project`, or in the query of a
socket or a report, where a browser cannot set headers. Everything without a token of another project goes to the home
project: its pages, its health and its refusals.
"""

import re
from collections.abc import Awaitable, Callable
from typing import Protocol
from urllib.parse import parse_qs, quote

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocket

from tocsin.core.errors import TocsinError, refusal
from tocsin.fleet.peers import RELAYED
from tocsin.fleet.projects import Projects
from tocsin.gateways.problems import problem_response, unhandled
from tocsin.hub.auth.tokens import Grant
from tocsin.hub.auth.verifier import TokenVerifier
from tocsin.hub.observability.readiness import ReadinessReport
from tocsin.hub.reports import REPORT_PATH
from tocsin.hub.service import moved
from tocsin.journal.errors import JournalError, ProjectBusy

__all__ = [
    "FORWARDED_HEADER",
    "PROJECT_HEADER",
    "Relay",
    "Router",
    "Sharing",
    "named_in_query",
    "named_project",
    "token_id_of",
]

#: Passes a request on to the process that serves a project; null is the home project.
Relay = Callable[[str | None, Scope, Receive, Send], Awaitable[None]]

PROJECT_HEADER = b"tocsin-project"
#: Header of the first request of a connection that another hub has passed on.
FORWARDED_HEADER = b"tocsin-forwarded"
TOKEN_ID_HEADER = b"tocsin-token-id"
_BEARER = re.compile(rb"\s*[Bb]earer\s+tcs_([0-9a-f]{16})_")
_COOKIE = re.compile(rb"(?:^|;)\s*tocsin_[0-9]+=v1\.([0-9a-f]{16})\.")
_PROJECT_MAX = 64
#: Paths that a hub answers for itself, whoever serves the home project.
_OWN_PATHS = ("/health", "/ready")
#: Documents that a browser opens by their address alone.
_DOCUMENTS = REPORT_PATH.partition("{")[0]
_TOKEN_ID = re.compile(rb"[0-9a-f]{16}")


def token_id_of(headers: list[tuple[bytes, bytes]]) -> str | None:
    """Return the id of the token, or of the browser session's token, that a request has; null if it has none.

    A sign-in has its credentials in the body, and tells the id in a header.
    """
    cookie = told = None
    for name, value in headers:
        if name == b"authorization":
            found = _BEARER.match(value)
            return None if found is None else found[1].decode()
        if name == TOKEN_ID_HEADER and _TOKEN_ID.fullmatch(value):
            told = value.decode()
        if name == b"cookie" and cookie is None:
            cookie = _COOKIE.search(value)
    return told if told is not None or cookie is None else cookie[1].decode()


def named_project(scope: Scope) -> str | None:
    """Return the project that a request names; null if it names none."""
    for name, value in scope["headers"]:
        if name == PROJECT_HEADER:
            return str(value[:_PROJECT_MAX].decode("latin-1"))
    by_address = scope["type"] == "websocket" or scope["path"].startswith(_DOCUMENTS)
    return named_in_query(scope["query_string"]) if by_address else None


def named_in_query(query: bytes) -> str | None:
    """Return the project that the query of a socket names; null if it names none."""
    if b"project=" not in query:
        return None
    values: list[str] = parse_qs(query.decode("latin-1")).get("project", [])
    return values[0][:_PROJECT_MAX] if values else None


class Sharing(Protocol):
    """What a router knows about the other hubs."""

    def report(self) -> ReadinessReport | None:
        """Report the condition of this hub; null where that is what its home project answers."""

    @property
    def names_owners(self) -> bool:
        """Tell whether callers are told the addresses of other hubs."""

    def elsewhere(self, project: str) -> str | None:
        """Return the address of another hub that serves a project; null if it is this one."""


class Router:
    """The application of all projects of a process."""

    def __init__(
        self,
        home: str,
        home_app: ASGIApp | None,
        authority: TokenVerifier,
        projects: Projects,
        *,
        trusting: bool = False,
        is_own: Callable[[str], bool] = lambda name: True,
        relay: Relay | None = None,
        sharing: "Sharing | None" = None,
    ) -> None:
        """Route to the projects of this process; `home_app` is null where another process has the home project.

        `authority` knows the tokens of the home project. `relay` takes the requests of projects of other processes.
        With `sharing`, other hubs have projects, and the home project is one of `projects`.
        """
        self._home = home
        self._home_app = home_app
        self._authority = authority
        self._projects = projects
        self._trusting = trusting
        self._is_own = is_own
        self._relay = relay
        self._sharing = sharing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a call to its project."""
        name: str | None = None
        try:
            name = await self._project(scope)
            if self._sharing is not None:
                name = name or self._home
                is_own = scope["type"] == "http" and name == self._home and scope["path"] in _OWN_PATHS
                if is_own and (report := self._sharing.report()) is not None:
                    await _reported(report, scope)(scope, receive, send)
                    return
                if (address := self._sharing.elsewhere(name)) is not None:
                    await _redirected(name, address if self._sharing.names_owners else "")(scope, receive, send)
                    return
            if name is not None and self._is_own(name):
                async with self._projects.using(name) as app:
                    await app(scope, receive, send)
                return
        except TocsinError as error:
            refused = error.problem
            if (
                refused.code == "E_HUB_002"
                and (address := refused.facts.get("address")) is not None
                and name is not None
            ):
                await _redirected(name, address)(scope, receive, send)
                return
        except ProjectBusy as error:
            refused = refusal("E_HUB_002", f"another hub serves the project: {error}", retry_after_s=1.0).problem
        except JournalError as error:
            refused = refusal("E_HUB_007", f"project {name} cannot be opened: {error}", retry_after_s=1.0).problem
        else:
            if name is None and self._home_app is not None:
                await self._home_app(scope, receive, send)
            elif self._relay is not None and scope["type"] == "http" and not _is_relayed(scope):
                await self._relay(name, scope, receive, send)
            else:
                await _misdirected(scope, receive, send)
            return
        await problem_response(refused)(scope, receive, send)

    async def _project(self, scope: Scope) -> str | None:
        """Return the project that a call is for; null for the home project."""
        token_id, named = token_id_of(scope["headers"]), named_project(scope)
        known = None if token_id is None else self._find(token_id)
        found = None if token_id is None or known is not None else await self._projects.project_of(token_id)
        if named is None or named == (found or self._home):
            return found
        # The named project checks the token itself. This keeps others from opening projects.
        if known is not None and not known.admin:
            raise refusal("E_AUTH_003", "naming another project needs an admin token", expected="an admin token")
        if known is None and not (token_id is None and self._trusting):
            raise refusal("E_AUTH_001", "this token is not valid for the project that the request names")
        return named

    def _find(self, token_id: str) -> Grant | None:
        """Return a token of the home project; the project itself knows its newest ones, where it is open."""
        home = None if self._sharing is None else self._projects.open_hub_of(self._home)
        known = None if home is None else home.authority.find(token_id)
        return known or self._authority.find(token_id)


def _reported(report: ReadinessReport, scope: Scope) -> ASGIApp:
    """Return the answer of a hub to a question about its own health or readiness."""
    status = 503 if scope["path"] == "/ready" and not report.ready else 200
    return JSONResponse({"condition": report.condition, "reason": report.reason}, status)


def _redirected(project: str, address: str) -> ASGIApp:
    """Return the answer to a call for a project that another hub serves."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        if not address or any(name == FORWARDED_HEADER for name, _ in scope["headers"]):
            # The caller may be unable to reach the other hub: it connects anew.
            response = problem_response(moved(project, "").problem)
            response.headers["Connection"] = "close"
            if scope["type"] == "websocket":
                await WebSocket(scope, receive, send).send_denial_response(response)
            else:
                await response(scope, receive, send)
            return
        problem = moved(project, address).problem
        if scope["type"] == "websocket":
            # A library that follows redirects of handshakes would send the token on by itself.
            await WebSocket(scope, receive, send).send_denial_response(problem_response(problem))
            return
        response = problem_response(problem, status=307)
        query = scope["query_string"].decode("latin-1")
        path = quote(scope["path"], safe="/:@!$&'()*+,;=-._~")
        response.headers["Location"] = address + path + (f"?{query}" if query else "")
        await response(scope, receive, send)

    return answer


def _is_relayed(scope: Scope) -> bool:
    return any(name == RELAYED for name, _ in scope["headers"])


async def _misdirected(scope: Scope, receive: Receive, send: Send) -> None:
    """Refuse a request for a project of another process, on a connection that began with one of this process."""
    response = unhandled(421, "a connection serves one project: send this request on another connection")
    response.headers["Connection"] = "close"
    await response(scope, receive, send)
