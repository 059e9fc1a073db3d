"""The socket that an open dashboard listens on: a `hello` with all that there is to know, then `tick`s.

It is read only. Who is slow gets the latest tick and none of those before it; nobody waits for it.
"""

import msgspec
from starlette.websockets import WebSocket

from tocsin.core.errors import TocsinError, refusal
from tocsin.gateways.dashboard.live_updates import Pulse, Viewer
from tocsin.gateways.http.identity import badge_name, check_again, check_own_page, identify, may_see_everything
from tocsin.gateways.http.problems import problem_response
from tocsin.gateways.watchers import show
from tocsin.hub.auth.browser_sessions import Badge
from tocsin.hub.auth.tokens import Grant
from tocsin.hub.service import Hub

__all__ = ["PATH", "LiveSocket"]

PATH = "/v1/live"


class LiveSocket:
    """Serves everyone who has a dashboard open."""

    def __init__(self, hub: Hub, pulse: Pulse) -> None:
        self._hub = hub
        self._pulse = pulse

    async def serve(self, socket: WebSocket) -> None:
        """Tell one dashboard what is, until it is closed."""
        try:
            grant, badge = self._admit(socket)
            viewer = self._pulse.join()
        except TocsinError as error:
            await socket.send_denial_response(problem_response(error.problem))
            return
        try:
            await socket.accept()
            await self._show(socket, viewer, grant, badge)
        finally:
            self._pulse.leave(viewer)

    def _admit(self, socket: WebSocket) -> tuple[Grant, Badge | None]:
        text = None if "authorization" in socket.headers else socket.cookies.get(badge_name(socket))
        badge: Badge | None = None
        if text is not None:
            check_own_page(socket)
            badge = self._hub.badges.check(text)
        grant = identify(self._hub, socket) if badge is None else badge.grant
        if self._hub.closing.is_set():
            raise refusal("E_HUB_003", "the hub is shutting down")
        if not may_see_everything(self._hub, grant):
            raise refusal("E_AUTH_003", f"{grant.agent} may not watch everything: a director or a human may")
        viewers_max = self._hub.config.dashboard.viewers_max
        if self._pulse.viewers >= viewers_max:
            raise refusal("E_ADMISSION_008", f"{viewers_max} dashboards are open already", retry_after_s=1.0)
        return grant, badge

    async def _show(self, socket: WebSocket, viewer: Viewer, grant: Grant, badge: Badge | None) -> None:
        await show(
            self._hub,
            socket,
            self._tell(socket, viewer, grant, badge),
            lambda reason: _say(socket, msgspec.json.encode({"bye": {"reason": reason}}).decode()),
        )

    async def _tell(self, socket: WebSocket, viewer: Viewer, grant: Grant, badge: Badge | None) -> None:
        who = {
            "agent": grant.agent,
            "role": grant.role,
            "admin": grant.admin,
            "registered": grant.agent in self._hub.host.exchange.state.agents,
            "expires_at": None if badge is None else badge.expires_at // 1000,
        }
        await _say(socket, self._pulse.hello(who))
        while True:
            text = await viewer.next()
            if badge is None:
                check_again(self._hub, grant)
            else:
                self._hub.badges.check_again(badge)
            await _say(socket, text)


async def _say(socket: WebSocket, text: str) -> None:
    await socket.send({"type": "websocket.send", "text": text})
