"""Creating and serving a project in this process."""

import asyncio
import gc
import os
import socket
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import typer

from tocsin.cli.context import HERE
from tocsin.cli.output import fail, say
from tocsin.cli.remote import Exit
from tocsin.cli.storage import explained
from tocsin.cli.style import is_terminal
from tocsin.core.errors import TocsinError
from tocsin.core.policy import Policy
from tocsin.fleet.acceptor import Acceptor
from tocsin.fleet.assembly import project_app
from tocsin.fleet.home import Place, default_workers, open_projects
from tocsin.fleet.memory import return_large_blocks
from tocsin.fleet.router import Relay, Router
from tocsin.fleet.supervisor import Supervisor
from tocsin.fleet.worker import (
    Share,
    WorkerSockets,
    WorkerWithoutHome,
    accepting,
    accepting_alone,
    inherited,
    tell_ready,
)
from tocsin.gateways.files.gateway import FileGateway
from tocsin.gateways.http.server import CannotListen, PortTaken, listen, serve
from tocsin.hub.config import ServerConfig, is_loopback, load_config
from tocsin.hub.hosting.time_slice import request_time_slice
from tocsin.hub.observability.logs import log_to_stderr
from tocsin.hub.policy_file import adopt_policy_file
from tocsin.hub.service import Hub, UnknownStore, check_store, hub_address, hub_name, is_postgres
from tocsin.journal.errors import JournalError, ProjectBusy
from tocsin.policies import POLICY_FILE, default_policy, load_policy

__all__ = ["CLOSE_S", "check_port", "initialise", "run_hub"]

#: Time for a worker to close its projects, beside that for its connections, seconds.
CLOSE_S = 10.0
_POLICY = """\
# The policy of this project: only the settings that differ from the defaults. `tocsin policy check` finds mistakes.
# aging: {threshold_s: 60}
"""
#: What a person at a terminal is told once the hub serves.
_NEXT = """\
next, in another terminal:
  tocsin {here}dashboard                  a link to the dashboard
  tocsin {here}agents add ada --save      an agent and its token
  tocsin {here}top                        what happens
Ctrl-C stops the hub."""
_SERVER = """\
# Settings of this hub: only those that differ from the defaults.
# port: 7077
"""


def _loop() -> Any:
    try:
        import uvloop
    except ModuleNotFoundError:
        return None
    return uvloop.new_event_loop


def _policy(data: Path) -> Policy:
    return load_policy(data / POLICY_FILE) if (data / POLICY_FILE).exists() else default_policy()


def initialise(data: Path, project: str, store: str) -> Path | None:
    """Create a project's directory and files; return the file of the admin token, if it was created now."""

    async def once() -> Path | None:
        check_store(store)
        data.mkdir(parents=True, exist_ok=True, mode=0o700)
        for name, text in (("tocsin.yaml", _POLICY), ("server.yaml", _SERVER)):
            if not (data / name).exists():
                (data / name).write_text(text, encoding="utf-8")
        hub = await Hub.open(data, _policy(data), load_config(data / "server.yaml"), project=project, store=store)
        await hub.close()
        return hub.first_token

    with _startup_errors("the project cannot be created"):
        return asyncio.run(once())


def check_port(port: int | None) -> None:
    """End the command if a hub with the default settings could not listen on a port."""
    with _startup_errors("the hub cannot start"):
        config = load_config(None, port=port)
        listen(config.address, config.port).close()


def run_hub(
    data: Path,
    project: str,
    store: str,
    *,
    trusting: bool,
    log_level: str,
    standby: bool = False,
    workers: int | None = None,
    proxy: bool = False,
    ready: Callable[[str], None] | None = None,
    **changes: Any,
) -> None:
    """Serve the projects of a folder or database until the process is asked to stop.

    One process that serves calls `ready` with the URL once it does; it then does not tell what to do next.
    """
    with _startup_errors("the hub cannot start"):
        check_store(store)
    if standby and not is_postgres(store):
        raise fail("--standby needs --store postgresql://…: a SQLite project belongs to one machine", Exit.USAGE)
    if standby and workers not in (None, 1):
        raise fail("--standby serves with one process: leave --workers out", Exit.USAGE)
    if proxy and (standby or not is_postgres(store)):
        raise fail("--proxy is for hubs that share the projects of --store postgresql://…", Exit.USAGE)
    log_to_stderr(log_level)
    sockets = inherited()
    with _startup_errors("the hub cannot start"):
        config = load_config(data / "server.yaml", **changes)
        if trusting and not is_loopback(config.address):
            raise fail(f"--insecure-loopback serves loopback only, not {config.address}", Exit.USAGE)
        count = 1 if standby else workers or default_workers(Place(data, project, store, config))
        if count > 1 and sockets is None:
            raise typer.Exit(_supervise(listen(config.address, config.port), count, config))
        if sockets is None:
            listener = listen(config.address, config.port)
        else:
            listener = socket.socket(fileno=os.dup(sockets.listener))
        # Other hubs are given the port that was bound.
        config = load_config(data / "server.yaml", **(changes | {"port": listener.getsockname()[1]}))
        place = Place(data, project, store, config)
        share = None if sockets is None else Share(sockets.worker, len(sockets.others), project)
        request_time_slice(config.time_slice_s)  # Before there are other threads, which take it over.
        with asyncio.Runner(loop_factory=_loop()) as runner:
            if is_postgres(store) and not standby:
                serving = _serve_shared(place, listener, sockets, trusting=trusting, proxy=proxy, ready=ready)
            elif sockets is None or share is None or share.has_home:
                serving = _serve_home(place, listener, trusting=trusting, standby=standby, sockets=sockets, ready=ready)
            else:
                serving = _serve_others(place, listener, share, sockets, trusting=trusting)
            try:
                reason = runner.run(serving)
            finally:
                listener.close()
    if reason:
        raise fail(f"the hub stopped: {reason}", Exit.FAILED)


def _supervise(listener: socket.socket, workers: int, config: ServerConfig) -> int:
    """Serve with several processes; return an exit code."""

    def started() -> None:
        address, port = listener.getsockname()[:2]
        say(f"serving at http://{address}:{port} with {workers} workers")

    command = [sys.executable, "-m", "tocsin", *sys.argv[1:]]
    return Supervisor(command, listener, workers).run(started, 2 * config.shutdown_timeout_s + CLOSE_S)


async def _serve_home(
    place: Place,
    listener: socket.socket,
    *,
    trusting: bool,
    standby: bool,
    sockets: WorkerSockets | None,
    ready: Callable[[str], None] | None = None,
) -> str:
    """Serve the home project and others; return why it stopped by itself."""
    data, config, project, store = place.data, place.config, place.home, place.store
    hub = await _opened(data, config, project, store, listener, standby=standby)
    if hub is None:
        return ""
    hub.trusting = trusting
    try:
        if (data / POLICY_FILE).exists():
            await adopt_policy_file(hub, _policy(data))
        await FileGateway.open(hub)
    except BaseException:
        await hub.close()
        raise

    def started() -> None:
        _tune(config)
        address, port = listener.getsockname()[:2]
        if sockets is None:
            say(f"serving project {project} at http://{address}:{port}")
        else:
            tell_ready(sockets)
        if hub.first_token is not None:
            say(f"admin token: {hub.first_token}")
        if trusting:
            say("INSECURE: callers on this machine are not authenticated")
        if ready is not None:
            ready(f"http://{address}:{port}")
        elif is_terminal():
            here = "" if data == HERE else f"--data {data} "
            say(_NEXT.format(here=here), "dim")

    async with AsyncExitStack() as gateways:
        try:
            app = await project_app(hub, gateways)
            share = None if sockets is None else Share(sockets.worker, len(sockets.others), project)
            is_own = (lambda name: True) if share is None else share.is_own
            catalogue = await asyncio.to_thread(place.catalogue)
            projects = await open_projects(hub, store, catalogue, is_own)
            if sockets is None or share is None:
                router = Router(project, app, hub.authority, projects, trusting=trusting)
                return await serve(hub, router, listener, started)
            acceptor, peers = await accepting(sockets, share, catalogue, config, projects)
            router = Router(project, app, hub.authority, projects, trusting=trusting, is_own=is_own, relay=peers.relay)
        except BaseException:
            await hub.close()
            raise
        return await serve(hub, router, listener, started, acceptor.start)


async def _serve_others(
    place: Place, listener: socket.socket, share: Share, sockets: WorkerSockets, *, trusting: bool
) -> str:
    """Serve a share of the projects without the home project; return why it stopped by itself."""
    catalogue = await asyncio.to_thread(place.catalogue)
    worker = await WorkerWithoutHome.open(place, share, catalogue, trusting=trusting)
    acceptor, peers = await accepting(sockets, share, catalogue, place.config, worker.projects)
    router = Router(
        place.home,
        None,
        worker.authority,
        worker.projects,
        trusting=trusting,
        is_own=share.is_own,
        relay=peers.relay,
    )

    def started() -> None:
        _tune(place.config)
        tell_ready(sockets)

    return await serve(worker, router, listener, started, acceptor.start)


async def _serve_shared(
    place: Place,
    listener: socket.socket,
    sockets: WorkerSockets | None,
    *,
    trusting: bool,
    proxy: bool,
    ready: Callable[[str], None] | None = None,
) -> str:
    """Serve this hub's share of the projects of a database; return why it stopped by itself."""
    from tocsin.fleet.sharing import SharingHub  # its driver is optional

    share = None if sockets is None else Share(sockets.worker, len(sockets.others), place.home)
    is_worker_own = (lambda name: True) if share is None else share.is_own
    catalogue = await asyncio.to_thread(place.catalogue)
    hub = await SharingHub.open(
        place,
        catalogue,
        trusting=trusting,
        is_worker_own=is_worker_own,
        registers=sockets is None or sockets.worker == 0,
        proxies=proxy,
    )
    forward = None if hub.forwarder is None else hub.forwarder.take
    acceptor: Acceptor | None = None
    relay: Relay | None = None
    try:
        home = await hub.home()
        if sockets is not None and share is not None:
            acceptor, peers = await accepting(sockets, share, catalogue, place.config, hub.projects, forward)
            relay = peers.relay
        elif forward is not None:
            acceptor = accepting_alone(listener, place.config, hub.projects, forward)
    except BaseException:
        await hub.close()
        raise
    router = Router(
        place.home, None, hub.authority, hub.projects, trusting=trusting, is_own=is_worker_own, relay=relay, sharing=hub
    )

    def started() -> None:
        _tune(place.config)
        address, port = listener.getsockname()[:2]
        if sockets is not None:
            tell_ready(sockets)
        else:
            say(f"serving project {place.home} at http://{address}:{port}")
        others = [one for one in hub.members.addresses if one != hub.members.own]
        if others:
            say(f"sharing the projects with {', '.join(others)}")
        if home is not None and home.first_token is not None:
            say(f"admin token: {home.first_token}")
        if trusting:
            say("INSECURE: callers on this machine are not authenticated")
        if ready is not None:
            ready(f"http://{address}:{port}")

    return await serve(hub, router, listener, started, None if acceptor is None else acceptor.start)


def _tune(config: ServerConfig) -> None:
    """Tune the interpreter for low latency.

    Objects that exist before the first request live until the end, so the garbage collector skips them: a full
    collection would stop the hub for tens of milliseconds. It looks at new ones less often than by default, which would
    take half the time of parsing a body that is mostly brackets. A short switch interval lets the thread of a finished
    commit run soon, on which all callers of that commit wait. Threads that wait for a disk or a database need no
    processor, so there are more of them than asyncio's default allows on a machine with few cores. The memory of large
    payloads is returned to the system when they are gone.
    """
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(config.threads_max, "tocsin"))
    return_large_blocks(config.returned_block_bytes_min)
    gc.collect()
    gc.freeze()
    gc.set_threshold(config.collection_objects)
    sys.setswitchinterval(config.switch_interval_s)


async def _opened(
    data: Path, config: ServerConfig, project: str, store: str, listener: socket.socket, *, standby: bool
) -> Hub | None:
    """Open the project, or stand by until it is free; return None if the process was asked to stop meanwhile."""
    policy = _policy(data)
    if not standby:
        return await Hub.open(data, policy, config, project=project, store=store)
    from tocsin.gateways.http.standby import stand_by
    from tocsin.hub.ownership import Standby

    waiting = Standby(store, project, policy, hub=hub_name(), address=hub_address(config), config=config)
    opening = Hub.open(data, policy, config, project=project, store=store, standby=waiting)

    def started() -> None:
        say(f"standing by for project {project} at http://{config.address}:{config.port}")

    return await stand_by(opening, listener, config, lambda: waiting.seen, started)


class _startup_errors:  # noqa: N801
    """Turn the errors that prevent a hub from starting into a message and an exit code."""

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None:
        """Begin."""

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        """Print the error."""
        if isinstance(error, PortTaken):
            raise fail(f"{error}. Another hub? Choose one with --port.", Exit.PORT_TAKEN) from None
        if isinstance(error, CannotListen):
            raise fail(f"{error}.", Exit.USAGE) from None
        if isinstance(error, UnknownStore):
            raise fail(f"--store: {error}.", Exit.USAGE) from None
        if isinstance(error, ProjectBusy):
            raise fail(f"{error}. Stop it, or serve another project or --data.", Exit.PROJECT_OWNED) from None
        if isinstance(error, ModuleNotFoundError) and error.name is not None and not error.name.startswith("tocsin"):
            raise fail(f"this needs {error.name}: pip install 'tocsin[postgres]'", Exit.FAILED) from None
        if isinstance(error, JournalError):
            raise fail(f"{self._what}: {explained(error)}", Exit.FAILED) from None
        if isinstance(error, TocsinError | OSError | UnicodeDecodeError):
            raise fail(f"{self._what}: {error}", Exit.FAILED) from None
