"""One hub of several that share the projects of a PostgreSQL database.

The home project is one of the shared projects: the hub whose share it is serves it, and administers all projects.
Tokens of the home project are known to every hub. When the shares change, because a hub comes, goes or hangs, a hub
closes what is no longer its own after its callers were told where to go, and opens what is: it waits for the lock of
the former owner, which is released by that closing.
"""

import asyncio
import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from tocsin.core.errors import TocsinError, refusal
from tocsin.core.policy import Policy
from tocsin.fleet.acceptor import Head
from tocsin.fleet.backups.exports import Exports
from tocsin.fleet.catalogue import Catalogue
from tocsin.fleet.forwarding import Forwarder
from tocsin.fleet.home import Place, home_authority, open_project
from tocsin.fleet.members import Member, Members
from tocsin.fleet.projects import Projects
from tocsin.fleet.registry import Registry, is_gone
from tocsin.gateways.files.gateway import FileGateway
from tocsin.hub.auth.browser_sessions import SignOuts
from tocsin.hub.auth.verifier import FollowingAuthority
from tocsin.hub.clock import Clock
from tocsin.hub.config import ServerConfig
from tocsin.hub.observability.readiness import ReadinessReport
from tocsin.hub.ownership import Seen, Standby
from tocsin.hub.policy_file import adopt_policy_file
from tocsin.hub.service import Hub, hub_address, hub_name, moved
from tocsin.journal.errors import JournalError, ProjectBusy
from tocsin.policies import POLICY_FILE, default_policy, load_policy

__all__ = ["SharingHub"]

_log = logging.getLogger("tocsin.fleet")


class SharingHub:
    """This hub's share of the projects, or the part of it that one worker has."""

    def __init__(
        self,
        place: Place,
        catalogue: Catalogue,
        authority: FollowingAuthority,
        *,
        trusting: bool,
        is_worker_own: Callable[[str], bool],
        registers: bool,
        proxies: bool,
    ) -> None:
        self.config: ServerConfig = place.config
        self.closing = asyncio.Event()
        self.authority = authority
        self.members = Members(hub_address(place.config))
        #: Whether callers are told the addresses of other hubs; a hub that proxies does not.
        self.names_owners = not proxies
        #: What passes connections on; null if callers are redirected.
        self.forwarder: Forwarder | None = None
        if proxies:
            self.forwarder = Forwarder(
                self._project_of,
                self.members.elsewhere,
                connect_timeout_s=place.config.head_timeout_s,
                connections_max=place.config.connections_max,
            )
        self._place = place
        self._catalogue = catalogue
        self._trusting = trusting
        self._loop = asyncio.get_running_loop()
        self._stopped: asyncio.Future[str] = self._loop.create_future()
        #: Until when hubs that have left hand their projects over, in the loop's time.
        self._left: dict[str, float] = {}
        self._threads = ThreadPoolExecutor(place.config.hubs.waiting_max, thread_name_prefix="ownership")
        self.projects = Projects(
            catalogue,
            place.config.projects,
            self._open,
            home=place.home,
            clock=Clock().now,
            is_own=lambda name: is_worker_own(name) and self.members.is_own(name),
            exports=Exports(place.data, place.store),
            sign_outs=SignOuts(place.config.dashboard.sign_outs_max),
            moves_to=self._moves_to,
            serves_home=True,
            drain_s=place.config.hubs.drain_s,
        )
        self._registry = Registry(
            place.store,
            Member(self.members.own, hub_name(), place.config.hubs.weight),
            place.config.hubs,
            timeout_s=place.config.store.commit_timeout_s,
            seen=lambda members: self._call(self._see, members),
            replaced=lambda: self._call(self._replaced),
            beats=registers,
        )

    @classmethod
    async def open(
        cls,
        place: Place,
        catalogue: Catalogue,
        *,
        trusting: bool,
        is_worker_own: Callable[[str], bool] = lambda name: True,
        registers: bool = True,
        proxies: bool = False,
    ) -> "SharingHub":
        """Join the hubs of a database and begin to serve; one process of a hub registers it."""
        authority = await asyncio.to_thread(home_authority, place)
        hub = cls(
            place,
            catalogue,
            authority,
            trusting=trusting,
            is_worker_own=is_worker_own,
            registers=registers,
            proxies=proxies,
        )
        try:
            hub.members.see(await asyncio.to_thread(hub._registry.start))
            await hub.projects.start()
        except BaseException:
            await hub.close()
            raise
        return hub

    def report(self) -> ReadinessReport | None:
        """Report the condition of this hub; null where that is what its home project answers, or another worker."""
        home = self._place.home
        if self.members.elsewhere(home) is None:
            return self.projects.not_open(home) if self.projects.is_own(home) else None
        ready = self._registry.is_fresh and not self.closing.is_set()
        return ReadinessReport(ready=ready, condition="serving" if ready else "not_ready")

    def elsewhere(self, project: str) -> str | None:
        """Return the address of another hub that serves a project; null if it is this one."""
        return self.members.elsewhere(project)

    async def stopped(self) -> str:
        """Wait until it cannot serve any more, and return the reason."""
        return await asyncio.shield(self._stopped)

    async def drain(self) -> None:
        """Leave the hubs, and hand all projects over; callers are sent to the other hubs meanwhile."""
        self.members.leave()
        try:
            await asyncio.to_thread(self._registry.leave)
        except JournalError as error:
            _log.warning("this hub cannot leave the table of hubs: %s", error)
        await self.projects.close_projects()

    async def close(self) -> None:
        """Close the projects."""
        self.closing.set()
        if self.forwarder is not None:
            await self.forwarder.close()
        await self.projects.close()
        await asyncio.to_thread(self._registry.close)
        self._threads.shutdown(wait=False, cancel_futures=True)
        self.authority.close()

    async def home(self) -> Hub | None:
        """Return the home project if it is this hub's and opens in time; the shares may change meanwhile."""
        if not self.projects.is_own(self._place.home):
            return None
        try:
            async with self.projects.using(self._place.home):
                return self.projects.open_hub_of(self._place.home)
        except ProjectBusy:
            return None
        except TocsinError as error:
            if not error.retryable:
                raise
            _log.warning("the home project is not open yet: %s", error)
            return None

    def _moves_to(self, project: str) -> str | None:
        """Return where the callers of a project go; nothing if they are not told, null if it stays here."""
        address = self.members.elsewhere(project)
        return address if address is None or self.names_owners else ""

    async def _project_of(self, head: Head) -> str:
        """Return the project of a connection."""
        home = self._place.home
        if head.token_id is None or self.authority.find(head.token_id) is not None:
            return head.named or home
        return await self.projects.project_of(head.token_id) or home

    async def _open(self, name: str, given_up: threading.Event) -> Hub:
        """Wait until this hub owns a project, and open it."""

        def standby(policy: Policy, config: ServerConfig) -> Standby:
            return Standby(
                self._place.store,
                name,
                policy,
                hub=hub_name(),
                address=self.members.own,
                config=config,
                given_up=given_up,
                is_gone=is_gone,
                looked=lambda seen: self._call(self._note_owner, name, seen),
            )

        place = self._place
        if name != place.home:
            return await open_project(
                place,
                name,
                self.authority,
                self._catalogue,
                trusting=self._trusting,
                sign_outs=self.projects.sign_outs,
                standby=standby,
                threads=self._threads,
            )
        file = place.data / POLICY_FILE
        policy = load_policy(file) if file.exists() else default_policy()
        hub = await Hub.open(
            place.data,
            policy,
            place.config,
            project=name,
            store=place.store,
            standby=standby(policy, place.config),
            threads=self._threads,
            keeps_sessions=True,
        )
        hub.trusting = self._trusting
        hub.projects = self.projects
        hub.browser_sessions.sign_outs = self.projects.sign_outs
        self.projects.sign_outs.announce = self.projects.announce_sign_out
        try:
            if file.exists():
                await adopt_policy_file(hub, policy)
            await FileGateway.open(hub)
        except BaseException:
            await hub.close()
            raise
        return hub

    def _call(self, function: Callable[..., None], *values: object) -> None:
        """Call a function on the event loop, from a thread."""
        try:
            self._loop.call_soon_threadsafe(function, *values)
        except RuntimeError:
            _log.debug("the event loop has ended")

    def _note_owner(self, project: str, seen: Seen) -> None:
        """Refuse the callers of a project that this hub waits for, unless its owner hands it over."""
        owner, problem = seen.owner, None
        if seen.failure:
            problem = refusal("E_HUB_007", f"the database cannot be reached: {seen.failure}", retry_after_s=1.0).problem
        elif owner is not None and not seen.taking_over and not self._hands_over(owner.address):
            problem = moved(project, owner.address if self.names_owners else "").problem
        if not self.projects.refuse(project, problem):
            return
        if seen.taking_over:
            _log.warning("this hub takes over project %s", project)
        elif owner is not None and not seen.failure and problem is not None:
            _log.warning(
                "project %s is served by %s, at %s: this hub stands by, and takes over when that hub stops",
                *(project, owner.hub, owner.address),
            )

    def _hands_over(self, address: str) -> bool:
        """Tell whether the hub at an address shares the projects, or has just left: it gives away what is not its own.

        Another one, such as a standby that has taken over, keeps its projects.
        """
        if address in self.members.addresses or address == self.members.own:
            return True
        return self._loop.time() < self._left.get(address, 0.0)

    def _see(self, members: list[Member]) -> None:
        before = self.members.addresses
        if self.members.see(members):
            now, hubs = self._loop.time(), self.config.hubs
            self._left = {address: until for address, until in self._left.items() if until > now}
            for address in set(before).difference(self.members.addresses):
                self._left[address] = now + hubs.lease_s + hubs.drain_s
            fields = {"before": before, "now": self.members.addresses}
            _log.info("the hubs that share the projects have changed", extra={"fields": fields})
            self.projects.reshare()
            if self.forwarder is not None:
                self.forwarder.reshare()

    def _replaced(self) -> None:
        if not self._stopped.done():
            self._stopped.set_result(
                f"another hub has registered with the address of this one, {self.members.own}: give each hub its own"
                " with hubs.address in server.yaml"
            )
