"""The session of an agent that is not pushed to: opened when it first asks for its mail, and used again.

Its next call, whatever it asks, is the receipt of what it was handed out before, and shows that it lives. A call counts
as the next one only after the answer with the messages has left.
"""

import asyncio

from tocsin.core.commands import Caller, Confirm, Drain, Drained, Heartbeat, OpenSession, Reply, SessionReady
from tocsin.core.errors import Problem
from tocsin.hub.host import Host

__all__ = ["Piggyback"]

_KIND = "piggyback"


class Piggyback:
    """Keeps one piggyback session per agent, for every gateway that has no connection to push over."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._handed: dict[str, tuple[str, ...]] = {}

    def next_call(self, caller: Caller) -> "asyncio.Future[Reply] | None":
        """Take a call as a receipt and a sign of life; the future, if any, is done when the receipt is durable."""
        receipt: asyncio.Future[Reply] | None = None
        handed = self._handed.pop(caller.agent, ())
        batch = self._host.exchange.state.policy.limits.batch_max
        for start in range(0, len(handed), batch):
            receipt = self._host.submit(Confirm(handed[start : start + batch]), caller)
        session = self._session_of(caller)
        if session is not None:
            self._host.submit(Heartbeat(session), caller)
        return receipt

    async def drain(self, caller: Caller, limit: int | None) -> Reply:
        """Hand out what waits, most urgent first, up to what one drain may take."""
        session = self._session_of(caller)
        if session is None:
            opened = await self._host.submit(OpenSession(_KIND), caller)
            if not isinstance(opened, SessionReady):
                return opened
            session = opened.session
        most = self._host.exchange.state.policy.limits.drain_max
        return await self._host.submit(Drain(session, most if limit is None else limit), caller)

    def handed_out(self, caller: Caller, reply: Drained | Problem) -> None:
        """Note that an answer has left: the next call confirms it."""
        if isinstance(reply, Drained) and reply.deliveries:
            self._handed[caller.agent] = tuple(delivery.signal_id for delivery in reply.deliveries)

    def _session_of(self, caller: Caller) -> str | None:
        agent = self._host.exchange.state.agents.get(caller.agent)
        if agent is None:
            return None
        return next((session.session for session in agent.sessions.values() if session.kind == _KIND), None)
