"""One worker of a hub: its share of the projects, and the home project if that is among them."""

import asyncio
import os
import signal
import socket
from collections.abc import Awaitable, Callable
from typing import TypeAlias

import msgspec

from tocsin.fleet.acceptor import Acceptor, Head
from tocsin.fleet.catalogue import Catalogue
from tocsin.fleet.home import Place, home_authority, projects_of
from tocsin.fleet.peers import Peers
from tocsin.fleet.placement import place
from tocsin.fleet.projects import Projects
from tocsin.hub.auth.verifier import FollowingAuthority
from tocsin.hub.config import ServerConfig

__all__ = [
    "WORKER_ENVIRONMENT",
    "Share",
    "WorkerSockets",
    "WorkerWithoutHome",
    "accepting",
    "accepting_alone",
    "inherited",
    "tell_ready",
]

Forward: TypeAlias = Callable[[socket.socket, Head], Awaitable[bool]]

#: Environment variable that tells a process that it is a worker, and its sockets.
WORKER_ENVIRONMENT = "TOCSIN_WORKER"


class WorkerSockets(msgspec.Struct, frozen=True):
    """File descriptors that a worker inherits from its supervisor."""

    #: Its number, from 0.
    worker: int
    #: The port that all workers share.
    listener: int
    #: Connections that other workers pass on.
    received: int
    #: For each worker, where connections for it are sent.
    others: list[int]
    #: A byte is written here once the worker serves.
    ready: int
    #: Ends when the supervisor does.
    supervisor: int


def inherited() -> WorkerSockets | None:
    """Return the sockets of this process if it is a worker."""
    text = os.environ.pop(WORKER_ENVIRONMENT, None)
    return None if text is None else msgspec.json.decode(text, type=WorkerSockets)


def tell_ready(sockets: WorkerSockets) -> None:
    """Tell the supervisor that this worker serves, and end together with it from now on."""
    os.write(sockets.ready, b"r")
    os.close(sockets.ready)
    loop = asyncio.get_running_loop()

    def ended() -> None:
        loop.remove_reader(sockets.supervisor)
        os.kill(os.getpid(), signal.SIGTERM)

    loop.add_reader(sockets.supervisor, ended)


class Share:
    """The share of one worker in the projects: by rendezvous hashing, so that all workers agree."""

    def __init__(self, worker: int, workers: int, home: str) -> None:
        self.worker = worker
        self._names = [f"worker {number}" for number in range(workers)]
        self._home = home

    def worker_of(self, project: str | None) -> int:
        """Return the worker of a project; null is the home project."""
        return self._names.index(place(project or self._home, self._names))

    def is_own(self, project: str) -> bool:
        """Tell whether this worker serves a project."""
        return self.worker_of(project) == self.worker

    @property
    def has_home(self) -> bool:
        """Tell whether this worker serves the home project."""
        return self.is_own(self._home)


async def accepting(
    sockets: WorkerSockets,
    share: Share,
    catalogue: Catalogue,
    config: ServerConfig,
    served: Projects,
    forward: Forward | None = None,
) -> tuple[Acceptor, Peers]:
    """Return what accepts the connections of a worker, and what reaches the other workers.

    `forward` takes connections for other hubs.
    """
    projects: dict[str, str] = {}
    others = {number: socket.socket(fileno=fd) for number, fd in enumerate(sockets.others) if number != sockets.worker}
    peers = Peers(others, share.worker_of, config.projects.worker_timeout_s)
    served.observation.worker, served.observation.peers = share.worker, peers

    def worker_of(head: Head) -> int:
        project = None if head.token_id is None else projects.get(head.token_id)
        if head.token_id is not None and project is None:
            project = catalogue.project_of(head.token_id)
            if project is not None:
                projects[head.token_id] = project
        if project is None and head.named is not None and catalogue.find(head.named) is not None:
            project = head.named
        return share.worker_of(project)

    acceptor = Acceptor(
        socket.socket(fileno=sockets.listener),
        socket.socket(fileno=sockets.received),
        others,
        sockets.worker,
        worker_of,
        head_timeout_s=config.head_timeout_s,
        waiting_max=config.connections_max,
        answer=served.answer,
        forward=forward,
    )
    return acceptor, peers


def accepting_alone(listener: socket.socket, config: ServerConfig, served: Projects, forward: Forward) -> Acceptor:
    """Return what accepts the connections of a hub without workers that passes some on."""
    return Acceptor(
        listener,
        None,
        {},
        0,
        lambda head: 0,
        head_timeout_s=config.head_timeout_s,
        waiting_max=config.connections_max,
        answer=served.answer,
        forward=forward,
    )


class WorkerWithoutHome:
    """A worker that serves other projects than the home project."""

    def __init__(self, config: ServerConfig, projects: Projects, authority: FollowingAuthority) -> None:
        self.config = config
        self.closing = asyncio.Event()
        self.projects = projects
        self.authority = authority

    @classmethod
    async def open(cls, at: Place, share: Share, catalogue: Catalogue, *, trusting: bool) -> "WorkerWithoutHome":
        """Begin to serve this worker's share of the projects."""
        authority = await asyncio.to_thread(home_authority, at)
        projects = await projects_of(at, authority, trusting=trusting, catalogue=catalogue, is_own=share.is_own)
        return cls(at.config, projects, authority)

    async def stopped(self) -> str:
        """Wait until it cannot serve any more: never, because its projects stop one by one."""
        await asyncio.Event().wait()
        return ""

    async def drain(self) -> None:
        """Close the projects, so that their callers are told."""
        await self.projects.close_projects()

    async def close(self) -> None:
        """Close the projects."""
        self.closing.set()
        await self.projects.close()
        self.authority.close()
