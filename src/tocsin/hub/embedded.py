"""The embedded bus: a project inside one's own process, with no server.

    async with await Tocsin.open("team.tocsin") as bus:
        ada = await bus.join("ada", role="primary", agent_type="Manager")
        …

It is the same host that a hub runs, with the same durability; only the gateway is missing.
"""

import asyncio
from pathlib import Path
from types import TracebackType

from tocsin.core.commands import (
    Acknowledge,
    Caller,
    CloseSession,
    Command,
    Confirm,
    Delivery,
    Drain,
    Drained,
    Heartbeat,
    MarkProcessed,
    OpenSession,
    Recall,
    RegisterAgent,
    Reject,
    Reply,
    Send,
    SessionReady,
)
from tocsin.core.envelope import VERSIONS, parse_envelope
from tocsin.core.errors import Problem, error_for
from tocsin.core.policy import Policy
from tocsin.hub.host import Host
from tocsin.journal.sqlite import SqliteJournal
from tocsin.policies import default_policy

__all__ = ["Member", "Tocsin"]


class Tocsin:
    """A project, embedded."""

    def __init__(self, host: Host) -> None:
        #: What runs the project.
        self.host = host

    @classmethod
    async def open(
        cls, path: str | Path, *, project: str = "default", policy: Policy | None = None, durability: str = "FULL"
    ) -> "Tocsin":
        """Open a project's directory, or make it; `durability` `NORMAL` trades power cuts for speed."""
        folder, run_by = Path(path), policy or default_policy()
        journal = await asyncio.to_thread(
            lambda: SqliteJournal(folder, project, mode=durability, checkpoint_bytes=run_by.storage.checkpoint_bytes)
        )
        return cls(await Host.start(journal, run_by, segments=folder / "segments"))

    async def __aenter__(self) -> "Tocsin":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Let go of the project."""
        await self.host.close()

    async def call(self, command: Command, caller: Caller) -> Reply:
        """Do one thing; a refusal is raised."""
        return _spoken(await self.host.submit(command, caller))

    async def join(
        self, agent: str, *, role: str = "primary", agent_type: str = "AdHoc", capabilities: tuple[str, ...] = ()
    ) -> "Member":
        """Register an agent, or come back as one."""
        caller = Caller(agent, role)
        await self.call(RegisterAgent(agent_type, VERSIONS, capabilities), caller)
        return Member(self, caller)


class Member:
    """One agent on an embedded bus."""

    def __init__(self, bus: Tocsin, caller: Caller) -> None:
        self._bus = bus
        self.caller = caller

    async def send(self, envelope: bytes) -> Reply:
        """Send an envelope, as JSON."""
        limit = self._bus.host.exchange.state.policy.limits.message_bytes_max
        return await self._bus.call(Send(parse_envelope(envelope, limit)), self.caller)

    async def attach(self, window: int | None = None) -> "Inbox":
        """Open a push session: messages come by themselves."""
        inbox = Inbox(self)
        reply = _spoken(await self._bus.host.submit(OpenSession("push", window), self.caller, inbox.put))
        if isinstance(reply, SessionReady):
            inbox.session = reply.session
        return inbox

    async def poll(self, session: str, limit: int = 100) -> tuple[Delivery, ...]:
        """Take what waits, on a piggyback session."""
        reply = await self._bus.call(Drain(session, limit), self.caller)
        return reply.deliveries if isinstance(reply, Drained) else ()

    async def open(self, kind: str = "piggyback") -> str:
        """Open a session that is polled."""
        reply = await self._bus.call(OpenSession(kind), self.caller)
        return reply.session if isinstance(reply, SessionReady) else ""

    async def confirm(self, *message_ids: str) -> Reply:
        """Confirm receipt."""
        return await self._bus.call(Confirm(message_ids), self.caller)

    async def acknowledge(self, message_id: str, status: str = "received") -> Reply:
        """Acknowledge a message."""
        return await self._bus.call(Acknowledge(message_id, status), self.caller)

    async def reject(self, message_id: str, reason: str, *, can_retry: bool = False) -> Reply:
        """Reject a message."""
        return await self._bus.call(Reject(message_id, reason, can_retry=can_retry), self.caller)

    async def processed(self, message_id: str) -> Reply:
        """Say that a message has been dealt with."""
        return await self._bus.call(MarkProcessed(message_id), self.caller)

    async def recall(self, message_id: str) -> Reply:
        """Take a message back that nobody has been offered yet."""
        return await self._bus.call(Recall(message_id), self.caller)


class Inbox:
    """What is pushed to one session; the policy's window bounds how much can lie here."""

    def __init__(self, member: Member) -> None:
        self._member = member
        self._queue: asyncio.Queue[Delivery] = asyncio.Queue()
        self.session = ""

    def put(self, delivery: Delivery) -> None:
        """Take a push."""
        self._queue.put_nowait(delivery)

    async def receive(self) -> Delivery:
        """Wait for the next message."""
        return await self._queue.get()

    async def beat(self) -> None:
        """Show that the session lives."""
        await self._member._bus.call(Heartbeat(self.session), self._member.caller)

    async def close(self) -> None:
        """Detach; what was not confirmed goes back to the queue."""
        await self._member._bus.call(CloseSession(self.session), self._member.caller)


def _spoken(reply: Reply) -> Reply:
    if isinstance(reply, Problem):
        raise error_for(reply)
    return reply
