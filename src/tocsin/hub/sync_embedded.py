"""The embedded bus for synchronous code, on an event loop in a background thread.

    with SyncTocsin.open("team.tocsin") as bus, bus.join("ada", type="Manager") as ada:
        ada.send(to="bob", type="StatusUpdate", payload={"text": "here"})

Its agents share that loop. Any thread may call.
"""

# `type` is the name of an agent's type on every interface.
# ruff: noqa: A002

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Never

from tocsin.client.agent import refuse_unknown
from tocsin.client.config import ClientConfig
from tocsin.client.connection.backoff import Retry
from tocsin.client.loop_thread import LoopThread
from tocsin.client.sync import SyncAgent
from tocsin.core.commands import Caller, Command, Reply
from tocsin.core.errors import Problem
from tocsin.core.policy import Policy
from tocsin.hub.embedded import JOIN, Tocsin

__all__ = ["SyncTocsin"]

_CLOSED = Problem("E_HUB_003", "the bus is closed: it was closed", retryable=False)


class SyncTocsin:
    """A project in this process."""

    def __init__(self, background: LoopThread, bus: Tocsin) -> None:
        #: The loop of the project and its agents.
        self.background = background
        #: The project; it must be used on its loop only.
        self.bus = bus

    @classmethod
    def open(
        cls, path: str | Path, *, project: str = "default", policy: Policy | None = None, durability: str = "FULL"
    ) -> "SyncTocsin":
        """Open a project's directory, or create it, as `Tocsin.open` does; close it later, or use `with`."""
        background = LoopThread("tocsin bus")
        try:
            opened = Tocsin.open(path, project=project, policy=policy, durability=durability)
            return cls(background, background.run(opened))
        except BaseException:
            background.stop(_CLOSED)
            raise

    def __enter__(self) -> "SyncTocsin":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the project; calls of connected agents are refused, and their messages return to the queue."""
        if self.background.has_stopped:
            return
        try:
            self.background.run(self.bus.close())
        finally:
            self.background.stop(_CLOSED)

    def call(self, command: Command, caller: Caller) -> Reply:
        """Run one command; a refusal is raised."""
        return self.background.run(self.bus.call(command, caller))

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
    ) -> SyncAgent:
        """Register an agent and connect it; close it later, or use `with`. The arguments are those of `connect`."""
        refuse_unknown("join", unknown, JOIN)
        return SyncAgent.connect(
            self,
            agent=agent,
            role=role,
            type=type,
            capabilities=capabilities,
            daemon=daemon,
            retry=retry,
            config=config,
        )
