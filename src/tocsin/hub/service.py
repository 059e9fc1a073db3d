"""The hub of one project: its host, tokens, history and metrics, opened and closed together.

Gateways receive this object and nothing else. `closing` is set as soon as the hub starts to shut down: a gateway with
open connections then informs its clients. The commits are drained after the last connection is closed.
"""

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING

from tocsin.core.policy import Policy
from tocsin.hub.answer_cache import Shared
from tocsin.hub.auth.administration import TokenAdministration
from tocsin.hub.auth.authority import ADMIN, Authority
from tocsin.hub.auth.browser_sessions import BrowserSessions
from tocsin.hub.auth.store import GrantStore, PostgresGrants, SqliteGrants
from tocsin.hub.clock import Clock
from tocsin.hub.config import ServerConfig, load_config
from tocsin.hub.hosting.host import Host
from tocsin.hub.observability.exporters import configured
from tocsin.hub.observability.feed import Feed
from tocsin.hub.observability.health import HealthWatch
from tocsin.hub.observability.metrics import Metrics
from tocsin.hub.observability.readiness import Readiness
from tocsin.hub.observability.telemetry import Telemetry
from tocsin.hub.project import Project
from tocsin.hub.reader import Reader
from tocsin.hub.request_limits import RequestLimits
from tocsin.hub.webhooks import Webhooks
from tocsin.journal.base import Journal
from tocsin.journal.sqlite import SqliteJournal
from tocsin.policies import default_policy, frames_policy

if TYPE_CHECKING:
    from tocsin.hub.ownership import Standby

__all__ = [
    "ADMIN_TOKEN_FILE",
    "Hub",
    "UnknownStore",
    "check_store",
    "hub_address",
    "hub_name",
    "is_postgres",
    "keep_secret",
    "open_journal",
]

ADMIN_TOKEN_FILE = "admin.token"  # noqa: S105


def is_postgres(store: str) -> bool:
    """Tell whether a store is a PostgreSQL address."""
    return store.startswith(("postgresql://", "postgres://"))


def check_store(store: str) -> None:
    """Refuse a store of an unknown kind; the error contains only its scheme, because it may contain a password."""
    if store and not is_postgres(store):
        scheme, separator, _ = store.partition("://")
        found = f"{scheme[:32]}://…" if separator else "not an address"
        raise UnknownStore(f"the store is {found}; expected postgresql://… or postgres://…, or nothing for SQLite")


class UnknownStore(Exception):
    """The store is of a kind that the hub does not support."""


class Hub:
    """A project that is served, with everything that gateways need."""

    def __init__(self, config: ServerConfig, data: Path, host: Host, authority: Authority, reader: Reader) -> None:
        self.config = config
        #: Folder of tokens and segments.
        self.data = data
        self.host = host
        self.authority = authority
        #: Changes of tokens while the hub serves.
        self.token_administration = TokenAdministration(authority)
        self.reader = reader
        #: Answers shared between callers that ask the same at the same time.
        self.answer_cache = Shared()
        self.metrics = Metrics(config.label_values_max)
        feed, frames = config.feed, frames_policy(host.exchange.state.policy)
        self.feed = Feed(host, frames, watchers_max=feed.watchers_max, frames_max=feed.frames_max)
        #: Set when the hub starts to shut down.
        self.closing = asyncio.Event()
        #: Whether callers on this machine are accepted without a token.
        self.trusting = False
        #: File of the first admin token, if this start created it.
        self.first_token: Path | None = None
        self._clock = Clock()
        #: When the hub was opened, microseconds since the epoch; metrics count from here.
        self.opened_at = self.now()
        board = config.dashboard
        #: Browser sessions of people who are signed in to the dashboard.
        self.browser_sessions = BrowserSessions(
            authority, self.now, lifetime_s=board.browser_session_s, sign_outs_max=board.sign_outs_max
        )
        #: Requests in progress, of all gateways.
        self.request_limits = RequestLimits(config.requests_max, config.requests_per_agent_max)
        #: The project, as the operations use it.
        self.project = Project(
            host,
            reader,
            page_max=config.page_max,
            rows_per_turn=config.rows_per_turn,
            find_depth=config.find_depth,
            clock=self._clock,
            hub=self,
        )
        self._telemetry: Telemetry | None = None
        self._before_close: list[Callable[[], Awaitable[None]]] = []
        self._webhooks: Webhooks | None = None
        self.health = HealthWatch(host, config.health_interval_s, config.health_window_s)
        #: The answer of `/ready`.
        self.readiness = Readiness(host, self.closing, config.readiness)

    @classmethod
    async def open(
        cls,
        data: Path,
        policy: Policy,
        config: ServerConfig,
        *,
        project: str,
        store: str = "",
        standby: "Standby | None" = None,
    ) -> "Hub":
        """Open a project; `store` is a PostgreSQL address, or nothing for SQLite in the data directory.

        With a standby, wait until it owns the project.
        """
        check_store(store)
        data.mkdir(parents=True, exist_ok=True, mode=0o700)
        if standby is not None:
            journal: Journal = await standby.journal()
        else:
            journal = await asyncio.to_thread(_open_journal, data, policy, config, project, store)
        host = await Host.start(journal, policy, segments=data / "segments")
        try:
            grants = await asyncio.to_thread(_open_grants, data, config, project, store)
            most, now = config.tokens_per_agent_max, Clock().now
            authority = await asyncio.to_thread(lambda: Authority(grants, project, now, tokens_per_agent_max=most))
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

    def before_close(self, callback: Callable[[], Awaitable[None]]) -> None:
        """Register a callback to run at shutdown while commands are still accepted; the last registered runs first."""
        self._before_close.append(callback)

    async def close(self) -> None:
        """Run the gateways' callbacks, drain the commits and close the project."""
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
    """Write a secret to a file that is created readable by its owner only."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text + "\n")
    return path


def _open_journal(data: Path, policy: Policy, config: ServerConfig, project: str, store: str) -> Journal:
    if not is_postgres(store):
        return SqliteJournal(
            data,
            project,
            checkpoint_bytes=policy.storage.checkpoint_bytes,
            commit_timeout_s=config.store.commit_timeout_s,
        )
    from tocsin.journal.postgres import PostgresJournal  # the driver is optional

    return PostgresJournal(
        store, project, hub=hub_name(), address=hub_address(config), terms=config.ownership, timeouts=config.store
    )


def open_journal(data: Path, project: str, store: str) -> Journal:
    """Open a project's journal as its owner, for work that no hub may disturb."""
    return _open_journal(data, default_policy(), load_config(data / "server.yaml"), project, store)


def hub_name() -> str:
    """Return the name of this process among the hubs of a project."""
    return f"{socket.gethostname()} {os.getpid()}"


def hub_address(config: ServerConfig) -> str:
    """Return the address that other hubs name to callers."""
    return f"http://{config.address}:{config.port}"


def _open_grants(data: Path, config: ServerConfig, project: str, store: str) -> GrantStore:
    if not is_postgres(store):
        return SqliteGrants(data, project)
    return PostgresGrants(store, project, config.store.commit_timeout_s)
