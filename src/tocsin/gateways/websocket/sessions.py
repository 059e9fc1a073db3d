"""Which socket has which session, and which sessions wait for their agent to come back.

A socket that drops leaves its session detached: paused, so that nothing new is offered to nobody, with its unconfirmed
offers kept for whoever resumes it in time. After that it is closed and its offers go back to the queue.
"""

import asyncio
from typing import Protocol

import msgspec

from tocsin.core.commands import Caller, CloseSession, GrantCredit
from tocsin.core.state import Session
from tocsin.hub.host import Host

__all__ = ["Holder", "Sessions"]

_KIND = "push"


class Holder(Protocol):
    """A socket, as far as its session is concerned."""

    def replaced(self) -> None:
        """Let go of the session: another socket has it now."""


class _Detached(msgspec.Struct, frozen=True):
    """A session without a socket."""

    agent: str
    #: Until when it is kept, in the loop's time.
    until: float


class Sessions:
    """The sessions of all sockets."""

    def __init__(self, host: Host, grace_s: float) -> None:
        self._host = host
        self._grace_s = grace_s
        self._loop = asyncio.get_running_loop()
        self._held: dict[str, Holder] = {}
        self._detached: dict[str, _Detached] = {}

    def find(self, name: str) -> Session | None:
        """Return a session as it is now; nothing where it has ended."""
        return self._host.exchange.state.sessions.get(name)

    def hold(self, name: str, holder: Holder) -> None:
        """Note that a socket has a new session."""
        self._held[name] = holder

    def take_over(self, name: str, agent: str, holder: Holder) -> bool:
        """Give an agent's session to another of its sockets; say whether it was there to be had."""
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
        """Keep the session of a dropped socket for a while."""
        if self._held.get(name) is not holder:
            return
        del self._held[name]
        self._host.detach(name)
        session = self.find(name)
        if session is not None:
            self._detached[name] = _Detached(session.agent, self._loop.time() + self._grace_s)
            self._host.submit(GrantCredit(name, 0), self._caller(session))

    def forget(self, name: str, holder: Holder) -> None:
        """Keep nothing of a session that is being closed."""
        if self._held.get(name) is holder:
            del self._held[name]
            self._host.detach(name)

    def make_room(self, agent: str, sessions_max: int) -> None:
        """Close the detached session of an agent that ends first, where it has no room for another."""
        known = self._host.exchange.state.agents.get(agent)
        if known is not None and len(known.sessions) >= sessions_max:
            oldest = next((name for name, entry in self._detached.items() if entry.agent == agent), None)
            if oldest is not None:
                self.close(oldest)

    def close(self, name: str) -> None:
        """Close a session; what it has not confirmed goes back to the queue."""
        self._detached.pop(name, None)
        session = self.find(name)
        if session is not None:
            self._host.detach(name)
            self._host.submit(CloseSession(name), self._caller(session))

    def sweep(self) -> None:
        """Close the sessions that nobody came back for; the longest detached are first."""
        now = self._loop.time()
        for name, entry in list(self._detached.items()):
            if entry.until > now:
                break
            self._host.submit(CloseSession(name), Caller(entry.agent, self._role(entry.agent)))
            # While the hub is recovering nothing can be closed: it is tried again.
            if self.find(name) is None:
                del self._detached[name]

    def _caller(self, session: Session) -> Caller:
        return Caller(session.agent, self._role(session.agent))

    def _role(self, agent: str) -> str:
        known = self._host.exchange.state.agents.get(agent)
        return "" if known is None else known.role
