"""The file gateway as a whole: opened with a hub, watching the file agents' directories, closed before the hub is.

`watchfiles` tells of changes; a slow look at everything is the safety net, because notifications can be lost. Only the
root and the directories of file agents are watched, one by one and never what is below them: a link that somebody puts
there leads nowhere.
"""

import asyncio
import contextlib
import logging
from pathlib import Path

from watchfiles import Change, awatch

from tocsin.core.errors import refusal
from tocsin.core.events import Event
from tocsin.core.protocol.envelope import VERSIONS
from tocsin.gateways.files.file_agent import FileAgentSession
from tocsin.gateways.files.names import BUS, is_plain, parties_of
from tocsin.gateways.files.positions import Notebook
from tocsin.gateways.files.projector import Projector, progressed
from tocsin.gateways.files.safe_open import Unsound
from tocsin.gateways.files.writing import ChannelWriter
from tocsin.hub.auth.authority import ROLES
from tocsin.hub.config import Channels
from tocsin.hub.service import Hub
from tocsin.hub.worker import Worker

__all__ = ["FileGateway"]

_log = logging.getLogger("tocsin.files")


class FileGateway:
    """Channels as files, for one hub."""

    def __init__(self, hub: Hub, path: Path) -> None:
        loop = asyncio.get_running_loop()
        config = self._config = hub.config.channels
        self._path = path
        notebook = Notebook(hub.data / "channels" / f"project={hub.host.project}")
        progress = progressed(hub.host, notebook)
        self._writer = ChannelWriter(path, config, progress.journal_id, hub.host.journal.last_seq)
        self._workers = [Worker(f"channels {what}", loop) for what in ("writer", "reader")]
        self._projector = Projector(hub.host, self._writer, self._workers[0], notebook, progress)
        self._attendants = {
            name: FileAgentSession(hub, name, self._projector, self._workers[1], notebook, self._rewatch)
            for name in config.agents
        }
        self._tasks: list[asyncio.Task[None]] = []
        self._watch_ended = asyncio.Event()
        self._unfollow = hub.host.follow(self._committed)

    @classmethod
    async def open(cls, hub: Hub) -> "FileGateway | None":
        """Open the channels of a hub, where its configuration asks for them; close them with the hub."""
        config = hub.config.channels
        if config.directory is None:
            return None
        _check(config)
        try:
            gateway = cls(hub, Path(config.directory).resolve())
        except (OSError, Unsound) as error:
            raise refusal("E_POLICY_001", f"the channels in {config.directory} cannot be opened: {error}") from None
        try:
            for file_agent_session in gateway._attendants.values():
                await file_agent_session.register()
        except BaseException:
            await gateway._release()
            raise
        gateway._start()
        hub.before_close(gateway.close)
        return gateway

    async def close(self) -> None:
        """Write what is committed, end the file agents' sessions, and let go."""
        self._watch_ended.set()
        for task in self._tasks[1:]:
            task.cancel()
        await asyncio.gather(*self._tasks[1:], return_exceptions=True)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._config.retry_s):
                for file_agent_session in self._attendants.values():
                    await file_agent_session.leave()
                await self._projector.settled()
        self._tasks[0].cancel()
        await asyncio.gather(self._tasks[0], return_exceptions=True)
        await self._release()

    async def _release(self) -> None:
        self._unfollow()
        for worker in self._workers:
            await worker.close()
        self._writer.close()

    def _start(self) -> None:
        runs = [self._projector.run(), self._watch()]
        for file_agent_session in self._attendants.values():
            runs += [file_agent_session.read(), file_agent_session.deliver()]
        self._tasks = [asyncio.ensure_future(run) for run in runs]
        for task in self._tasks:
            task.add_done_callback(_ended)

    def _committed(self, first_seq: int, events: list[Event]) -> None:
        self._projector.follow(first_seq, events)
        for file_agent_session in self._attendants.values():
            file_agent_session.mail()

    def _rewatch(self) -> None:
        """Watch other directories from now on."""
        self._watch_ended.set()

    async def _watch(self) -> None:
        """Wake the attendants whose files have changed, until cancelled."""
        step_ms = round(self._config.watch_step_s * 1000)
        while self._attendants:
            self._watch_ended.clear()
            changing = awatch(
                *self._watched(),
                watch_filter=self._is_of_interest,
                step=step_ms,
                debounce=10 * step_ms,
                stop_event=self._watch_ended,
                recursive=False,
            )
            try:
                async with contextlib.aclosing(changing):
                    async for changes in changing:
                        for file_agent_session in self._concerned(changes):
                            file_agent_session.look()
            except (OSError, RuntimeError) as error:
                _log.warning("the channels are not watched, only looked at now and then: %s", error)
                await asyncio.sleep(self._config.poll_interval_s)
            for file_agent_session in self._attendants.values():
                file_agent_session.look()

    def _watched(self) -> list[Path]:
        names = [name for file_agent_session in self._attendants.values() for name in file_agent_session.directories]
        return [self._path, *(self._path / name for name in names)]

    def _is_of_interest(self, change: Change, path: str) -> bool:
        return self._agent_of(path) in self._attendants

    def _concerned(self, changes: "set[tuple[Change, str]]") -> list[FileAgentSession]:
        names = {self._agent_of(path) for _, path in changes}
        return [file_agent_session for name, file_agent_session in self._attendants.items() if name in names]

    def _agent_of(self, path: str) -> str:
        parts = Path(path).relative_to(self._path).parts
        parties = parties_of(parts[0]) if parts else None
        return "" if parties is None else parties[0]


def _ended(task: "asyncio.Task[None]") -> None:
    """Tell of a task that ended by a bug: what it did is not done any more."""
    if not task.cancelled() and task.exception() is not None:
        _log.error("a part of the file gateway has failed", exc_info=task.exception())


def _check(config: Channels) -> None:
    """Refuse file agents that cannot be."""
    for name, declared in config.agents.items():
        field = f"$.channels.agents.{name}"
        if name == BUS or not is_plain(name):
            raise refusal("E_POLICY_001", f"{name} cannot be a file agent's name", field=field, found=name)
        if declared.role not in ROLES:
            expected = "one of " + ", ".join(ROLES)
            raise refusal("E_POLICY_001", f"{declared.role!r} is no role", field=f"{field}.role", expected=expected)
        if not set(declared.versions) <= set(VERSIONS):
            raise refusal(
                "E_POLICY_001",
                f"{name} cannot be spoken to in {', '.join(declared.versions)}",
                field=f"{field}.versions",
                expected="some of " + ", ".join(VERSIONS),
            )
