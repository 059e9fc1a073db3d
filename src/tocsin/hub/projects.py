"""Administration of the projects of a hub, as the operations of its home project use it."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Literal, Protocol

import msgspec

if TYPE_CHECKING:
    from tocsin.hub.service import Hub

__all__ = ["AddedProject", "AllReady", "KnownProject", "OpenProjectFigures", "ProjectAdministration"]


class KnownProject(msgspec.Struct, frozen=True):
    """One project of a process."""

    name: str
    #: Microseconds since the epoch; 0 for the home project.
    created_at: int
    #: When it was archived; null if it is in use.
    archived_at: int | None
    state: Literal["open", "closed", "archived"]
    #: When something falls due in it, microseconds since the epoch; null if nothing does.
    due_at: int | None


class AddedProject(msgspec.Struct, frozen=True):
    """A project that has just been added."""

    project: KnownProject
    #: Its admin token.
    token: str


class OpenProjectFigures(msgspec.Struct, frozen=True):
    """Condition and counts of one open project."""

    project: str
    #: Number of the process that serves it, from 0.
    worker: int
    #: `serving`, `stalled`, `recovering` or `stopped`.
    condition: str
    #: Why it is not serving; empty if it is.
    reason: str
    #: Number of its last event.
    seq: int
    agents: int
    sessions: int
    #: Waiting messages by priority, lowest first.
    waiting: tuple[int, ...]
    dead_letters: int


class AllReady(msgspec.Struct, frozen=True):
    """Readiness of all open projects of a hub."""

    #: Projects that are open.
    open: int
    #: Open projects in which no commit works.
    not_ready: int
    #: Processes of the hub that do not answer.
    workers_silent: int


class ProjectAdministration(Protocol):
    """Adds, archives, removes and observes projects."""

    async def figures(self, home: "Hub") -> tuple[list[OpenProjectFigures], int]:
        """Return the figures of all open projects by name, and the number of processes that do not answer."""

    async def readiness(self, home: "Hub") -> AllReady:
        """Check in every open project whether commits work."""

    async def metrics(self, home: "Hub") -> bytes:
        """Return the metrics of all open projects in Prometheus's text format."""

    def export(self, name: str) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Make a backup of a project, and yield it as the content of an archive file."""

    async def close_projects(self) -> None:
        """Close all projects, and open none any more."""

    async def known(self) -> list[KnownProject]:
        """Return all projects, by name."""

    async def add(self, name: str) -> AddedProject:
        """Add a project, and return its first token."""

    async def archive(self, name: str) -> KnownProject:
        """Close a project, and refuse its callers from now on."""

    async def restore(self, name: str) -> KnownProject:
        """Take an archived project into use again."""

    async def remove(self, name: str) -> None:
        """Remove an archived project, with everything that it has stored."""
