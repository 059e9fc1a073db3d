"""A hub on a loopback port for tests, and clients that exchange frames with it over real sockets."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import websockets
from websockets.asyncio.client import ClientConnection, connect

from tests.envelopes import envelope
from tests.gateways.hubs import QUICK, HubTeam, register_usual
from tests.loopback import async_client
from tests.patience import PATIENCE_S
from tocsin.gateways.feed import FeedGateway
from tocsin.gateways.http.app import build_app
from tocsin.gateways.http.server import QuietServer, listen, server_settings
from tocsin.gateways.websocket.gateway import SocketGateway
from tocsin.hub.config import load_config
from tocsin.hub.observability.counters import Counts
from tocsin.hub.service import Hub
from tocsin.policies import parse_policy

__all__ = ["Client", "SocketTeam", "envelope", "socket_team"]

SUBPROTOCOL = "tocsin.v1"
#: Frequent sweeps, so that tests do not wait for them; on a busy machine nobody is sent away for being slow.
SOCKET = {"sweep_interval_s": 0.02, "hello_timeout_s": PATIENCE_S}


class Client:
    """One socket of one agent: sends frames, and sorts the items that it receives."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self.pushes: asyncio.Queue[Any] = asyncio.Queue()
        self.loose: asyncio.Queue[Any] = asyncio.Queue()
        #: Every frame that was received, as a list of items.
        self.frames: list[list[Any]] = []
        self.bye: Any = None
        self.welcome: Any = None
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._next = 0
        self._reader = asyncio.create_task(self._read())

    async def _read(self) -> None:
        with contextlib.suppress(websockets.ConnectionClosed):
            async for text in self.socket:
                items = json.loads(text)
                self.frames.append(items)
                for item in items:
                    self._sort(item)
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(ConnectionError("the socket is closed"))
                answer.exception()

    def _sort(self, item: Any) -> None:
        if "deliver" in item:
            self.pushes.put_nowait(item["deliver"])
        elif "bye" in item:
            self.bye = item["bye"]
        elif item["re"] in self._answers:
            answer = self._answers.pop(item["re"])
            if not answer.cancelled():
                answer.set_result(item)
        else:
            self.loose.put_nowait(item)

    def numbered(self, *operations: dict[str, Any]) -> tuple[str, list["asyncio.Future[Any]"]]:
        """Give operations ids, and return them as a frame with the futures of their answers."""
        futures = []
        for operation in operations:
            self._next += 1
            operation["id"] = self._next
            futures.append(asyncio.get_running_loop().create_future())
            self._answers[self._next] = futures[-1]
        return json.dumps(operations, separators=(",", ":")), futures

    async def ask(self, *operations: dict[str, Any]) -> list[Any]:
        """Send one frame and wait for all its answers."""
        text, futures = self.numbered(*operations)
        await self.raw(text)
        return await asyncio.gather(*futures)

    async def one(self, op: str, **fields: Any) -> Any:
        """Send one operation and return its answer."""
        (answer,) = await self.ask({"op": op, **fields})
        return answer

    async def ok(self, op: str, **fields: Any) -> Any:
        answer = await self.one(op, **fields)
        assert "ok" in answer, answer
        return answer["ok"]

    async def refused(self, op: str, **fields: Any) -> Any:
        answer = await self.one(op, **fields)
        assert "problem" in answer, answer
        return answer["problem"]

    async def raw(self, data: str | bytes) -> None:
        try:
            await self.socket.send(data)
        except websockets.ConnectionClosed:
            raise ConnectionError("the socket is closed") from None

    async def hello(self, **fields: Any) -> Any:
        self.welcome = await self.ok("hello", **fields)
        return self.welcome

    async def send(self, number: int, **changes: Any) -> Any:
        return (await self.ok("send_message", envelope=envelope(number, **changes)))["receipt"]

    async def take(self, count: int = 1) -> list[str]:
        """Wait for pushes, and return their signal ids."""
        return [(await self.pushes.get())["signal_id"] for _ in range(count)]

    async def confirm(self, *signal_ids: str) -> Any:
        return await self.ok("confirm_messages", message_ids=list(signal_ids))

    async def closed(self) -> int:
        """Wait until the socket is closed, and return the code."""
        await asyncio.wait({self._reader})
        await self.socket.wait_closed()
        return self.socket.close_code or 0

    def cut(self) -> None:
        """Drop the connection without closing it, as a crash or a network failure does."""
        self.socket.transport.abort()


class SocketTeam(HubTeam):
    """A team whose hub listens on a port."""

    def __init__(self, hub: Hub, client: httpx2.AsyncClient, port: int, server: QuietServer) -> None:
        super().__init__(hub, client)
        self.port = port
        self.server = server
        self._open: list[Client] = []

    async def open(self, agent: str, *, token: str | None = None, **options: Any) -> Client:
        """Open a socket without a hello."""
        headers = {"Authorization": f"Bearer {token or self.tokens[agent]}"}
        options = {"max_size": None, "compression": None, "ping_interval": None, **options}
        socket = await connect(
            f"ws://127.0.0.1:{self.port}/v1/socket",
            additional_headers=headers,
            subprotocols=[SUBPROTOCOL],  # type: ignore[list-item]
            **options,
        )
        client = Client(socket)
        self._open.append(client)
        return client

    async def attach(self, agent: str, **hello: Any) -> Client:
        """Open a socket and send hello."""
        client = await self.open(agent)
        await client.hello(**hello)
        return client

    async def refused(self, agent: str, **options: Any) -> tuple[int, Any]:
        """Expect a handshake to be refused, and return status and problem."""
        try:
            await self.open(agent, **options)
        except websockets.InvalidStatus as error:
            return error.response.status_code, json.loads(error.response.body or b"{}")
        raise AssertionError("the handshake was accepted")

    def metric(self, name: str, *labels: str) -> int:
        """Return the value of one of the hub's metrics."""
        metric = getattr(self.hub.metrics, name)
        if isinstance(metric, Counts):
            return metric.of(*labels).value
        (found,) = metric.collect()
        return int(found.samples[0].value)

    async def close_all(self) -> None:
        for client in self._open:
            client.cut()
            await client.closed()


@contextlib.asynccontextmanager
async def socket_team(path: Path, policy: str = QUICK, **config: Any) -> AsyncIterator[SocketTeam]:
    """Serve a project on a port, with ada, bob and a director registered."""
    settings = load_config(**{**config, "socket": {**SOCKET, **config.get("socket", {})}})
    hub = await Hub.open(path / "data", parse_policy(policy), settings, project="team")
    app = build_app(hub, beside=[*SocketGateway(hub).routes(), *FeedGateway(hub).routes()])
    listener = listen("127.0.0.1", 0)
    server = QuietServer(server_settings(app, settings))
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    port = listener.getsockname()[1]
    async with async_client(base_url=f"http://127.0.0.1:{port}") as client:
        team = SocketTeam(hub, client, port, server)
        try:
            await register_usual(team)
            yield team
        finally:
            await team.close_all()
            hub.closing.set()
            server.stop()
            await serving
            await hub.close()
