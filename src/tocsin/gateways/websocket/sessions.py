"""Sessions of sockets, and detached sessions that can be resumed.

A socket that drops leaves its session detached: paused, so that nothing new is offered, with its unconfirmed offers
kept until the agent resumes it. If the agent does not do so in time, the session is closed and its offers return to the
queue.

A client that opens a session without asking for a former one has none: its process was started anew. The detached
sessions of its agent are then replaced, so that it gets at once what the former process had not confirmed. A client
that asked for a session in vain lost its connection like the others, and replaces none of them. Sessions with a socket
are never replaced, so several processes can be one agent.
"""

import asyncio
from typing import Protocol

import msgspec

from tocsin.core.commands import Caller, CloseSession, GrantCredit, OpenSession, Reply, SessionKind
from tocsin.core.errors import Problem
from tocsin.core.state import Session
from tocsin.hub.hosting.host import Host, Sink

__all__ = ["Holder", "Sessions"]


class Holder(Protocol):
    """The socket that holds a session."""

    def replaced(self) -> None:
        """Handle that another socket has resumed the session."""


class _Detached(msgspec.Struct, frozen=True):
    """A session without a socket."""

    agent: str
    #: When it is closed, in the loop's time.
    until: float


class Sessions:
    """The sessions of all sockets."""

    def __init__(self, host: Host, grace_s: float) -> None:
        self._host = host
        self._grace_s = grace_s
        self._loop = asyncio.get_running_loop()
        self._held: dict[str, Holder] = {}
        self._detached: dict[str, _Detached] = {}

    def adopt(self) -> bool:
        """Take up the sessions that agents had at another hub as detached ones; tell whether there are any."""
        for name in self._host.unattached_sessions():
            session = self.find(name)
            if session is not None:
                self._detached[name] = _Detached(session.agent, self._loop.time() + self._grace_s)
                self._host.submit(GrantCredit(name, 0), self._caller(session))
        return bool(self._detached)

    def find(self, name: str) -> Session | None:
        """Return the state of a session, or None if it has ended."""
        return self._host.exchange.state.sessions.get(name)

    def hold(self, name: str, holder: Holder) -> None:
        """Record the socket of a new session."""
        self._held[name] = holder

    def take_over(self, name: str, agent: str, holder: Holder) -> bool:
        """Move a session to another socket of the same agent; tell whether it could be resumed."""
        session = self.find(name)
        if session is None or session.agent != agent:
            return False
        before = self._held.get(name)
        if before is None and name not in self._detached:
            return False
        self._detached.pop(name, None)
        self._held[name] = holder
        if before is not None:
            before.replaced()
        return True

    def drop(self, name: str, holder: Holder) -> None:
        """Detach the session of a socket that has dropped."""
        if self._held.get(name) is not holder:
            return
        del self._held[name]
        self._host.detach(name)
        session = self.find(name)
        if session is not None and session.kind == "channel":
            # It holds no offers to come back for, and without it the agent may have to be woken.
            self._host.submit(CloseSession(name), self._caller(session))
        elif session is not None:
            self._detached[name] = _Detached(session.agent, self._loop.time() + self._grace_s)
            self._host.submit(GrantCredit(name, 0), self._caller(session))

    def forget(self, name: str, holder: Holder) -> None:
        """Remove a session that is being closed."""
        if self._held.get(name) is holder:
            del self._held[name]
            self._host.detach(name)

    async def open(self, caller: Caller, kind: SessionKind, window: int | None, sink: Sink, *, anew: bool) -> Reply:
        """Open a session; one that begins `anew` replaces the agent's detached sessions of its kind.

        An agent that has the maximum number of sessions gets one in the place of its oldest detached one.
        """
        state = self._host.exchange.state
        known, sessions_max = state.agents.get(caller.agent), state.policy.limits.sessions_per_agent_max
        detached = [name for name, entry in self._detached.items() if entry.agent == caller.agent]
        replaced = [name for name in detached if anew and (one := self.find(name)) is not None and one.kind == kind]
        if not replaced and known is not None and len(known.sessions) >= sessions_max:
            replaced = detached[:1]
        # None of them can be resumed while the command waits for room in a commit.
        taken = {name: self._detached.pop(name) for name in replaced}
        reply = await self._host.submit(OpenSession(kind, window, tuple(taken)), caller, sink)
        if isinstance(reply, Problem):
            self._detached |= taken
        return reply

    def close(self, name: str) -> None:
        """Close a session; its unconfirmed offers return to the queue."""
        self._detached.pop(name, None)
        session = self.find(name)
        if session is not None:
            self._host.detach(name)
            self._host.submit(CloseSession(name), self._caller(session))

    def sweep(self) -> None:
        """Close the detached sessions whose time is over."""
        now = self._loop.time()
        for name, entry in list(self._detached.items()):
            if entry.until > now:
                continue
            self._host.submit(CloseSession(name), Caller(entry.agent, self._role(entry.agent)))
            # A recovering hub cannot close a session; the next sweep tries again.
            if self.find(name) is None:
                del self._detached[name]

    def _caller(self, session: Session) -> Caller:
        return Caller(session.agent, self._role(session.agent))

    def _role(self, agent: str) -> str:
        known = self._host.exchange.state.agents.get(agent)
        return "" if known is None else known.role
