"""Sessions of agents that fetch their messages by calls, without a connection to push over.

A session is opened by the first fetch of an agent and reused; every call of the agent counts as a heartbeat. The answer
of a fetch has a cursor that names its messages. A later call that quotes the cursor confirms them, and nothing else
does: an answer can be lost on its way. Messages whose cursor is not quoted in time are handed out again.
"""

import asyncio

from tocsin.core.commands import Caller, Confirm, Drain, Heartbeat, OpenSession, Reply, SessionKind, SessionReady
from tocsin.core.errors import Problem
from tocsin.core.protocol.priority import Priority
from tocsin.core.state import Session
from tocsin.hub.hosting.host import Condition, Host

__all__ = ["Piggyback"]

_KIND: SessionKind = "piggyback"


class Piggyback:
    """One piggyback session per agent, shared by all gateways that cannot push."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._opening: dict[str, asyncio.Future[Reply]] = {}

    def next_call(self, caller: Caller, receipt: str = "") -> "asyncio.Future[Reply] | None":
        """Confirm the drains whose cursors are quoted, and send a heartbeat.

        The returned future is done when the receipt is durable; it is null without a receipt.
        """
        confirmed = self._host.submit(Confirm(receipt=receipt), caller) if receipt else None
        session = self._session_of(caller)
        if session is not None:
            self._host.submit(Heartbeat(session.session), caller)
        return confirmed

    async def waiting_below(self, caller: Caller, level: int) -> tuple[int, ...] | None:
        """Return the number of waiting messages by priority if all of them are below a level.

        Null means that only a drain can answer: a message of that level or above waits, there is no session, or the
        project is not served. The numbers are returned when what they are based on is durable: at once if nothing has
        been decided since the last commit, which is usual right after the caller's own command.
        """
        host = self._host
        if self._session_of(caller) is None:
            return None
        state = host.exchange.state
        depths = state.agents[caller.agent].mailbox.depths()
        if any(depths[level:]):
            return None
        all_durable = host.condition is Condition.SERVING and host.committed_seq >= state.seq
        return depths if all_durable or not isinstance(await host.durable(), Problem) else None

    async def attach(self, caller: Caller) -> Reply:
        """Return the caller's session, opening one if there is none, or the refusal."""
        session = self._session_of(caller)
        if session is not None:
            return SessionReady(session.session, session.window)
        opening = self._opening.get(caller.agent)
        if opening is None:
            opening = self._opening[caller.agent] = self._host.submit(OpenSession(_KIND), caller)
            opening.add_done_callback(lambda _: self._opening.pop(caller.agent, None))
        return await asyncio.shield(opening)

    async def drain(
        self,
        caller: Caller,
        limit: int | None,
        at_least: int = Priority.INFO,
        bytes_max: int | None = None,
        message_id: str | None = None,
    ) -> Reply:
        """Hand out waiting messages, the most urgent first, up to the limit; the default is the policy's maximum."""
        attached = await self.attach(caller)
        if not isinstance(attached, SessionReady):
            return attached
        most = self._host.exchange.state.policy.limits.drain_max
        limit = most if limit is None else limit
        return await self._host.submit(Drain(attached.session, limit, at_least, bytes_max, message_id), caller)

    def _session_of(self, caller: Caller) -> Session | None:
        agent = self._host.exchange.state.agents.get(caller.agent)
        if agent is None:
            return None
        for session in agent.sessions.values():
            if session.kind == _KIND:
                return session
        return None
