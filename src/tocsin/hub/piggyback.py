"""The session of an agent that is not pushed to: opened when it first asks for its mail, and used again.

Its next call, whatever it asks, is the receipt of what it was handed out before, and shows that it lives. A call counts
as the next one only if it came after the answer with the messages had left: of two calls at the same time, neither is
the receipt of what the other is about to hand out. What was handed out in an answer that nobody took goes back to the
queue at once, and so does what a hub that is gone had handed out: nobody knows whether it arrived.
"""

import asyncio
from functools import partial

from tocsin.core.commands import (
    Caller,
    CloseSession,
    Confirm,
    Drain,
    Drained,
    Heartbeat,
    OpenSession,
    Reply,
    SessionKind,
    SessionReady,
)
from tocsin.core.errors import Problem
from tocsin.core.protocol.priority import Priority
from tocsin.core.state import Session
from tocsin.hub.host import Host

__all__ = ["Piggyback"]

_KIND: SessionKind = "piggyback"


class Piggyback:
    """Keeps one piggyback session per agent, for every gateway that has no connection to push over."""

    def __init__(self, host: Host) -> None:
        self._host = host
        #: Signal ids whose answer has left and that no call has confirmed yet, by agent.
        self._left: dict[str, list[str]] = {}
        self._opening: dict[str, asyncio.Future[Reply]] = {}
        #: Sessions that an earlier hub handed messages out to.
        self._earlier = {session.session for session in host.exchange.state.sessions.values() if session.kind == _KIND}

    def next_call(self, caller: Caller, *, confirms: bool = True) -> "asyncio.Future[Reply] | None":
        """Take a call as a receipt and a sign of life; the future, if any, is done when the receipt is durable."""
        receipt: asyncio.Future[Reply] | None = None
        left = self._left.pop(caller.agent, []) if confirms else []
        batch = self._host.exchange.state.policy.limits.batch_max
        for start in range(0, len(left), batch):
            ids = left[start : start + batch]
            receipt = self._host.submit(Confirm(tuple(ids)), caller)
            receipt.add_done_callback(partial(self._confirmed, caller.agent, ids))
        session = self._session_of(caller)
        if session is not None:
            self._host.submit(Heartbeat(session.session), caller)
        return receipt

    def waiting(self, caller: Caller) -> tuple[int, ...]:
        """Count what waits for the caller, by level; nothing waits for one who is not registered."""
        agent = self._host.exchange.state.agents.get(caller.agent)
        return (0,) * len(Priority) if agent is None else agent.mailbox.depths()

    async def attach(self, caller: Caller) -> Reply:
        """Return the caller's session, opened now where there is none, or the refusal."""
        session = self._session_of(caller)
        if session is not None and session.session in self._earlier:
            self._earlier.discard(session.session)
            if session.in_flight:
                return await self._replace(caller, session)
        if session is not None:
            return SessionReady(session.session, session.window)
        opening = self._opening.get(caller.agent)
        if opening is None:
            opening = self._opening[caller.agent] = self._host.submit(OpenSession(_KIND), caller)
            opening.add_done_callback(lambda _: self._opening.pop(caller.agent, None))
        return await asyncio.shield(opening)

    async def drain(
        self, caller: Caller, limit: int | None, at_least: int = Priority.INFO, bytes_max: int | None = None
    ) -> Reply:
        """Hand out what waits, most urgent first, up to what one drain may take."""
        attached = await self.attach(caller)
        if not isinstance(attached, SessionReady):
            return attached
        most = self._host.exchange.state.policy.limits.drain_max
        limit = most if limit is None else limit
        return await self._host.submit(Drain(attached.session, limit, at_least, bytes_max, confirms=False), caller)

    def handed_out(self, caller: Caller, reply: Reply, *, taken: bool) -> None:
        """Note that an answer has left, so that the next call confirms it, or that nobody took it."""
        if not isinstance(reply, Drained) or not reply.deliveries:
            return
        if taken:
            self._left.setdefault(caller.agent, []).extend(delivery.signal_id for delivery in reply.deliveries)
            return
        session = self._session_of(caller)
        if session is not None and session.in_flight:
            self._replace(caller, session)

    def _confirmed(self, agent: str, ids: list[str], receipt: "asyncio.Future[Reply]") -> None:
        """Keep what could not be made durable for the next call."""
        reply = None if receipt.cancelled() else receipt.result()
        if reply is None or (isinstance(reply, Problem) and reply.retryable):
            self._left.setdefault(agent, []).extend(ids)

    def _replace(self, caller: Caller, session: Session) -> "asyncio.Future[Reply]":
        """Give back what a session was offered; the agent stays there, by another session."""
        opened = self._host.submit(OpenSession(_KIND), caller)
        self._host.submit(CloseSession(session.session), caller)
        return opened

    def _session_of(self, caller: Caller) -> Session | None:
        agent = self._host.exchange.state.agents.get(caller.agent)
        if agent is None:
            return None
        return next((session for session in agent.sessions.values() if session.kind == _KIND), None)
