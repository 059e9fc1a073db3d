"""The hub of one project: its host, tokens, history and metrics, opened and closed together.

Gateways receive this object and nothing else. `closing` is set as soon as the hub starts to shut down: a gateway with
open connections then informs its clients. The commits are drained after the last connection is closed.
"""

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from pathlib import Path
from typing import TYPE_CHECKING

from tocsin.core.errors import TocsinError, refusal
from tocsin.core.policy import Policy
from tocsin.hub.answer_cache import Shared
from tocsin.hub.auth.administration import TokenAdministration
from tocsin.hub.auth.authority import ADMIN, Authority
from tocsin.hub.auth.browser_sessions import BrowserSessions
from tocsin.hub.auth.sign_in_links import SignInLinks
from tocsin.hub.auth.sqlite_grants import SqliteGrants
from tocsin.hub.auth.store import AnnouncedGrants, GrantStore
from tocsin.hub.auth.verifier import TokenVerifier
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
from tocsin.hub.projects import ProjectAdministration
from tocsin.hub.reader import Reader
from tocsin.hub.request_limits import RequestLimits
from tocsin.hub.token_files import ADMIN_TOKEN_FILE, keep_secret
from tocsin.hub.wakers.service import Wakers
from tocsin.hub.webhooks import Webhooks
from tocsin.journal.base import Journal
from tocsin.journal.sqlite import SqliteJournal
from tocsin.policies import default_policy, frames_policy

if TYPE_CHECKING:
    from tocsin.hub.ownership import Standby

__all__ = [
    "Hub",
    "UnknownStore",
    "check_store",
    "hub_address",
    "hub_name",
    "is_postgres",
    "moved",
    "open_journal",
]


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
        #: Address of the hub that the project moves to, or nothing where callers are not told; null unless it moves.
        self.moves_to: str | None = None
        #: Whether agents may resume sessions that they had at another hub.
        self.keeps_sessions = False
        #: Whether callers on this machine are accepted without a token.
        self.trusting = False
        #: File of the first admin token, if this start created it.
        self.first_token: Path | None = None
        #: The other projects of the process; null if it serves none, and in the hubs of these.
        self.projects: ProjectAdministration | None = None
        self._clock = Clock()
        #: When the hub was opened, microseconds since the epoch; metrics count from here.
        self.opened_at = self.now()
        board = config.dashboard
        #: Browser sessions of people who are signed in to the dashboard.
        self.browser_sessions = BrowserSessions(
            authority, self.now, lifetime_s=board.browser_session_s, sign_outs_max=board.sign_outs_max
        )
        #: One-time links that sign people in to the dashboard.
        self.sign_in_links = SignInLinks(
            authority, self.now, lifetime_s=board.sign_in_link_s, links_max=board.sign_in_links_max
        )
        #: Requests in progress, of all gateways.
        self.request_limits = RequestLimits(config.requests_max, config.requests_per_agent_max)
        #: The project, as the operations use it.
        self.project = Project(
            host,
            reader,
            page_max=config.page_max,
            page_bytes_max=config.page_bytes_max,
            rows_per_turn=config.rows_per_turn,
            find_depth=config.find_depth,
            preview_max=config.preview_max,
            clock=self._clock,
            hub=self,
        )
        self._telemetry: Telemetry | None = None
        self._before_close: list[Callable[[], Awaitable[None]]] = []
        self._webhooks: Webhooks | None = None
        #: Wakers of agents without a live session.
        self.wakers = Wakers(host, config.wakers, data, wakers_url(config))
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
        threads: Executor | None = None,
        keeps_sessions: bool = False,
        parent: TokenVerifier | None = None,
        tokens_made: Callable[[list[str]], None] | None = None,
    ) -> "Hub":
        """Open a project; `store` is a PostgreSQL address, or nothing for SQLite in the data directory.

        With a standby, wait until it owns the project, on one of `threads`. Admin tokens of `parent` are valid here.
        `tokens_made` is called with the ids of new tokens before these are stored. With `keeps_sessions` agents can
        resume the sessions that they had at another hub.
        """
        check_store(store)
        data.mkdir(parents=True, exist_ok=True, mode=0o700)
        if standby is not None:
            journal: Journal = await standby.journal(threads)
        else:
            journal = await asyncio.to_thread(_open_journal, data, policy, config, project, store)
        host = await Host.start(journal, policy, segments=data / "segments", keeps_sessions=keeps_sessions)
        try:
            grants = await asyncio.to_thread(_open_grants, data, config, journal, store)
            if tokens_made is not None:
                grants = AnnouncedGrants(grants, tokens_made)
            authority = await asyncio.to_thread(
                lambda: Authority(
                    grants,
                    project,
                    grants.now,
                    tokens_per_agent_max=config.tokens_per_agent_max,
                    tokens_max=config.tokens_max,
                    parent=parent,
                    is_current=lambda: journal.lease_left_s() > 0,
                )
            )
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
        hub.keeps_sessions = keeps_sessions
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
        host.follow(hub.wakers.follow, hub.wakers.kinds)
        await hub.wakers.start()
        return hub

    def now(self) -> int:
        """Return the time, microseconds since the epoch."""
        return self._clock.now()

    def must_be_open(self) -> None:
        """Refuse a call once the hub begins to close the project."""
        if self.closing.is_set():
            if self.moves_to is not None:
                raise moved(self.host.project, self.moves_to)
            raise refusal("E_HUB_003", "the hub is shutting down")

    async def drain(self) -> None:
        """Close the other projects of the process, so that their callers are told."""
        if self.projects is not None:
            await self.projects.close_projects()

    def before_close(self, callback: Callable[[], Awaitable[None]]) -> None:
        """Register a callback to run at shutdown while commands are still accepted; the last registered runs first."""
        self._before_close.append(callback)

    async def stopped(self) -> str:
        """Wait until the project cannot be served any more, and return the reason."""
        return await self.host.stopped()

    async def close(self) -> None:
        """Run the gateways' callbacks, drain the commits and close the project."""
        self.closing.set()
        while self._before_close:
            await self._before_close.pop()()
        self.health.close()
        await self.wakers.close()
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


def moved(project: str, address: str) -> TocsinError:
    """Return the refusal of a call for a project that another hub serves."""
    if not address:
        return refusal("E_HUB_002", f"project {project} is served by another hub: connect anew", retry_after_s=1.0)
    return refusal("E_HUB_002", f"project {project} is served by another hub, at {address}", address=address)


def _open_journal(data: Path, policy: Policy, config: ServerConfig, project: str, store: str) -> Journal:
    if not is_postgres(store):
        return SqliteJournal(
            data,
            project,
            checkpoint_bytes=policy.storage.checkpoint_bytes,
            log_reserve_bytes=policy.storage.log_reserve_bytes,
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
    if config.hubs.address is not None:
        return config.hubs.address.rstrip("/")
    everywhere = config.address in ("0.0.0.0", "::")  # noqa: S104
    host = socket.gethostname() if everywhere else config.address
    return f"http://{f'[{host}]' if ':' in host else host}:{config.port}"


def wakers_url(config: ServerConfig) -> str:
    """Return the address at which a process on this machine reaches the hub."""
    everywhere = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}  # noqa: S104
    return f"http://{everywhere.get(config.address, config.address)}:{config.port}"


def _open_grants(data: Path, config: ServerConfig, journal: Journal, store: str) -> GrantStore:
    if not is_postgres(store):
        return SqliteGrants(data, journal.project)
    from tocsin.hub.auth.postgres_grants import PostgresGrants  # its driver is optional

    return PostgresGrants(store, journal.project, config.store.commit_timeout_s, epoch=journal.epoch)
