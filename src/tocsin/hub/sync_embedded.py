"""The embedded bus for code that does not await: the same project, on a loop in a thread of its own.

    with SyncTocsin.open("team.tocsin") as bus, bus.join("ada", agent_type="Manager") as ada:
        ada.send(to="bob", type="StatusUpdate", payload={"text": "here"})

Its agents share that loop. Any thread may call.
"""

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from tocsin.client.backoff import Retry
from tocsin.client.config import ClientConfig
from tocsin.client.loop_thread import LoopThread
from tocsin.client.sync import SyncAgent
from tocsin.core.commands import Caller, Command, Reply
from tocsin.core.errors import Problem
from tocsin.core.policy import Policy
from tocsin.hub.embedded import Tocsin

__all__ = ["SyncTocsin"]

_CLOSED = Problem("E_HUB_003", "the bus is closed: it was closed", retryable=False)


class SyncTocsin:
    """A project, embedded."""

    def __init__(self, background: LoopThread, bus: Tocsin) -> None:
        #: The loop that the project and its agents live on.
        self.background = background
        #: The project; only its loop may touch it.
        self.bus = bus

    @classmethod
    def open(
        cls, path: str | Path, *, project: str = "default", policy: Policy | None = None, durability: str = "FULL"
    ) -> "SyncTocsin":
        """Open a project's directory, or make it, as `Tocsin.open` does; close it later, or use `with`."""
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
        """Let go of the project; agents that are still attached are told, and their messages go back."""
        if self.background.has_stopped:
            return
        try:
            self.background.run(self.bus.close())
        finally:
            self.background.stop(_CLOSED)

    def call(self, command: Command, caller: Caller) -> Reply:
        """Do one thing; a refusal is raised."""
        return self.background.run(self.bus.call(command, caller))

    def join(
        self,
        agent: str,
        *,
        role: str = "primary",
        agent_type: str = "AdHoc",
        capabilities: Sequence[str] = (),
        retry: Retry | None = None,
        config: ClientConfig | None = None,
    ) -> SyncAgent:
        """Register an agent, or come back as one, and attach it; close it later, or use `with`."""
        return SyncAgent.connect(
            self, agent=agent, role=role, agent_type=agent_type, capabilities=capabilities, retry=retry, config=config
        )
