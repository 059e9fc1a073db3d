"""A hub in this process with its real journal and gateways on loopback, and what fills it to its limits.

The hub runs on the event loop that is measured. Its callers run in threads, so that what they do is not counted. What
fills it goes to its host as commands, and is committed as any other.
"""

import asyncio
import gc
import http.client
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import msgspec

from bench.limits.meter import MeteredLoop
from tocsin.core import commands as cmd
from tocsin.core.commands import SYSTEM, Caller
from tocsin.core.errors import Problem
from tocsin.core.protocol.parsing import parse_envelope
from tocsin.fleet.assembly import project_app
from tocsin.fleet.home import open_projects
from tocsin.fleet.router import Router
from tocsin.gateways.http.server import QuietServer, listen, server_settings
from tocsin.hub.auth.sqlite_grants import SqliteGrants
from tocsin.hub.auth.tokens import Grant, fresh_secret, hash_of
from tocsin.hub.config import load_config
from tocsin.hub.service import Hub
from tocsin.policies import default_policy
from tocsin.wire.operation import Operation
from tocsin.wire.table import OPERATIONS

__all__ = ["BOSS", "PROJECT", "Call", "Ground", "ground_at"]

PROJECT = "limits"
BOSS = Caller("boss", "director")
#: Commands that are given to the host together while it is filled.
_TOGETHER = 1000
#: Time that a hub is left alone before and after a call, seconds.
_REST_S = 0.1
#: Something that callers do, in a thread.
Call = Callable[[], object]


class Ground:
    """A served project."""

    def __init__(self, hub: Hub, port: int, tokens: dict[str, str], size: float) -> None:
        self.hub = hub
        self.port = port
        self.tokens = tokens
        #: Share of the limits that is filled: 1, or less to try it.
        self.size = size
        self.numbers = count(1)
        #: What cases keep for later ones.
        self.kept: dict[str, Any] = {}

    @property
    def state(self) -> Any:
        """Return the live state."""
        return self.hub.host.exchange.state

    def some(self, number: int, least: int = 1) -> int:
        """Return a number at its limit, or a share of it."""
        return max(least, int(number * self.size))

    def envelope(self, recipient: str, sender: str = "boss", **more: Any) -> bytes:
        """Write an envelope."""
        number = next(self.numbers)
        draft = {
            "version": "1.1.0",
            "messageId": f"msg_limits_{number:08d}",
            "timestamp": "2026-03-02T10:00:00.000Z",
            "sender": {"agentId": sender, "type": "Manager"},
            "receiver": {"agentId": recipient, "type": "*"},
            "messageType": "CUSTOM_WORK",
            "priority": "Coordinate",
            "payload": {"n": number},
        }
        return msgspec.json.encode(draft | more)

    async def do(self, commands: Iterable[tuple[cmd.Command, Caller]]) -> list[Any]:
        """Let the host decide commands; a refusal ends the bench."""
        replies: list[Any] = []
        waiting: list[Awaitable[Any]] = []
        for command, caller in commands:
            waiting.append(self.hub.host.submit(command, caller))
            if len(waiting) >= _TOGETHER:
                replies += await asyncio.gather(*waiting)
                waiting.clear()
        replies += await asyncio.gather(*waiting)
        for reply in replies:
            if isinstance(reply, Problem):
                raise RuntimeError(f"{reply.code}: {reply.detail}")
        return replies

    async def one(self, command: cmd.Command, caller: Caller = BOSS) -> Any:
        """Let the host decide one command."""
        return (await self.do([(command, caller)]))[0]

    def send(self, recipient: str, sender: Caller = BOSS, **more: Any) -> tuple[cmd.Command, Caller]:
        """Return the command that sends a message."""
        return cmd.Send(parse_envelope(self.envelope(recipient, sender.agent, **more), 1 << 30)), sender

    async def agents(self, prefix: str, number: int, kind: str = "Implementation", role: str = "primary") -> None:
        """Register agents."""
        await self.do(
            (cmd.RegisterAgent(kind, ("1.1.0",)), Caller(f"{prefix}-{each:06d}", role)) for each in range(number)
        )

    def ask(self, name: str, caller: str = "boss", /, *, envelope: bytes | None = None, **arguments: Any) -> Call:
        """Return a call of an operation over HTTP."""
        operation = OPERATIONS[name]
        path, body = _target(operation, arguments, envelope)
        return self.request(operation.method, path, body, caller)

    def request(self, method: str, path: str, body: bytes | None = None, agent: str = "boss", most: int = 207) -> Call:
        """Return an HTTP request; an answer of a status above `most` ends the bench."""
        headers = {"Authorization": f"Bearer {self.tokens[agent]}", "Content-Type": "application/json"}

        def call() -> None:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
            try:
                connection.request(method, path, body, headers)
                answer = connection.getresponse()
                text = answer.read()
            finally:
                connection.close()
            if answer.status > most:
                raise RuntimeError(f"{method} {path[:200]}: {answer.status} {text[:400]!r}")

        return call

    async def rest(self) -> None:
        """Wait until nothing is due, and what has happened is durable and in the tables."""
        host = self.hub.host
        await self.until(lambda: (due := host.exchange.next_due()) is None or due > host.clock.now())
        await host.durable()
        await host.projected(host.committed_seq)
        await asyncio.sleep(_REST_S)

    async def let_pass(self, seconds: float) -> None:
        """Move the clock of the hub forward, and fire what is due by then, tick after tick as its timer does."""
        host = self.hub.host
        host.clock.advance(host.clock.now() + int(seconds * 1_000_000))
        while (due := host.exchange.next_due()) is not None and due <= host.clock.now():
            await self.one(cmd.Tick(), SYSTEM)

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until the live state is in some condition."""
        while not holds():
            await asyncio.sleep(0.01)


def _target(operation: Operation, arguments: dict[str, Any], envelope: bytes | None) -> tuple[str, bytes | None]:
    """Return the path, with its query, and the body of a call."""
    path, left = operation.path, dict(arguments)
    for name in arguments:
        if f"{{{name}}}" in path:
            path = path.replace(f"{{{name}}}", quote(str(left.pop(name)), safe=""))
    if operation.method in ("GET", "DELETE") or operation.takes_envelope:
        written = {name: str(value).lower() if isinstance(value, bool) else value for name, value in left.items()}
        return f"{path}?{urlencode(written)}" if written else path, envelope
    return path, envelope if envelope is not None else msgspec.json.encode(left)


@asynccontextmanager
async def ground_at(
    folder: Path, size: float, *, tokens: int = 0, names: tuple[str, ...] = (), **config: Any
) -> AsyncIterator[Ground]:
    """Serve a new project with the default policy; `names` are agents with a token, besides the director `boss`.

    Its token store has that many more tokens.
    """
    # A shared machine may take long to write.
    settings = load_config(
        port=0, store={"commit_timeout_s": 60, "query_timeout_s": 60, "batch_timeout_s": 60}, **config
    )
    gc.set_threshold(settings.collection_objects)
    given = _store_tokens(folder, names, tokens)
    hub = await Hub.open(folder, default_policy(), settings, project=PROJECT)
    listener = listen("127.0.0.1", 0)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(hub.close)
        app = await project_app(hub, stack)
        projects = await open_projects(hub, "")
        server = QuietServer(server_settings(Router(PROJECT, app, hub.authority, projects), settings), 0.1)
        serving = asyncio.ensure_future(server.serve(sockets=[listener]))
        ground = Ground(hub, listener.getsockname()[1], given, size)
        await ground.one(cmd.RegisterAgent("Manager", ("1.1.0",)))
        try:
            yield ground
        finally:
            hub.closing.set()
            server.stop()
            await serving
            listener.close()


def _store_tokens(folder: Path, names: tuple[str, ...], more: int) -> dict[str, str]:
    """Store tokens before the hub opens: of a director, an administrator, some agents, and many others."""
    folder.mkdir(parents=True, exist_ok=True)
    spelled: dict[str, str] = {}
    grants: list[Grant] = []
    for name in ("boss", "admin", *names):
        secret, role = fresh_secret(), {"boss": "director", "admin": "human"}.get(name, "primary")
        spelled[name] = secret.spell()
        grants.append(Grant(secret.token_id, PROJECT, name, role, name == "admin", hash_of(secret.secret), 1))
    grants += [
        Grant(f"{number:016x}", PROJECT, f"holder-{number // 8:06d}", "primary", False, bytes(32), number + 2)
        for number in range(more)
    ]
    store = SqliteGrants(folder, PROJECT)
    store.write(grants)
    store.close()
    return spelled


def metered() -> MeteredLoop:
    """Return the loop that this runs on."""
    loop = asyncio.get_running_loop()
    if not isinstance(loop, MeteredLoop):
        raise TypeError("the bench runs on another loop")
    return loop
