"""Where agents can be attached in tests: a bus in this process, or a real hub in a process of its own."""

# `type` is the name of an agent's type on every interface.
# ruff: noqa: A002

import asyncio
import contextlib
import io
import os
import re
import shutil
import signal
import tempfile
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

from tests.cli.processes import RunningHub
from tests.soak import tally
from tocsin.cli.remote import Refused, Remote
from tocsin.client import Agent, Message, SyncAgent, SyncMessage, client_config
from tocsin.client.agent import Connecting
from tocsin.client.connection.connection import Connection
from tocsin.client.connection.endpoint import transport_to
from tocsin.client.operation_caller import OperationCaller
from tocsin.hub.embedded import Tocsin
from tocsin.hub.sync_embedded import SyncTocsin
from tocsin.policies import parse_policy
from tocsin.wire.socket import Hello

POLICY = """
storage: {projection_interval_s: 0.02}
bucket: {capacity: 1000000, refill_per_s: 100000}
quotas: {critical: {cap: 1000, refill_per_s: 100}, blocking: {cap: 1000, refill_per_s: 100}}
contracts:
  CUSTOM_TRIED: {ack: required, timeout_s: 30, retries_max: 2, backoff_s: [0.01]}
"""
# However busy this machine is, it is nothing to be alarmed about: the hub does not measure itself here.
SERVER = "health_interval_s: 86400\nsocket: {sweep_interval_s: 0.1, resume_grace_s: 5}\n"
KINDS = ("embedded", "hub")


#: Tests at full length take as long as they take.
PATIENCE_S = 600 if os.environ.get("TOCSIN_SOAK") else 120


async def take_all(agent: Agent, count: int) -> list[Message]:
    """Take `count` messages, however slow the machine is, and what else comes in a moment."""
    taken = [message async for message in _first(agent.inbox(timeout_s=PATIENCE_S), count)]
    return taken + [message async for message in agent.inbox(timeout_s=0.1)]


async def _first(inbox: AsyncIterator[Message], count: int) -> AsyncIterator[Message]:
    for _ in range(count):
        yield await anext(inbox)


def take_all_sync(agent: SyncAgent, count: int) -> list[SyncMessage]:
    """Do the same with a synchronous agent."""
    return [*islice(agent.inbox(timeout_s=PATIENCE_S), count), *agent.inbox(timeout_s=0.1)]


class Ground(ABC):
    """A project, and how to attach to it."""

    @abstractmethod
    def join(self, name: str, role: str = "primary", type: str | None = "AdHoc", **more: Any) -> Connecting:
        """Attach an agent, registering it first; `config` changes what it goes by."""


class EmbeddedGround(Ground):
    """A bus in this process."""

    def __init__(self, bus: Tocsin) -> None:
        self.bus = bus

    def join(self, name: str, role: str = "primary", type: str | None = "AdHoc", **more: Any) -> Connecting:
        config = client_config(**more.pop("config", {}))
        return Agent.connect(self.bus, agent=name, role=role, type=type, config=config, **more)


class HubGround(Ground):
    """A hub in a process of its own."""

    def __init__(self, data: Path, *options: str) -> None:
        self.data = data
        self.options = options
        self.tokens: dict[str, str] = {}
        self.hub: RunningHub
        self.port = 0

    def start(self) -> None:
        self.hub = RunningHub(self.data, "--port", str(self.port), *self.options).__enter__()
        self.port = int(self.hub.url.rsplit(":", 1)[1])

    def kill(self) -> None:
        """End it as a power cut would."""
        tally("kills")
        self.hub.process.send_signal(signal.SIGKILL)
        self.hub.process.communicate(timeout=PATIENCE_S)

    @property
    def url(self) -> str:
        return self.hub.url

    @property
    def admin(self) -> Remote:
        return Remote(self.url, (self.data / "admin.token").read_text().strip())

    def token(self, name: str, role: str = "primary") -> str:
        if name not in self.tokens:
            body = {"agent": name, "role": role, "type": None}
            self.tokens[name] = self.admin.post("v1", "admin", "tokens", body=body)["token"]
        return self.tokens[name]

    def frames_in(self) -> int:
        """Return the number of frames that it has read."""
        shown = io.BytesIO()
        self.admin.download("metrics", to=shown)
        found = re.search(rb'socket_frames_total{direction="in"[^}]*} (\S+)', shown.getvalue())
        return 0 if found is None else int(float(found[1]))

    def clear(self) -> None:
        """Let everyone go who has joined, with all that waits for them."""
        for name in self.tokens:
            with contextlib.suppress(Refused):  # who never got as far as registering
                self.admin.call("DELETE", ("v1", "agents", name), None, {})
            self.admin.post("v1", "admin", "tokens", name, "revoke")
        self.tokens.clear()

    def join(self, name: str, role: str = "primary", type: str | None = "AdHoc", **more: Any) -> Connecting:
        config = client_config(backoff_first_s=0.02, backoff_max_s=0.2, **more.pop("config", {}))
        url, token = more.pop("url", self.url), self.token(name, role)
        return Agent.connect(url, token=token, type=type, config=config, **more)


class Shared:
    """The hub that tests share where any will do: starting one takes longer than most tests."""

    ground: HubGround | None = None

    @classmethod
    def start(cls) -> HubGround:
        if cls.ground is None:
            cls.ground = prepared(Path(tempfile.mkdtemp(prefix="tocsin-client-")), POLICY, SERVER)
            cls.ground.start()
        return cls.ground

    @classmethod
    def stop(cls) -> None:
        if cls.ground is not None:
            cls.ground.hub.stop()
            shutil.rmtree(cls.ground.data.parent)
            cls.ground = None


@asynccontextmanager
async def ground_of(kind: str, folder: Path, policy: str = POLICY) -> AsyncIterator[Ground]:
    if kind == "embedded":
        async with await Tocsin.open(folder / "team", policy=parse_policy(policy)) as bus:
            yield EmbeddedGround(bus)
    elif policy == POLICY:
        shared = await asyncio.to_thread(Shared.start)
        try:
            yield shared
        finally:
            await asyncio.to_thread(shared.clear)
    else:
        async with hub_ground(folder, policy) as ground:
            yield ground


@asynccontextmanager
async def calling(ground: Ground, name: str, role: str = "primary") -> AsyncIterator[OperationCaller]:
    """Attach a session of an agent that calls operations by name, those too for which the SDK has no method."""
    config = client_config()
    if isinstance(ground, HubGround):
        transport = transport_to(ground.url, ground.token(name, role), None, None, config)
    elif isinstance(ground, EmbeddedGround):
        transport = ground.bus.transport(name, role)
    connection = Connection(
        transport, config, lambda session: Hello(id=0, window=0, session=session), lambda _: None, lambda _: None
    )
    connection.deliver_to(lambda _: None)
    await connection.open()
    try:
        yield OperationCaller(connection, config.call_timeout_s)
    finally:
        await connection.close()


class SyncGround:
    """A project, and how code that does not await attaches to it."""

    def __init__(self, target: str | SyncTocsin, hub: HubGround | None = None) -> None:
        self.target = target
        self._hub = hub

    def join(self, name: str, role: str = "primary") -> SyncAgent:
        if self._hub is None:
            return SyncAgent.connect(self.target, agent=name, role=role, type="AdHoc")
        return SyncAgent.connect(self.target, token=self._hub.token(name, role), type="AdHoc")


@contextmanager
def sync_ground_of(kind: str, folder: Path) -> Iterator[SyncGround]:
    if kind == "embedded":
        with SyncTocsin.open(folder / "team", policy=parse_policy(POLICY)) as bus:
            yield SyncGround(bus)
    else:
        shared = Shared.start()
        try:
            yield SyncGround(shared.url, shared)
        finally:
            shared.clear()


def prepared(folder: Path, policy: str, server: str, *options: str) -> HubGround:
    data = folder / "team"
    data.mkdir()
    (data / "tocsin.yaml").write_text(policy, encoding="utf-8")
    (data / "server.yaml").write_text(server, encoding="utf-8")
    return HubGround(data, *options)


@asynccontextmanager
async def hub_ground(
    folder: Path, policy: str = POLICY, server: str = SERVER, options: tuple[str, ...] = ()
) -> AsyncIterator[HubGround]:
    ground = prepared(folder, policy, server, *options)
    ground.start()
    try:
        yield ground
    finally:
        ground.hub.stop()
