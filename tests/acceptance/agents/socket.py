"""An agent on a WebSocket, speaking frames."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from websockets.asyncio.client import connect

from tests.acceptance.agents.base import PATIENCE_S, Driver, Letter, Refused
from tests.gateways.websocket.sockets import SUBPROTOCOL, Client


class SocketDriver(Driver):
    """Is pushed to, and confirms what it is pushed."""

    def __init__(self, agent: str, client: Client) -> None:
        super().__init__(agent)
        self.client = client

    async def _ask(self, op: str, **fields: Any) -> Any:
        answer = await self.client.one(op, **fields)
        if "problem" in answer:
            raise Refused(answer["problem"])
        return answer["ok"]

    async def send(self, receiver: str, letter: Letter) -> dict[str, Any]:
        sent = await self._ask("send_message", envelope=letter.envelope(receiver))
        receipt: dict[str, Any] = sent.get("receipt", {})
        return receipt

    async def look(self) -> None:
        pushed = await asyncio.wait_for(self.client.pushes.get(), PATIENCE_S)
        self.kept.append(Letter.of(pushed["envelope"]))
        await self._ask("confirm_messages", message_ids=[pushed["signal_id"]])

    async def acknowledge(self, letter: Letter) -> None:
        await self._ask("acknowledge_message", message_id=letter.message_id)

    async def reject(self, letter: Letter, *, can_retry: bool) -> None:
        await self._ask("reject_message", message_id=letter.message_id, reason="no", can_retry=can_retry)

    async def recall(self, message_id: str) -> str:
        return str((await self._ask("recall_message", message_id=message_id))["outcome"])


@asynccontextmanager
async def over_socket(url: str, agent: str, token: str) -> AsyncIterator[SocketDriver]:
    """Attach an agent, and say goodbye in the end."""
    address = url.replace("http://", "ws://") + "/v1/socket"
    headers = {"Authorization": f"Bearer {token}"}
    subprotocols: Any = [SUBPROTOCOL]
    async with connect(address, additional_headers=headers, subprotocols=subprotocols, compression=None) as socket:
        client = Client(socket)
        await client.hello()
        yield SocketDriver(agent, client)
        await client.one("bye")
        await socket.close()
        await client.closed()
