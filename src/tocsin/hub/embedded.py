"""The embedded bus: a project in the application's process, without a server.

    async with await Tocsin.open("team.tocsin") as bus, bus.join("ada", type="Manager") as ada:
        await ada.send(to="bob", type="StatusUpdate", payload={"text": "here"})

It runs the host and the operations of a hub, with the same durability, and the same `Agent` connects to it; it has no
gateways and does not authenticate callers.
"""

# `type` is the name of an agent's type on every interface.
# ruff: noqa: A002

import asyncio
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Never

from tocsin.client.agent import Agent, Connecting, refuse_unknown
from tocsin.client.config import ClientConfig
from tocsin.client.connection.backoff import Retry
from tocsin.core.commands import Caller, Command, Reply
from tocsin.core.errors import Problem, error_for
from tocsin.core.policy import Policy
from tocsin.hub.clock import Clock
from tocsin.hub.config import load_config
from tocsin.hub.hosting.host import Host
from tocsin.hub.inprocess import InProcessLink, InProcessTransport
from tocsin.hub.project import Project
from tocsin.hub.reader import Reader
from tocsin.journal.sqlite import SqliteJournal
from tocsin.policies import default_policy

__all__ = ["JOIN", "Tocsin"]

#: Arguments of `join`.
JOIN = ("agent", "role", "type", "capabilities", "daemon", "retry", "config")


class Tocsin:
    """A project in this process."""

    def __init__(self, project: Project) -> None:
        #: The open project.
        self.project = project
        #: The host that runs it.
        self.host = project.host
        self._links: set[InProcessLink] = set()
        self._watch = asyncio.get_running_loop().create_task(self._end_with_host(), name="tocsin bus")

    @classmethod
    async def open(
        cls, path: str | Path, *, project: str = "default", policy: Policy | None = None, durability: str = "FULL"
    ) -> "Tocsin":
        """Open or create a project's directory; with `durability="NORMAL"` a power cut can lose the last messages."""
        folder, run_by, config = Path(path), policy or default_policy(), load_config()
        journal = await asyncio.to_thread(
            lambda: SqliteJournal(
                folder,
                project,
                mode=durability,
                checkpoint_bytes=run_by.storage.checkpoint_bytes,
                log_reserve_bytes=run_by.storage.log_reserve_bytes,
                commit_timeout_s=config.store.commit_timeout_s,
            )
        )
        host = await Host.start(journal, run_by, segments=folder / "segments")
        try:
            reader = Reader(
                journal,
                await asyncio.to_thread(journal.tables),
                host.projected,
                host.tables_progressed_at,
                fresh_timeout_s=config.fresh_timeout_s,
                fresh_max_s=config.fresh_max_s,
                query_timeout_s=config.store.query_timeout_s,
            )
        except BaseException:
            await host.close()
            raise
        project_ = Project(
            host,
            reader,
            page_max=config.page_max,
            page_bytes_max=config.page_bytes_max,
            rows_per_turn=config.rows_per_turn,
            find_depth=config.find_depth,
            preview_max=config.preview_max,
            clock=Clock(),
        )
        return cls(project_)

    async def __aenter__(self) -> "Tocsin":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the project; calls of connected agents are refused, and their messages return to the queue."""
        links = list(self._links)
        for link in links:
            link.end("it was closed")
        await asyncio.gather(*(link.released.wait() for link in links))
        await self.host.close()
        await self._watch
        await self.project.reader.close()

    async def call(self, command: Command, caller: Caller) -> Reply:
        """Run one command; a refusal is raised."""
        reply = await self.host.submit(command, caller)
        if isinstance(reply, Problem):
            raise error_for(reply)
        return reply

    def transport(self, agent: str, role: str) -> InProcessTransport:
        """Return the transport that connects an agent; `Agent.connect(bus, agent=…)` uses it."""
        return InProcessTransport(self.project, Caller(agent, role), self._links)

    def join(
        self,
        agent: str,
        *,
        role: str = "primary",
        type: str = "AdHoc",
        capabilities: Sequence[str] = (),
        daemon: bool = False,
        retry: Retry | None = None,
        config: ClientConfig | None = None,
        **unknown: Never,
    ) -> Connecting:
        """Register an agent and connect it; use `async with` or `await`. The arguments are those of `Agent.connect`."""
        refuse_unknown("join", unknown, JOIN)
        return Agent.connect(
            self,
            agent=agent,
            role=role,
            type=type,
            capabilities=capabilities,
            daemon=daemon,
            retry=retry,
            config=config,
        )

    async def _end_with_host(self) -> None:
        reason = await self.host.stopped()
        for link in list(self._links):
            link.end(reason)
