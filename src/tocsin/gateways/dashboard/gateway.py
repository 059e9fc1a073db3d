"""The dashboard's HTTP endpoints: signing in and out, the page and its files, and the live socket.

Users sign in with a token, or with a one-time link made with one, and get a browser session: a cookie that scripts
cannot read and other sites cannot send. Only users who may see everything can sign in. The page may load resources and
scripts only from the hub.
"""

from datetime import datetime
from urllib.parse import urlencode

import msgspec
from starlette.requests import HTTPConnection, Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route, WebSocketRoute

from tocsin.core.errors import TocsinError, refusal
from tocsin.core.protocol.timestamps import as_datetime, as_datetime_or_none
from tocsin.gateways.dashboard.assets import PREFIX, Assets, packaged_assets
from tocsin.gateways.dashboard.live import PATH as LIVE
from tocsin.gateways.dashboard.live import LiveSocket
from tocsin.gateways.dashboard.live_updates import LiveUpdates
from tocsin.gateways.dashboard.reports import report_routes
from tocsin.gateways.endpoints import Endpoint
from tocsin.gateways.identity import check_own_page, cookie_name, identify, may_see_everything
from tocsin.gateways.limits import BodyTimeout, read_body
from tocsin.gateways.problems import problem_response, unhandled
from tocsin.hub.auth.browser_sessions import BrowserSession
from tocsin.hub.auth.tokens import Grant
from tocsin.hub.reports import REPORT_PATH
from tocsin.hub.service import Hub

__all__ = ["ENDPOINTS", "SECURITY_HEADERS", "DashboardGateway"]

_TOKEN_BYTES_MAX = 4096
_PROJECT_MAX = 64
SECURITY_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


#: Content security policy of the API browser, whose library sets styles and makes elements out of text. It shows only
#: the hub's own OpenAPI document.
_BROWSER_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


class SignInBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Credentials of a sign-in: a token, or the code of a one-time link."""

    token: str = ""
    code: str = ""


class SignedIn(msgspec.Struct, frozen=True):
    """The person who signed in."""

    agent: str
    role: str
    admin: bool
    expires_at: datetime | None


class SignInLinkView(msgspec.Struct, frozen=True):
    """A link that signs its first visitor in."""

    #: Path and fragment, to be added to the hub's address.
    path: str
    expires_at: datetime


#: The code is in the fragment, which browsers do not send: it is in no log and no Referer header. The id of the token
#: leads the page's call to its project.
_LINK_PATH = "/sign-in?link#code={code}.{token_id}"
_HTML = ("text/html",)
_OWN_PAGE = {"Tocsin-Dashboard": "Any value: shows that the dashboard's own page makes the call."}

#: Its HTTP endpoints.
ENDPOINTS = (
    Endpoint(
        http="GET /",
        name="dashboard",
        summary="Show the dashboard, or redirect to the sign-in page.",
        tag="dashboard",
        answers={200: _HTML, 303: ()},
        public=True,
    ),
    Endpoint(
        http="GET /sign-in",
        name="sign_in_page",
        summary="Show the sign-in page.",
        tag="dashboard",
        answers={200: _HTML, 303: ()},
        public=True,
    ),
    Endpoint(
        http="POST /sign-in",
        name="sign_in",
        summary="Exchange a token, or the code of a link, for a browser session, which is kept in a cookie.",
        tag="dashboard",
        answers={200: ("application/json",)},
        public=True,
        body=SignInBody,
        reply=SignedIn,
        headers=_OWN_PAGE,
    ),
    Endpoint(
        http="POST /sign-in/links",
        name="make_sign_in_link",
        summary="Make a link that signs its first visitor in, as the caller; for directors, humans and administrators.",
        tag="dashboard",
        answers={200: ("application/json",)},
        reply=SignInLinkView,
    ),
    Endpoint(
        http="POST /sign-out",
        name="sign_out",
        summary="End the browser session.",
        tag="dashboard",
        answers={204: ()},
        public=True,
        headers=_OWN_PAGE,
    ),
    Endpoint(
        http="GET /docs",
        name="api_browser",
        summary="Show the HTTP operations and endpoints, and try them, or redirect to the sign-in page.",
        tag="hub",
        answers={200: _HTML, 303: ()},
        public=True,
    ),
    Endpoint(
        http=f"GET {PREFIX}/{{version}}/{{name}}",
        name="dashboard_file",
        summary="Return a file of the dashboard.",
        tag="dashboard",
        answers={200: ("*/*",)},
        public=True,
    ),
    Endpoint(
        http=f"GET {REPORT_PATH}",
        name="report_page",
        summary="Show a report of the pipeline or the lab; for directors and humans, by token or browser session.",
        tag="dashboard",
        answers={200: _HTML},
    ),
)


class DashboardGateway:
    """The dashboard of one hub."""

    def __init__(self, hub: Hub, assets: Assets | None = None) -> None:
        self._hub = hub
        self._assets = packaged_assets() if assets is None else assets
        self.live_updates = LiveUpdates(hub, self._assets.version)
        self._live = LiveSocket(hub, self.live_updates)
        hub.before_close(self.live_updates.close)

    def routes(self) -> list[BaseRoute]:
        """Return the routes to mount beside the HTTP gateway."""
        self.live_updates.start()
        return [
            Route("/", self._page, methods=["GET"], name="dashboard"),
            Route("/docs", self._api_browser, methods=["GET"], name="api_browser"),
            Route("/sign-in", self._sign_in_page, methods=["GET"], name="sign_in_page"),
            Route("/sign-in", self._sign_in, methods=["POST"], name="sign_in"),
            Route("/sign-in/links", self._make_link, methods=["POST"], name="make_sign_in_link"),
            Route("/sign-out", self._sign_out, methods=["POST"], name="sign_out"),
            Route(PREFIX + "/{version}/{name:path}", self._file, methods=["GET"], name="dashboard_file"),
            WebSocketRoute(LIVE, self._live.serve, name="live"),
            *report_routes(self._hub),
        ]

    async def _page(self, request: Request) -> Response:
        """Return the dashboard, or redirect to the sign-in page."""
        if self._browser_session(request) is None:
            project = request.query_params.get("project", "")[:_PROJECT_MAX]
            to = "/sign-in" + (f"?{urlencode({'project': project})}" if project else "")
            return RedirectResponse(to, 303, SECURITY_HEADERS | {"Cache-Control": "no-store"})
        return self._assets.page("index.html", SECURITY_HEADERS)

    async def _api_browser(self, request: Request) -> Response:
        """Return the page that shows the OpenAPI document, or redirect to the sign-in page."""
        if self._browser_session(request) is None:
            return RedirectResponse("/sign-in?next=docs", 303, SECURITY_HEADERS | {"Cache-Control": "no-store"})
        return self._assets.page("docs.html", SECURITY_HEADERS | {"Content-Security-Policy": _BROWSER_POLICY})

    async def _sign_in_page(self, request: Request) -> Response:
        # A link is followed also by those who are signed in: they may be signed in as someone else.
        if self._browser_session(request) is not None and "link" not in request.query_params:
            return RedirectResponse("/", 303, SECURITY_HEADERS | {"Cache-Control": "no-store"})
        return self._assets.page("sign-in.html", SECURITY_HEADERS)

    async def _sign_in(self, request: Request) -> Response:
        """Check a token or the code of a link, and set the cookie of a new browser session."""
        try:
            check_own_page(request)
            raw = await read_body(request, _TOKEN_BYTES_MAX, self._hub.config)
            given = _credentials(raw)
            if given.code:
                grant = self._hub.sign_in_links.redeem(given.code)
            else:
                grant = self._hub.authority.authenticate(given.token.strip())
            self._must_see_everything(grant)
        except TocsinError as error:
            return problem_response(error.problem)
        except BodyTimeout:
            return unhandled(408, "the token did not arrive in time")
        text, browser_session = self._hub.browser_sessions.issue(grant)
        view = SignedIn(grant.agent, grant.role, grant.admin, as_datetime_or_none(browser_session.expires_at))
        response = Response(msgspec.json.encode(view), media_type="application/json")
        lifetime_s = max(0, browser_session.expires_at - self._hub.now()) // 1_000_000
        name, secure = cookie_name(request), _by_tls(request)
        response.set_cookie(name, text, max_age=lifetime_s, path="/", secure=secure, httponly=True, samesite="strict")
        return response

    async def _make_link(self, request: Request) -> Response:
        """Make a one-time link for the holder of a token; a browser session cannot make one."""
        try:
            grant = identify(self._hub, request, browser=False)
            self._must_see_everything(grant)
            link = self._hub.sign_in_links.make(grant)
        except TocsinError as error:
            return problem_response(error.problem)
        view = SignInLinkView(_LINK_PATH.format(code=link.code, token_id=grant.token_id), as_datetime(link.expires_at))
        return Response(msgspec.json.encode(view), media_type="application/json", headers={"Cache-Control": "no-store"})

    def _must_see_everything(self, grant: Grant) -> None:
        if not may_see_everything(self._hub, grant):
            detail = f"{grant.agent} is {grant.role}: the dashboard is for directors, humans and administrators"
            raise refusal("E_AUTH_003", detail)

    async def _sign_out(self, request: Request) -> Response:
        """End the browser session, and delete its cookie."""
        try:
            check_own_page(request)
        except TocsinError as error:
            return problem_response(error.problem)
        browser_session = self._browser_session(request)
        if browser_session is not None:
            self._hub.browser_sessions.end(browser_session)
        response = Response(status_code=204)
        name, secure = cookie_name(request), _by_tls(request)
        response.delete_cookie(name, path="/", secure=secure, httponly=True, samesite="strict")
        return response

    async def _file(self, request: Request) -> Response:
        version, name = request.path_params["version"], request.path_params["name"]
        response = self._assets.file(version, name, request.headers.get("accept-encoding", ""), SECURITY_HEADERS)
        return unhandled(404, "the dashboard has no such file") if response is None else response

    def _browser_session(self, request: HTTPConnection) -> BrowserSession | None:
        """Return the request's browser session, if it is valid and its user may see everything."""
        text = request.cookies.get(cookie_name(request))
        try:
            browser_session = None if text is None else self._hub.browser_sessions.check(text)
        except TocsinError:
            return None
        return (
            browser_session
            if browser_session is not None and may_see_everything(self._hub, browser_session.grant)
            else None
        )


def _credentials(raw: bytes) -> SignInBody:
    try:
        return msgspec.json.decode(raw, type=SignInBody)
    except msgspec.DecodeError as error:
        raise refusal("E_PROTOCOL_002", f"the body is not a token: {error}", expected='{"token": "…"}') from None


def _by_tls(request: Request) -> bool:
    """Tell whether the browser uses TLS, by its Origin header: a proxy may terminate TLS before the hub."""
    return request.headers.get("origin", "").startswith("https://")
