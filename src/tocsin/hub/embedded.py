"""The embedded bus: a project inside one's own process, with no server.

    async with await Tocsin.open("team.tocsin") as bus, bus.join("ada", agent_type="Manager") as ada:
        await ada.send(to="bob", type="StatusUpdate", payload={"text": "here"})

It is the same host that a hub runs, with the same durability, and the same `Agent` that attaches to a hub; only the
gateway is missing.
"""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from tocsin.client.agent import Agent, Connecting
from tocsin.client.backoff import Retry
from tocsin.client.config import ClientConfig
from tocsin.core.commands import Caller, Command, Reply
from tocsin.core.errors import Problem, error_for
from tocsin.core.policy import Policy
from tocsin.hub.config import load_config
from tocsin.hub.embedded_history import EmbeddedHistory
from tocsin.hub.host import Host
from tocsin.hub.inprocess import InProcessLink, InProcessTransport
from tocsin.hub.reader import Reader
from tocsin.journal.sqlite import SqliteJournal
from tocsin.policies import default_policy

__all__ = ["Tocsin"]


class Tocsin:
    """A project, embedded."""

    def __init__(self, host: Host, embedded_history: EmbeddedHistory) -> None:
        #: What runs the project.
        self.host = host
        self._recollection = embedded_history
        self._links: set[InProcessLink] = set()
        self._watch = asyncio.get_running_loop().create_task(self._tell_when_stopped(), name="tocsin bus")

    @classmethod
    async def open(
        cls, path: str | Path, *, project: str = "default", policy: Policy | None = None, durability: str = "FULL"
    ) -> "Tocsin":
        """Open a project's directory, or make it; `durability` `NORMAL` trades power cuts for speed."""
        folder, run_by, config = Path(path), policy or default_policy(), load_config()
        journal = await asyncio.to_thread(
            lambda: SqliteJournal(folder, project, mode=durability, checkpoint_bytes=run_by.storage.checkpoint_bytes)
        )
        host = await Host.start(journal, run_by, segments=folder / "segments")
        try:
            reader = Reader(
                journal, await asyncio.to_thread(journal.tables), config.fresh_timeout_s, host.request_projection
            )
        except BaseException:
            await host.close()
            raise
        return cls(host, EmbeddedHistory(host, reader, config.page_max))

    async def __aenter__(self) -> "Tocsin":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Let go of the project; agents that are still attached are told, and their messages go back."""
        links = list(self._links)
        for link in links:
            link.end("it was closed")
        await asyncio.gather(*(link.released.wait() for link in links))
        await self.host.close()
        await self._watch
        await self._recollection.close()

    async def call(self, command: Command, caller: Caller) -> Reply:
        """Do one thing; a refusal is raised."""
        reply = await self.host.submit(command, caller)
        if isinstance(reply, Problem):
            raise error_for(reply)
        return reply

    def transport(self, agent: str, role: str) -> InProcessTransport:
        """Return the way to be attached as an agent; `Agent.connect(bus, agent=…)` asks for it."""
        return InProcessTransport(self.host, self._recollection, Caller(agent, role), self._links)

    def join(
        self,
        agent: str,
        *,
        role: str = "primary",
        agent_type: str = "AdHoc",
        capabilities: Sequence[str] = (),
        retry: Retry | None = None,
        config: ClientConfig | None = None,
    ) -> Connecting:
        """Register an agent, or come back as one, and attach it, as `async with` or `await`."""
        return Agent.connect(
            self, agent=agent, role=role, agent_type=agent_type, capabilities=capabilities, retry=retry, config=config
        )

    async def _tell_when_stopped(self) -> None:
        reason = await self.host.stopped()
        for link in list(self._links):
            link.end(reason)
