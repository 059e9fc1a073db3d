"""The projects of a process: opened by their first call or when something falls due, closed when they are quiet.

Theory of operation. A closed project is a row of the catalogue. Its first call opens it, and other calls meanwhile wait
for the same opening. After `quiet_s` without calls and connections it is closed, and the time of its next timer (a TTL,
a lease, an escalation) is noted in the catalogue. One task waits for the earliest of these times and opens the project
then; the project's own timers do the rest. While a project is open the catalogue has 0 in place of that time, so after
a crash the next start opens it and finds out.
"""

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Any, Literal

from starlette.types import ASGIApp

from tocsin.core.errors import Problem, TocsinError, refusal
from tocsin.fleet.backups.exports import Exports
from tocsin.fleet.catalogue import Catalogue, CatalogueEntry
from tocsin.fleet.memory import return_memory
from tocsin.fleet.observation import Observation
from tocsin.fleet.open_project import OpenProject
from tocsin.hub.auth.browser_sessions import SignOuts
from tocsin.hub.config import ProjectsConfig
from tocsin.hub.observability.readiness import ReadinessReport
from tocsin.hub.projects import AddedProject, AllReady, KnownProject, OpenProjectFigures
from tocsin.hub.service import Hub, moved
from tocsin.journal.errors import JournalError

__all__ = ["Projects"]

_log = logging.getLogger("tocsin.hub")
#: Longest time between two looks for quiet projects and at the catalogue, seconds.
_LOOK_S = 1.0
_SIGNED_OUT = "signed out: "


class Projects:
    """The projects beside the home project."""

    def __init__(
        self,
        catalogue: Catalogue,
        config: ProjectsConfig,
        open_hub: Callable[[str, threading.Event], Awaitable[Hub]],
        *,
        home: str,
        clock: Callable[[], int],
        exports: Exports,
        sign_outs: SignOuts,
        is_own: Callable[[str], bool] = lambda name: True,
        moves_to: Callable[[str], str | None] = lambda name: None,
        serves_home: bool = False,
        drain_s: float = 0.0,
    ) -> None:
        """Prepare to open projects; `home` is the home project's name, `is_own` tells which this process serves.

        `moves_to` returns the address of another hub that serves a project, and `drain_s` is the time for callers to
        leave a project that is closed. With `serves_home` the home project is among these projects; it is always open.
        """
        self._catalogue = catalogue
        self._config = config
        self._open_hub = open_hub
        self._home = home
        self._clock = clock
        self._is_own = is_own
        self._moves_to = moves_to
        self._serves_home = serves_home
        self._drain_s = drain_s
        self._exports = exports
        #: Browser sessions that were signed out, in any project of this process.
        self.sign_outs = sign_outs
        self._loop = asyncio.get_running_loop()
        self._open: dict[str, OpenProject] = {}
        #: Projects that are being closed; an opening waits for them.
        self._closing: dict[str, asyncio.Task[None]] = {}
        #: When closed projects fall due, microseconds since the epoch.
        self._due: dict[str, int] = {}
        self._tokens: dict[str, str] = {}
        self._opening = asyncio.Semaphore(config.opening_max)
        #: Projects that wait to be opened because something falls due in them; a change of the shares adds none twice.
        self._queued: set[str] = set()
        #: Figures of the open projects of all processes.
        self.observation = Observation(config.metrics_max)
        self._changed = asyncio.Event()
        self._telling: set[asyncio.Task[Any]] = set()
        self._keeper: asyncio.Task[None] | None = None
        self._ended = False
        #: Whether the shares of the hubs have changed since projects were last looked at.
        self._reshared = False
        #: Whether projects were closed since memory was returned to the system.
        self._freed = False

    async def start(self) -> None:
        """Begin to watch the closed projects."""
        await self._look_up(starting=True)
        self._keeper = self._loop.create_task(self._keep(), name="projects")

    async def close(self) -> None:
        """Close all projects and the catalogue."""
        await self.close_projects()
        await asyncio.to_thread(self._catalogue.close)

    async def close_projects(self) -> None:
        """Close all projects, and open none any more."""
        self._ended = True
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.gather(self._keeper, return_exceptions=True)
        for name in list(self._open):
            self._begin_closing(name)
        if self._closing:
            await asyncio.wait(list(self._closing.values()))

    def reshare(self) -> None:
        """Close what another hub serves from now on, and take up what this one does: the shares have changed."""
        self._reshared = True
        self._changed.set()

    async def project_of(self, token_id: str) -> str | None:
        """Return the project of a token, beside the home project; null if it is not known here."""
        found = self._tokens.get(token_id)
        if found is None:
            found = await asyncio.to_thread(self._catalogue.project_of, token_id)
            if found is not None:
                self._tokens[token_id] = found
        return found

    @asynccontextmanager
    async def using(self, name: str) -> AsyncIterator[ASGIApp]:
        """Open a project if it is closed, and keep it open for the time of a call; refuse one that is not in use."""
        project = await self._opened(name)
        project.enter()
        try:
            async with asyncio.timeout(self._config.open_timeout_s):
                app = await project.app()
            yield app
        except TimeoutError:
            raise refusal("E_HUB_007", f"project {name} does not open in time", retry_after_s=1.0) from None
        finally:
            project.leave()

    async def known(self) -> list[KnownProject]:
        """Return all projects, by name."""
        entries = await asyncio.to_thread(self._catalogue.entries)
        home = KnownProject(self._home, 0, None, "open", None)
        return sorted([home, *map(self._known, entries)], key=lambda one: one.name)

    async def add(self, name: str) -> AddedProject:
        """Add a project, and return its first token."""
        entry = await asyncio.to_thread(self._catalogue.add, name, self._clock())
        # This makes the first token. Another process may serve the project.
        hub = await self._open_hub(name, threading.Event())
        try:
            token = "" if hub.first_token is None else await asyncio.to_thread(hub.first_token.read_text)
        finally:
            await hub.close()
        return AddedProject(self._known(entry), token.strip())

    async def archive(self, name: str) -> KnownProject:
        """Close a project, and refuse its callers from now on."""
        entry = await asyncio.to_thread(self._catalogue.archive, name, self._clock())
        self._due.pop(name, None)
        if name in self._open:
            await asyncio.shield(self._begin_closing(name))
        return self._known(entry)

    async def restore(self, name: str) -> KnownProject:
        """Take an archived project into use again."""
        entry = await asyncio.to_thread(self._catalogue.archive, name, None)
        if self._is_own(name) and name not in self._open:
            self._due[name] = 0  # Whatever fell due meanwhile happens now.
            self._changed.set()
        return self._known(entry)

    async def remove(self, name: str) -> None:
        """Remove an archived project, with everything that it has stored."""
        await asyncio.to_thread(self._catalogue.remove, name)
        self._tokens = {token_id: project for token_id, project in self._tokens.items() if project != name}
        self.observation.forget(name)

    def export(self, name: str) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Make a backup of a project, and yield it as the content of an archive file."""
        return self._exports.export(name)

    async def figures(self, home: Hub) -> tuple[list[OpenProjectFigures], int]:
        """Return the figures of all open projects by name, and the number of processes that do not answer."""
        return await self.observation.figures([home, *self.hubs()])

    async def readiness(self, home: Hub) -> AllReady:
        """Check in every open project whether commits work."""
        return await self.observation.readiness([home, *self.hubs()])

    async def metrics(self, home: Hub) -> bytes:
        """Return the metrics of all open projects in Prometheus's text format."""
        return await self.observation.metrics([home, *self.hubs()])

    async def answer(self, question: str) -> bytes:
        """Answer a question of another process about the projects that are open here, or take its news."""
        if question.startswith(_SIGNED_OUT):
            nonce, until = question.removeprefix(_SIGNED_OUT).split()
            self.sign_outs.add(nonce, int(until), self._clock())
            return b""
        return await self.observation.answer(question, self.hubs())

    def announce_sign_out(self, nonce: str, until: int) -> None:
        """Tell the other processes that a user of the home project has signed out."""
        if (peers := self.observation.peers) is not None:
            telling = self._loop.create_task(peers.ask(f"{_SIGNED_OUT}{nonce} {until}"), name="sign-out")
            self._telling.add(telling)
            telling.add_done_callback(self._telling.discard)

    def is_own(self, name: str) -> bool:
        """Tell whether this process serves a project."""
        return self._is_own(name)

    def open_hub_of(self, name: str) -> Hub | None:
        """Return the hub of a project; null unless it is open."""
        project = self._open.get(name)
        return None if project is None else project.hub

    def refuse(self, name: str, problem: Problem | None) -> bool:
        """Refuse the callers of a project that waits to be opened, or let them wait; tell whether that is a change."""
        project = self._open.get(name)
        if project is None or project.refusal == problem:
            return False
        project.refuse(problem)
        return True

    def not_open(self, name: str) -> ReadinessReport | None:
        """Report why a project of this process does not answer; null if it does."""
        project = self._open.get(name)
        if project is not None and project.is_open:
            return None
        if project is None or project.refusal is None:
            return ReadinessReport(ready=False, condition="opening", reason=f"project {name} is being opened")
        return ReadinessReport(ready=False, condition="standing_by", reason=project.refusal.detail)

    def hubs(self) -> list[Hub]:
        """Return the hubs of the projects beside the home project that are open, by name."""
        others = sorted((name, project) for name, project in self._open.items() if name != self._home)
        return [project.hub for _, project in others if project.hub is not None]

    def _known(self, entry: CatalogueEntry) -> KnownProject:
        project = self._open.get(entry.name)
        due_at = self._due.get(entry.name) or entry.due_at or None
        if project is not None and project.hub is not None:
            due_at = project.hub.host.exchange.next_due()
        is_open = (
            project is not None or entry.name in self._closing or (entry.due_at == 0 and not self._is_own(entry.name))
        )
        state: Literal["open", "closed", "archived"] = "open" if is_open else "closed"
        if entry.archived_at is not None:
            state = "archived"
        return KnownProject(entry.name, entry.created_at, entry.archived_at, state, due_at)

    async def _opened(self, name: str) -> OpenProject:
        """Return a project that is open or is being opened."""
        while (closing := self._closing.get(name)) is not None:
            await asyncio.wait([closing])
        project = self._open.get(name)
        if project is not None and not project.ended:
            return project
        if (address := self._moves_to(name)) is not None:
            raise moved(name, address)
        if self._ended:
            raise refusal("E_HUB_003", "the hub is shutting down")
        is_home = self._serves_home and name == self._home
        entry = CatalogueEntry(name, 0) if is_home else await asyncio.to_thread(self._catalogue.find, name)
        if entry is None:
            raise refusal("E_STATE_005", f"there is no project {name[:64]}", found=name[:64])
        if entry.archived_at is not None:
            raise refusal("E_STATE_006", f"project {name} is archived", found=name)
        project = self._open.get(name)
        if (project is None or project.ended) and name not in self._closing and not self._ended:
            self._make_room()
            self._due.pop(name, None)
            self._open[name] = OpenProject(name, lambda given_up: self._open_noted(name, given_up), self._drain_s)
        return await self._opened(name)

    async def _open_noted(self, name: str, given_up: threading.Event) -> Hub:
        """Open a hub, and note that its timers are its own from now on."""
        hub = await self._open_hub(name, given_up)
        try:
            await asyncio.to_thread(self._catalogue.note_due, name, 0)
        except BaseException:
            await hub.close()
            raise
        return hub

    def _make_room(self) -> None:
        """Close the project that has been quiet longest if as many are open as may be; refuse if none is quiet."""
        if len(self._open) < self._config.open_max:
            return
        idle = [project for project in self._open.values() if not project.calls and not self._stays_open(project.name)]
        if not idle:
            detail = f"the hub has {self._config.open_max} projects open, the maximum, and all of them are in use"
            raise refusal("E_HUB_007", detail, retry_after_s=1.0)
        self._begin_closing(min(idle, key=lambda project: project.used_at).name)

    def _begin_closing(self, name: str) -> "asyncio.Task[None]":
        project = self._open.pop(name)
        task = self._closing[name] = self._loop.create_task(self._close_project(project), name=f"closing {name}")
        return task

    async def _close_project(self, project: OpenProject) -> None:
        """Close a project, and note when it has to be opened again while it is still this process's own."""
        try:
            await project.close(self._moves_to(project.name), self._note_due)
        finally:
            del self._closing[project.name]
            self._freed = True
            self._changed.set()

    async def _note_due(self, hub: Hub) -> None:
        """Note when a project has to be opened again."""
        name, due = hub.host.project, hub.host.exchange.next_due()
        if due is not None and self._is_own(name):
            self._due[name] = due
        try:
            await asyncio.to_thread(self._catalogue.note_due, name, due)
        except JournalError as error:
            # The catalogue still has 0, so the next start opens the project.
            _log.warning("the timers of project %s cannot be noted: %s", name, error)

    async def _keep(self) -> None:
        """Close projects that are quiet, and open those in which something falls due."""
        while True:
            self._changed.clear()
            try:
                reshared, self._reshared = self._reshared, False
                if reshared:
                    self._give_away()
                await self._look_up(starting=reshared)
            except JournalError as error:
                _log.warning("the catalogue of projects cannot be read: %s", error)
            self._close_quiet()
            if self._freed and not self._closing:
                self._freed = False
                await asyncio.to_thread(return_memory)
            now = self._clock()
            for name in [name for name, due in self._due.items() if due <= now]:
                del self._due[name]
                self._loop.create_task(self._open_due(name), name=f"due {name}")
            wait_s = min([_LOOK_S, self._config.quiet_s / 2, *((due - now) / 1e6 for due in self._due.values())])
            with suppress(TimeoutError):
                async with asyncio.timeout(max(wait_s, 0.001)):
                    await self._changed.wait()

    async def _look_up(self, *, starting: bool = False) -> None:
        """Find out what other processes have changed: projects that were archived, or taken into use again."""
        if not await asyncio.to_thread(self._catalogue.changed) and not starting:
            return
        entries = await asyncio.to_thread(self._catalogue.entries)
        if self._serves_home:
            entries.append(CatalogueEntry(self._home, 0, due_at=0))
        for entry in entries:
            name = entry.name
            if not self._is_own(name):
                continue
            if entry.archived_at is not None:
                self._due.pop(name, None)
                if name in self._open:
                    self._begin_closing(name)
            elif name in self._open or name in self._closing or name in self._queued or entry.due_at is None:
                continue
            elif starting or entry.due_at:
                self._due[name] = entry.due_at

    def _give_away(self) -> None:
        """Begin to close the projects that another hub serves from now on."""
        for name in [name for name in self._open if not self._is_own(name)]:
            self._begin_closing(name)
        self._due = {name: due for name, due in self._due.items() if self._is_own(name)}

    def _stays_open(self, name: str) -> bool:
        return self._serves_home and name == self._home

    def _close_quiet(self) -> None:
        """Begin to close quiet projects, a few at a time: the first call of another one shares disk and threads."""
        quiet_before = self._loop.time() - self._config.quiet_s
        for name, project in list(self._open.items()):
            quiet = not project.calls and project.used_at < quiet_before and not self._stays_open(name)
            if project.ended or (quiet and len(self._closing) < self._config.opening_max):
                self._begin_closing(name)
                if self._stays_open(name):
                    self._due[name] = 0

    async def _open_due(self, name: str) -> None:
        """Open a project in which something falls due; its own timers do what is due."""
        self._queued.add(name)
        try:
            async with self._opening:
                project = await self._opened(name)
                with suppress(TocsinError):
                    await project.app()
            await project.opened()  # Another hub may serve it for long: that keeps no other project waiting.
        except (TocsinError, JournalError, OSError) as error:
            if not self._is_own(name):
                return  # Its new owner opens it.
            _log.warning("project %s cannot be opened, and something is due in it: %s", name, error)
            await asyncio.sleep(_LOOK_S)
            if name not in self._open and self._is_own(name) and not self._ended:
                self._due[name] = 0
        finally:
            self._queued.discard(name)
