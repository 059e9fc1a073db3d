"""Creating and serving a project in this process."""

import asyncio
import gc
import logging
import socket
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, NamedTuple

from starlette.routing import BaseRoute

from tocsin.cli.output import fail, say
from tocsin.cli.remote import Exit
from tocsin.cli.storage import explained
from tocsin.core.errors import TocsinError
from tocsin.core.policy import Policy
from tocsin.gateways.dashboard import gateway as dashboard
from tocsin.gateways.dashboard.gateway import DashboardGateway
from tocsin.gateways.endpoints import Endpoint
from tocsin.gateways.feed import FeedGateway
from tocsin.gateways.files.gateway import FileGateway
from tocsin.gateways.http.app import build_app
from tocsin.gateways.http.server import CannotListen, PortTaken, listen, serve
from tocsin.gateways.websocket import gateway as websocket
from tocsin.gateways.websocket.gateway import SocketGateway
from tocsin.hub.config import ServerConfig, is_loopback, load_config
from tocsin.hub.observability.logs import log_to_stderr
from tocsin.hub.policy_file import adopt_policy_file
from tocsin.hub.service import Hub, UnknownStore, check_store, hub_address, hub_name, is_postgres
from tocsin.journal.errors import JournalError, ProjectBusy
from tocsin.policies import POLICY_FILE, default_policy, load_policy

__all__ = ["initialise", "neighbours", "run_hub"]

_log = logging.getLogger("tocsin.hub")
_POLICY = """\
# The policy of this project: only the settings that differ from the defaults. `tocsin policy check` finds mistakes.
# aging: {threshold_s: 60}
"""
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


def run_hub(
    data: Path, project: str, store: str, *, trusting: bool, log_level: str, standby: bool = False, **changes: Any
) -> None:
    """Serve a project until the process is asked to stop."""
    with _startup_errors("the hub cannot start"):
        check_store(store)
    if standby and not is_postgres(store):
        raise fail("--standby needs --store postgresql://…: a SQLite project belongs to one machine", Exit.USAGE)
    log_to_stderr(log_level)

    async def run() -> str:
        config = load_config(data / "server.yaml", **changes)
        if trusting and not is_loopback(config.address):
            raise fail(f"--insecure-loopback serves loopback only, not {config.address}", Exit.USAGE)
        listener = listen(config.address, config.port)
        # Other hubs are given the port that was bound.
        config = load_config(data / "server.yaml", **(changes | {"port": listener.getsockname()[1]}))
        try:
            hub = await _opened(data, config, project, store, listener, standby=standby)
        except BaseException:
            listener.close()
            raise
        if hub is None:
            listener.close()
            return ""
        hub.trusting = trusting
        try:
            if (data / POLICY_FILE).exists():
                await adopt_policy_file(hub, _policy(data))
            await FileGateway.open(hub)
        except BaseException:
            listener.close()
            await hub.close()
            raise

        def started() -> None:
            _tune(config)
            address, port = listener.getsockname()[:2]
            say(f"serving project {project} at http://{address}:{port}")
            if hub.first_token is not None:
                say(f"admin token: {hub.first_token}")
            if trusting:
                say("INSECURE: callers on this machine are not authenticated")

        async with AsyncExitStack() as gateways:
            try:
                beside = await neighbours(hub, gateways)
            except BaseException:
                listener.close()
                await hub.close()
                raise
            return await serve(hub, build_app(hub, beside=beside.routes, described=beside.endpoints), listener, started)

    with _startup_errors("the hub cannot start"), asyncio.Runner(loop_factory=_loop()) as runner:
        reason = runner.run(run())
    if reason:
        raise fail(f"the hub stopped: {reason}", Exit.FAILED)


def _tune(config: ServerConfig) -> None:
    """Tune the interpreter for low latency.

    Objects that exist before the first request live until the end, so the garbage collector skips them: a full
    collection would stop the hub for tens of milliseconds. A short switch interval lets the thread of a finished
    commit run soon, on which all callers of that commit wait.
    """
    gc.collect()
    gc.freeze()
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

    _load_mcp()  # A takeover must not wait for the import.
    waiting = Standby(store, project, policy, hub=hub_name(), address=hub_address(config), config=config)
    opening = Hub.open(data, policy, config, project=project, store=store, standby=waiting)

    def started() -> None:
        say(f"standing by for project {project} at http://{config.address}:{config.port}")

    return await stand_by(opening, listener, config, lambda: waiting.seen, started)


class Neighbours(NamedTuple):
    """Routes of the gateways beside HTTP, and the description of their endpoints."""

    routes: list[BaseRoute]
    endpoints: list[Endpoint]


async def neighbours(hub: Hub, gateways: AsyncExitStack) -> Neighbours:
    """Open the gateways beside HTTP for as long as the context lasts."""
    routes = [*SocketGateway(hub).routes(), *FeedGateway(hub).routes(), *DashboardGateway(hub).routes()]
    mcp = await _mcp(hub, gateways)
    return Neighbours(
        routes=[*routes, *mcp.routes], endpoints=[*websocket.ENDPOINTS, *dashboard.ENDPOINTS, *mcp.endpoints]
    )


async def _mcp(hub: Hub, gateways: AsyncExitStack) -> Neighbours:
    """Open the MCP gateway if its library is installed."""
    mount = _load_mcp()
    if mount is None:
        _log.info("no MCP: pip install 'tocsin[mcp]'")
        return Neighbours([], [])
    return Neighbours([await gateways.enter_async_context(mount.mcp_route(hub))], list(mount.ENDPOINTS))


def _load_mcp() -> Any:
    """Import the MCP gateway, or return null where its library is not installed."""
    try:
        from tocsin.gateways.mcp import mount
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("tocsin"):
            raise
        return None
    return mount


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
