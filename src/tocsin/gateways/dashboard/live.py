"""The WebSocket of an open dashboard: a `hello` with the full state, then `tick`s.

It is read-only. A slow client gets the latest tick and misses those before it; nothing waits for it.
"""

import msgspec
from starlette.websockets import WebSocket

from tocsin.core.errors import TocsinError, refusal
from tocsin.gateways.dashboard.live_updates import LiveUpdates, Viewer
from tocsin.gateways.identity import check_again, check_own_page, cookie_name, identify, may_see_everything
from tocsin.gateways.problems import problem_response
from tocsin.gateways.watchers import show
from tocsin.hub.auth.browser_sessions import BrowserSession
from tocsin.hub.auth.tokens import Grant
from tocsin.hub.service import Hub

__all__ = ["PATH", "LiveSocket"]

PATH = "/v1/live"


class LiveSocket:
    """Serves the open dashboards."""

    def __init__(self, hub: Hub, live_updates: LiveUpdates) -> None:
        self._hub = hub
        self._updates = live_updates

    async def serve(self, socket: WebSocket) -> None:
        """Send live updates to one dashboard until it is closed."""
        try:
            grant, browser_session = self._admit(socket)
            viewer = self._updates.join()
        except TocsinError as error:
            await socket.send_denial_response(problem_response(error.problem))
            return
        try:
            await socket.accept()
            await self._show(socket, viewer, grant, browser_session)
        finally:
            self._updates.leave(viewer)

    def _admit(self, socket: WebSocket) -> tuple[Grant, BrowserSession | None]:
        text = None if "authorization" in socket.headers else socket.cookies.get(cookie_name(socket))
        browser_session: BrowserSession | None = None
        if text is not None:
            check_own_page(socket)
            browser_session = self._hub.browser_sessions.check(text)
        grant = identify(self._hub, socket) if browser_session is None else browser_session.grant
        self._hub.must_be_open()
        if not may_see_everything(self._hub, grant):
            raise refusal("E_AUTH_003", f"{grant.agent} may not watch everything: a director or a human may")
        viewers_max = self._hub.config.dashboard.viewers_max
        if self._updates.viewers >= viewers_max:
            raise refusal(
                "E_ADMISSION_008",
                f"the limit of {viewers_max} open dashboards is reached: try again later",
                retry_after_s=1.0,
            )
        return grant, browser_session

    async def _show(
        self, socket: WebSocket, viewer: Viewer, grant: Grant, browser_session: BrowserSession | None
    ) -> None:
        await show(
            self._hub,
            socket,
            self._send_updates(socket, viewer, grant, browser_session),
            lambda reason: _send(socket, msgspec.json.encode({"bye": {"reason": reason}}).decode()),
        )

    async def _send_updates(
        self, socket: WebSocket, viewer: Viewer, grant: Grant, browser_session: BrowserSession | None
    ) -> None:
        who = {
            "agent": grant.agent,
            "role": grant.role,
            "admin": grant.admin,
            # An administrator of the home project, also as a visitor of another one.
            "all_projects": grant.admin and (self._hub.projects is not None or not self._hub.authority.has(grant)),
            "administers": grant.administers,
            "registered": grant.agent in self._hub.host.exchange.state.agents,
            "expires_at": None if browser_session is None else browser_session.expires_at // 1000,
        }
        await _send(socket, self._updates.hello(who))
        while True:
            text = await viewer.next()
            if browser_session is None:
                check_again(self._hub, grant)
            else:
                self._hub.browser_sessions.check_again(browser_session)
            await _send(socket, text)


async def _send(socket: WebSocket, text: str) -> None:
    await socket.send({"type": "websocket.send", "text": text})
