"""Sessions of agents that fetch their messages by calls, without a connection to push over.

A session is opened by the first fetch of an agent and reused. The agent's next call, of any operation, confirms the
messages that it was given before, and counts as a heartbeat. A call confirms only messages whose answer had left before
the call arrived: of two concurrent calls, neither confirms what the other is about to return. Messages in an answer
that the client did not receive return to the queue at once. So do messages that an earlier process of the hub had
handed out, because it is unknown whether they arrived.
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
from tocsin.hub.hosting.host import Host

__all__ = ["Piggyback"]

_KIND: SessionKind = "piggyback"


class Piggyback:
    """One piggyback session per agent, shared by all gateways that cannot push."""

    def __init__(self, host: Host) -> None:
        self._host = host
        #: Signal ids, by agent, whose answer has left and that no call has confirmed yet.
        self._left: dict[str, list[str]] = {}
        self._opening: dict[str, asyncio.Future[Reply]] = {}
        #: Sessions of an earlier process of the hub.
        self._earlier = {session.session for session in host.exchange.state.sessions.values() if session.kind == _KIND}

    def next_call(self, caller: Caller, *, confirms: bool = True) -> "asyncio.Future[Reply] | None":
        """Confirm earlier messages and send a heartbeat; the returned future is done when the receipt is durable."""
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
        """Return the number of waiting messages by priority; all zero for an agent that is not registered."""
        agent = self._host.exchange.state.agents.get(caller.agent)
        return (0,) * len(Priority) if agent is None else agent.mailbox.depths()

    async def attach(self, caller: Caller) -> Reply:
        """Return the caller's session, opening one if there is none, or the refusal."""
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
        """Hand out waiting messages, the most urgent first, up to the limit; the default is the policy's maximum."""
        attached = await self.attach(caller)
        if not isinstance(attached, SessionReady):
            return attached
        most = self._host.exchange.state.policy.limits.drain_max
        limit = most if limit is None else limit
        return await self._host.submit(Drain(attached.session, limit, at_least, bytes_max, confirms=False), caller)

    def handed_out(self, caller: Caller, reply: Reply, *, taken: bool) -> None:
        """Let the next call confirm the messages of an answer, or return them to the queue if it was not received."""
        if not isinstance(reply, Drained) or not reply.deliveries:
            return
        if taken:
            self._left.setdefault(caller.agent, []).extend(delivery.signal_id for delivery in reply.deliveries)
            return
        session = self._session_of(caller)
        if session is not None and session.in_flight:
            self._replace(caller, session)

    def _confirmed(self, agent: str, ids: list[str], receipt: "asyncio.Future[Reply]") -> None:
        """Keep the ids for the next call if the receipt could not be made durable."""
        reply = None if receipt.cancelled() else receipt.result()
        if reply is None or (isinstance(reply, Problem) and reply.retryable):
            self._left.setdefault(agent, []).extend(ids)

    def _replace(self, caller: Caller, session: Session) -> "asyncio.Future[Reply]":
        """Return a session's offers to the queue by closing it; the new one keeps the agent present."""
        opened = self._host.submit(OpenSession(_KIND), caller)
        self._host.submit(CloseSession(session.session), caller)
        return opened

    def _session_of(self, caller: Caller) -> Session | None:
        agent = self._host.exchange.state.agents.get(caller.agent)
        if agent is None:
            return None
        return next((session for session in agent.sessions.values() if session.kind == _KIND), None)
