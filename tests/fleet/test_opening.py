"""The order in which a hub opens the projects in which something is due, and what a change of the shares does to it."""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.fleet.hubs import eventually
from tocsin.fleet.backups.exports import Exports
from tocsin.fleet.catalogue import CatalogueEntry
from tocsin.fleet.folder import FolderCatalogue
from tocsin.fleet.projects import Projects
from tocsin.hub.auth.browser_sessions import SignOuts
from tocsin.hub.config import load_config
from tocsin.hub.service import Hub
from tocsin.journal.errors import ProjectBusy


class Looked(FolderCatalogue):
    """A catalogue in which something is due in every project; it counts how often it is read."""

    looks = 0

    def entries(self) -> list[CatalogueEntry]:
        """Return all projects."""
        self.looks += 1
        return [CatalogueEntry(entry.name, 0, due_at=0) for entry in super().entries()]

    def changed(self) -> bool:
        """Tell that no other process changes anything."""
        return False


class Openings:
    """Projects whose former owners hold their locks until they are told to release them."""

    def __init__(self, folder: Path, names: str, own: str, opening_max: int) -> None:
        self.own = set(own)
        #: Projects in the order in which the hub has begun to open them.
        self.begun: list[str] = []
        self._released: dict[str, asyncio.Event] = {}
        self._catalogue = Looked(folder, "home", 0)
        for name in names:
            self._catalogue.add(name, 0)
        self.projects = Projects(
            self._catalogue,
            load_config(projects={"opening_max": opening_max}).projects,
            self._open,
            home="home",
            clock=lambda: 1,
            exports=Exports(folder, ""),
            sign_outs=SignOuts(1),
            is_own=lambda name: name in self.own,
        )

    async def _open(self, name: str, given_up: threading.Event) -> Hub:
        self.begun.append(name)
        await self._released.setdefault(name, asyncio.Event()).wait()
        raise ProjectBusy(name, "another hub")

    def release(self, name: str) -> None:
        """End the opening of a project."""
        self._released.setdefault(name, asyncio.Event()).set()

    async def reshare(self, own: str) -> None:
        """Change the share of the hub, and wait until it has taken that up."""
        self.own = set(own)
        looks = self._catalogue.looks
        self.projects.reshare()
        await eventually(lambda: self._catalogue.looks > looks)


@asynccontextmanager
async def opening(folder: Path, names: str, own: str, opening_max: int) -> AsyncIterator[Openings]:
    """Open projects with names of one letter each."""
    openings = Openings(folder, names, own, opening_max)
    await openings.projects.start()
    try:
        yield openings
    finally:
        for name in names:
            openings.release(name)
        await openings.projects.close()


async def test_projects_of_a_new_share_are_opened_after_those_that_wait_already(tmp_path: Path) -> None:
    async with opening(tmp_path, "abcd", own="cd", opening_max=1) as openings:
        await eventually(lambda: openings.begun == ["c"])
        await openings.reshare("abcd")
        await openings.reshare("abcd")
        for name in "abcd":
            openings.release(name)
        await eventually(lambda: len(openings.begun) >= 4)
        assert openings.begun[:4] == ["c", "d", "a", "b"]


async def test_a_project_that_waits_to_be_opened_is_not_queued_again_by_a_change_of_the_shares(tmp_path: Path) -> None:
    """It would take a second place beside its first one, and keep other projects from being opened."""
    async with opening(tmp_path, "abcd", own="abc", opening_max=2) as openings:
        await eventually(lambda: openings.begun == ["a", "b"])
        await openings.reshare("abc")
        await openings.reshare("abc")
        await openings.reshare("abcd")
        await openings.reshare("abcd")
        openings.release("a")
        openings.release("b")
        await eventually(lambda: "d" in openings.begun)
        assert openings.begun == ["a", "b", "c", "d"]
