"""The projects of a process, from the folder or database of its home project."""

import asyncio
import os
import threading
from collections.abc import Callable
from concurrent.futures import Executor
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from tocsin.core.policy import Policy
from tocsin.fleet.backups.exports import Exports
from tocsin.fleet.catalogue import Catalogue
from tocsin.fleet.folder import PROJECTS, FolderCatalogue
from tocsin.fleet.projects import Projects
from tocsin.hub.auth.browser_sessions import SignOuts
from tocsin.hub.auth.sqlite_grants import SqliteGrants
from tocsin.hub.auth.store import ReadableGrants
from tocsin.hub.auth.verifier import FollowingAuthority, TokenVerifier
from tocsin.hub.clock import Clock
from tocsin.hub.config import ServerConfig
from tocsin.hub.policy_file import adopt_policy_file
from tocsin.hub.service import Hub, hub_name, is_postgres
from tocsin.policies import POLICY_FILE, default_policy, load_policy

if TYPE_CHECKING:
    from tocsin.hub.ownership import Standby

__all__ = ["Place", "default_workers", "home_authority", "open_project", "open_projects", "projects_of"]


class Place(msgspec.Struct, frozen=True):
    """The folder or database that holds the projects."""

    data: Path
    #: Name of the home project.
    home: str
    #: PostgreSQL address, or nothing for SQLite.
    store: str
    config: ServerConfig

    def catalogue(self) -> Catalogue:
        """Open the catalogue."""
        if not is_postgres(self.store):
            return FolderCatalogue(self.data, self.home, Clock().now())
        from tocsin.fleet.database import DatabaseCatalogue  # its driver is optional

        return DatabaseCatalogue(self.store, self.home, self.config.store.commit_timeout_s)


def default_workers(place: Place) -> int:
    """Return the number of workers for a place: as many as there are cores if it has more than one project."""
    if is_postgres(place.store):
        catalogue = place.catalogue()
        try:
            several = bool(catalogue.entries())
        finally:
            catalogue.close()
    else:
        several = any((place.data / PROJECTS).glob("*/journal.db"))
    return len(os.sched_getaffinity(0)) if several else 1


async def open_projects(
    home: Hub, store: str, catalogue: Catalogue | None = None, is_own: Callable[[str], bool] = lambda name: True
) -> Projects:
    """Return the projects beside a home project that is open in this process; they are closed before it."""
    place = Place(home.data, home.host.project, store, home.config)
    sign_outs = home.browser_sessions.sign_outs
    projects = await projects_of(
        place, home.authority, trusting=home.trusting, catalogue=catalogue, is_own=is_own, sign_outs=sign_outs
    )
    home.projects = projects
    sign_outs.announce = projects.announce_sign_out
    home.before_close(projects.close)
    return projects


async def projects_of(
    place: Place,
    parent: TokenVerifier,
    *,
    trusting: bool = False,
    catalogue: Catalogue | None = None,
    is_own: Callable[[str], bool] = lambda name: True,
    sign_outs: SignOuts | None = None,
) -> Projects:
    """Begin to serve the projects of a place; admin tokens and sign-outs of `parent` are valid in all of them."""
    shared = SignOuts(place.config.dashboard.sign_outs_max) if sign_outs is None else sign_outs
    known = await asyncio.to_thread(place.catalogue) if catalogue is None else catalogue

    async def open_hub(name: str, given_up: threading.Event) -> Hub:
        return await open_project(place, name, parent, known, trusting=trusting, sign_outs=shared)

    projects = Projects(
        known,
        place.config.projects,
        open_hub,
        home=place.home,
        clock=Clock().now,
        is_own=is_own,
        exports=Exports(place.data, place.store),
        sign_outs=shared,
        drain_s=place.config.hubs.drain_s,
    )
    await projects.start()
    return projects


async def open_project(
    place: Place,
    name: str,
    parent: TokenVerifier,
    catalogue: Catalogue,
    *,
    trusting: bool,
    sign_outs: SignOuts,
    standby: "Callable[[Policy, ServerConfig], Standby] | None" = None,
    threads: Executor | None = None,
) -> Hub:
    """Open a project beside the home project; `standby` makes what waits for its former owner."""
    data, config = place.data / PROJECTS / name, _config(place.config)
    policy_file = data / POLICY_FILE
    policy = load_policy(policy_file) if policy_file.exists() else default_policy()
    hub = await Hub.open(
        data,
        policy,
        config,
        project=name,
        store=place.store,
        standby=None if standby is None else standby(policy, config),
        threads=threads,
        keeps_sessions=standby is not None,
        parent=parent,
        tokens_made=lambda token_ids: catalogue.note_tokens(name, token_ids),
    )
    hub.trusting = trusting
    hub.browser_sessions.sign_outs = sign_outs
    if policy_file.exists():
        await adopt_policy_file(hub, policy)
    return hub


def _config(home: ServerConfig) -> ServerConfig:
    """Return the settings of a project; the files and destinations of the home project are its own."""
    return msgspec.structs.replace(
        home,
        channels=msgspec.structs.replace(home.channels, directory=None, agents={}),
        webhooks=msgspec.structs.replace(home.webhooks, destinations=[]),
        history=msgspec.structs.replace(home.history, extract=None, reports=None),
    )


def home_authority(place: Place) -> FollowingAuthority:
    """Return the tokens of the home project, for a process that does not serve it."""
    grants: ReadableGrants
    if is_postgres(place.store):
        from tocsin.hub.auth.followed_grants import FollowedGrants  # its driver is optional
        from tocsin.hub.auth.postgres_grants import PostgresGrants

        stored, hubs = PostgresGrants(place.store, place.home, place.config.store.commit_timeout_s), place.config.hubs
        grants = FollowedGrants(stored, hub_name(), beat_s=hubs.beat_s, lease_s=hubs.lease_s)
    else:
        grants = SqliteGrants(place.data, place.home)
    return FollowingAuthority(grants, place.home, grants.now)
