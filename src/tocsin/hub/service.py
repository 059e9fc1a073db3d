"""One project being served: its host, its tokens, its history and its metrics, opened and closed together.

Gateways get this object and nothing else. `closing` is set as soon as the hub is told to stop: whoever holds a
connection open tells its other end then; the commits are drained after the last of them is gone.
"""

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

from tocsin.core.policy import Policy
from tocsin.hub.answer_cache import Shared
from tocsin.hub.auth.administration import TokenAdministration
from tocsin.hub.auth.authority import ADMIN, Authority
from tocsin.hub.auth.browser_sessions import BrowserSessions
from tocsin.hub.auth.store import GrantStore, PostgresGrants, SqliteGrants
from tocsin.hub.clock import Clock
from tocsin.hub.config import ServerConfig
from tocsin.hub.exporters import configured
from tocsin.hub.feed import Feed
from tocsin.hub.health import HealthWatch
from tocsin.hub.host import Host
from tocsin.hub.metrics import Metrics
from tocsin.hub.project import Project
from tocsin.hub.reader import Reader
from tocsin.hub.request_limits import RequestLimits
from tocsin.hub.telemetry import Telemetry
from tocsin.hub.webhooks import Webhooks
from tocsin.journal.base import Journal
from tocsin.journal.sqlite import SqliteJournal
from tocsin.policies import frames_policy

__all__ = ["ADMIN_TOKEN_FILE", "Hub", "UnknownStore", "check_store", "is_postgres", "keep_secret"]

ADMIN_TOKEN_FILE = "admin.token"  # noqa: S105


def is_postgres(store: str) -> bool:
    """Tell whether a store is a PostgreSQL address."""
    return store.startswith(("postgresql://", "postgres://"))


def check_store(store: str) -> None:
    """Refuse a store that is none; it may hold a password, so no more than its scheme is repeated."""
    if store and not is_postgres(store):
        scheme, separator, _ = store.partition("://")
        found = f"{scheme[:32]}://…" if separator else "something that is no address"
        raise UnknownStore(f"the store is {found}; it can be postgresql://… or postgres://…, or nothing for SQLite")


class UnknownStore(Exception):
    """The store is of no kind that a hub knows."""


class Hub:
    """A project, with everything that its gateways need."""

    def __init__(self, config: ServerConfig, data: Path, host: Host, authority: Authority, reader: Reader) -> None:
        self.config = config
        #: Where tokens and segments are.
        self.data = data
        self.host = host
        self.authority = authority
        #: Where tokens are changed while the hub serves.
        self.token_administration = TokenAdministration(authority)
        self.reader = reader
        #: What many ask at a time.
        self.answer_cache = Shared()
        self.metrics = Metrics(config.label_values_max)
        feed, frames = config.feed, frames_policy(host.exchange.state.policy)
        self.feed = Feed(host, frames, watchers_max=feed.watchers_max, frames_max=feed.frames_max)
        #: Set when the hub is told to stop.
        self.closing = asyncio.Event()
        #: Whether anyone on this machine may say who they are.
        self.trusting = False
        #: Where the first admin token was put, if this start made it.
        self.first_token: Path | None = None
        self._clock = Clock()
        #: Since when it counts what happens.
        self.opened_at = self.now()
        board = config.dashboard
        #: What people who are signed in show in place of their tokens.
        self.browser_sessions = BrowserSessions(
            authority, self.now, lifetime_s=board.browser_session_s, sign_outs_max=board.sign_outs_max
        )
        #: Requests in progress, of all gateways.
        self.request_limits = RequestLimits(config.requests_max, config.requests_per_agent_max)
        #: What operations use.
        self.project = Project(
            host, reader, page_max=config.page_max, find_depth=config.find_depth, clock=self._clock, hub=self
        )
        self._telemetry: Telemetry | None = None
        self._before_close: list[Callable[[], Awaitable[None]]] = []
        self._webhooks: Webhooks | None = None
        self.health = HealthWatch(host, config.health_interval_s, config.health_window_s)

    @classmethod
    async def open(
        cls,
        data: Path,
        policy: Policy,
        config: ServerConfig,
        *,
        project: str,
        store: str = "",
        standby: bool = False,
    ) -> "Hub":
        """Open a project; `store` is a PostgreSQL address, or nothing for SQLite in the data directory.

        A standby waits until nobody else serves the project.
        """
        check_store(store)
        data.mkdir(parents=True, exist_ok=True, mode=0o700)
        if standby:
            journal = await _awaited(policy, config, project, store)
        else:
            journal = await asyncio.to_thread(_journal, data, policy, config, project, store)
        host = await Host.start(journal, policy, segments=data / "segments")
        try:
            grants = await asyncio.to_thread(_grants, data, project, store)
            most, now = config.tokens_per_agent_max, Clock().now
            authority = await asyncio.to_thread(lambda: Authority(grants, project, now, tokens_per_agent_max=most))
            reader = Reader(
                journal, await asyncio.to_thread(journal.tables), config.fresh_timeout_s, host.request_projection
            )
        except BaseException:
            await host.close()
            raise
        hub = cls(config, data, host, authority, reader)
        host.follow(lambda _, events: hub.metrics.fold(events, host.exchange.state))
        hub._observe(configured(project, messages_max=config.telemetry_messages_max))
        try:
            await asyncio.to_thread(hub._ensure_admin)
            hub._webhooks = await asyncio.to_thread(Webhooks, journal, config.webhooks, data)
        except BaseException:
            await hub.close()
            raise
        host.follow(hub._webhooks.follow)
        host.follow(hub.health.follow)
        hub.health.start()
        hub._webhooks.start()
        return hub

    def now(self) -> int:
        """Return the time, microseconds since the epoch."""
        return self._clock.now()

    def before_close(self, last_words: Callable[[], Awaitable[None]]) -> None:
        """Let a gateway finish while commands are still decided; the last to ask is the first to be called."""
        self._before_close.append(last_words)

    async def close(self) -> None:
        """Let the gateways finish, drain the commits and let go of the project."""
        self.closing.set()
        while self._before_close:
            await self._before_close.pop()()
        self.health.close()
        if self._webhooks is not None:
            await asyncio.to_thread(self._webhooks.close)
        await self.host.close()
        self.feed.close()
        await self.reader.close()
        await self.token_administration.close()
        self.authority.close()
        if self._telemetry is not None:
            await asyncio.to_thread(self._telemetry.close)

    def _observe(self, telemetry: Telemetry | None) -> None:
        self._telemetry = telemetry
        if telemetry is not None:
            self.host.follow(telemetry.follow)

    def _ensure_admin(self) -> None:
        if not self.authority.has_admin():
            issued = self.authority.issue(ADMIN, "human", admin=True)
            self.first_token = keep_secret(self.data / ADMIN_TOKEN_FILE, issued.secret.spell())


def keep_secret(path: Path, text: str) -> Path:
    """Write a secret to a file that only its owner can read, from its first moment on."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text + "\n")
    return path


def _journal(data: Path, policy: Policy, config: ServerConfig, project: str, store: str) -> Journal:
    if not is_postgres(store):
        return SqliteJournal(data, project, checkpoint_bytes=policy.storage.checkpoint_bytes)
    from tocsin.journal.postgres import PostgresJournal  # its driver is optional

    return PostgresJournal(store, project, hub=_name(), address=_address(config))


async def _awaited(policy: Policy, config: ServerConfig, project: str, store: str) -> Journal:
    from tocsin.hub.ownership import Standby  # as above

    return await Standby(store, project, policy, hub=_name(), address=_address(config)).journal()


def _name() -> str:
    return f"{socket.gethostname()} {os.getpid()}"


def _address(config: ServerConfig) -> str:
    return f"http://{config.address}:{config.port}"


def _grants(data: Path, project: str, store: str) -> GrantStore:
    return PostgresGrants(store, project) if is_postgres(store) else SqliteGrants(data, project)
