"""The file gateway of one hub: opened with the hub, and closed before it.

`watchfiles` reports changes. Everything is also checked at a slow interval, because notifications can be lost. Only the
root and the directories of file agents are watched, one by one and not recursively, so that links in them are never
followed.
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
from tocsin.gateways.files.positions import PositionStore
from tocsin.gateways.files.projector import Projector, progressed
from tocsin.gateways.files.safe_open import UnsafePath
from tocsin.gateways.files.writing import ChannelWriter
from tocsin.hub.auth.tokens import ROLES
from tocsin.hub.config import Channels
from tocsin.hub.hosting.worker import Worker
from tocsin.hub.service import Hub

__all__ = ["FileGateway"]

_log = logging.getLogger("tocsin.files")


class FileGateway:
    """The channels and file agents of one hub."""

    def __init__(self, hub: Hub, path: Path) -> None:
        loop = asyncio.get_running_loop()
        config = self._config = hub.config.channels
        self._path = path
        positions = PositionStore(hub.data / "channels" / f"project={hub.host.project}")
        progress = progressed(hub.host, positions)
        self._writer = ChannelWriter(path, config, progress.journal_id, hub.host.journal.last_seq)
        self._workers = [Worker(f"channels {what}", loop) for what in ("writer", "reader")]
        self._projector = Projector(hub.host, self._writer, self._workers[0], positions, progress)
        self._sessions = {
            name: FileAgentSession(hub, name, self._projector, self._workers[1], positions, self._rewatch)
            for name in config.agents
        }
        self._tasks: list[asyncio.Task[None]] = []
        self._watch_ended = asyncio.Event()
        self._unfollow = hub.host.follow(self._committed)

    @classmethod
    async def open(cls, hub: Hub) -> "FileGateway | None":
        """Open the channels of a hub if they are configured; they are closed with the hub."""
        config = hub.config.channels
        if config.directory is None:
            return None
        _check(config)
        try:
            gateway = cls(hub, Path(config.directory).resolve())
        except (OSError, UnsafePath) as error:
            raise refusal("E_POLICY_001", f"the channels in {config.directory} cannot be opened: {error}") from None
        try:
            for file_agent_session in gateway._sessions.values():
                await file_agent_session.register()
        except BaseException:
            await gateway._release()
            raise
        gateway._start()
        hub.before_close(gateway.close)
        return gateway

    async def close(self) -> None:
        """Write everything committed, close the file agents' sessions, and stop."""
        self._watch_ended.set()
        for task in self._tasks[1:]:
            task.cancel()
        await asyncio.gather(*self._tasks[1:], return_exceptions=True)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._config.retry_s):
                for file_agent_session in self._sessions.values():
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
        for file_agent_session in self._sessions.values():
            runs += [file_agent_session.read(), file_agent_session.deliver()]
        self._tasks = [asyncio.ensure_future(run) for run in runs]
        for task in self._tasks:
            task.add_done_callback(_ended)

    def _committed(self, first_seq: int, events: list[Event]) -> None:
        self._projector.follow(first_seq, events)
        for file_agent_session in self._sessions.values():
            file_agent_session.mail()

    def _rewatch(self) -> None:
        """Restart watching, because the directories have changed."""
        self._watch_ended.set()

    async def _watch(self) -> None:
        """Wake the sessions of agents whose files have changed, until cancelled."""
        step_ms = round(self._config.watch_step_s * 1000)
        while self._sessions:
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
                _log.warning("the channels cannot be watched and are only checked at intervals: %s", error)
                await asyncio.sleep(self._config.poll_interval_s)
            for file_agent_session in self._sessions.values():
                file_agent_session.look()

    def _watched(self) -> list[Path]:
        names = [name for file_agent_session in self._sessions.values() for name in file_agent_session.directories]
        return [self._path, *(self._path / name for name in names)]

    def _is_of_interest(self, change: Change, path: str) -> bool:
        return self._agent_of(path) in self._sessions

    def _concerned(self, changes: "set[tuple[Change, str]]") -> list[FileAgentSession]:
        names = {self._agent_of(path) for _, path in changes}
        return [file_agent_session for name, file_agent_session in self._sessions.items() if name in names]

    def _agent_of(self, path: str) -> str:
        parts = Path(path).relative_to(self._path).parts
        parties = parties_of(parts[0]) if parts else None
        return "" if parties is None else parties[0]


def _ended(task: "asyncio.Task[None]") -> None:
    """Log a task that ended with an exception: its work is not done any more."""
    if not task.cancelled() and task.exception() is not None:
        _log.error("a part of the file gateway has failed", exc_info=task.exception())


def _check(config: Channels) -> None:
    """Refuse a configuration with invalid file agents."""
    for name, declared in config.agents.items():
        field = f"$.channels.agents.{name}"
        if name == BUS or not is_plain(name):
            raise refusal("E_POLICY_001", f"{name} is not a valid name of a file agent", field=field, found=name)
        if declared.role not in ROLES:
            expected = "one of " + ", ".join(ROLES)
            raise refusal("E_POLICY_001", f"{declared.role!r} is not a role", field=f"{field}.role", expected=expected)
        if not set(declared.versions) <= set(VERSIONS):
            raise refusal(
                "E_POLICY_001",
                f"{name} has protocol versions that the hub does not support: {', '.join(declared.versions)}",
                field=f"{field}.versions",
                expected="some of " + ", ".join(VERSIONS),
            )
