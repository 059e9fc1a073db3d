"""An agent that polls over HTTP."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2

from tests.acceptance.agents.base import LOOK_S, Driver, Letter, Refused
from tests.loopback import async_client
from tests.patience import PATIENCE_S


class HttpDriver(Driver):
    """Calls the HTTP gateway."""

    def __init__(self, agent: str, client: httpx2.AsyncClient) -> None:
        super().__init__(agent)
        self._client = client
        self._cursor = ""

    async def call(self, method: str, path: str, body: Any = None) -> Any:
        response = await self._client.request(method, path, json=body, headers={"Tocsin-Receipt": self._cursor})
        if response.status_code >= 400:
            raise Refused(response.json())
        return response.json()

    async def send(self, receiver: str, letter: Letter) -> dict[str, Any]:
        sent = await self.call("POST", "/v1/messages", letter.envelope(receiver))
        receipt: dict[str, Any] = sent.get("receipt", {})
        return receipt

    async def look(self) -> None:
        drained = await self.call("POST", "/v1/inbox/drain", {})
        self._cursor, found = drained["cursor"], drained["deliveries"]
        self.kept += [Letter.of(item["envelope"]) for item in found]
        if not found:
            await asyncio.sleep(LOOK_S)

    async def acknowledge(self, letter: Letter) -> None:
        await self.call("POST", f"/v1/messages/{letter.message_id}/ack", {"status": "received"})

    async def reject(self, letter: Letter, *, can_retry: bool) -> None:
        await self.call("POST", f"/v1/messages/{letter.message_id}/nack", {"reason": "no", "can_retry": can_retry})

    async def recall(self, message_id: str) -> str:
        return str((await self.call("POST", f"/v1/messages/{message_id}/recall"))["outcome"])


@asynccontextmanager
async def over_http(url: str, agent: str, token: str) -> AsyncIterator[HttpDriver]:
    """Attach an agent: its first drain opens its session."""
    headers = {"Authorization": f"Bearer {token}"}
    async with async_client(base_url=url, headers=headers, timeout=PATIENCE_S) as client:
        driver = HttpDriver(agent, client)
        await driver.look()
        yield driver
