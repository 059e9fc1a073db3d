"""An agent that knows nothing but files."""

import asyncio
import json
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.acceptance.agents.base import LOOK_S, PATIENCE_S, Driver, Letter, Refused


class FileDriver(Driver):
    """Appends lines, and reads those that the hub vouches for."""

    def __init__(self, agent: str, root: Path) -> None:
        super().__init__(agent)
        self.root = root
        self._read: dict[Path, int] = {}
        self._receipts: dict[str, dict[str, Any]] = {}

    def append(self, receiver: str, envelope: dict[str, Any]) -> None:
        folder = self.root / f"{self.agent}_to_{receiver}"
        folder.mkdir(exist_ok=True)
        with (folder / "messages.ndjson").open("a") as file:
            file.write(json.dumps(envelope) + "\n")

    async def send(self, receiver: str, letter: Letter) -> dict[str, Any]:
        self.append(receiver, letter.envelope(receiver))
        told = await self._receipt(letter.message_id)
        found: dict[str, Any] = told.get("receipt", {})
        return found

    async def look(self) -> None:
        found = False
        for folder in self.root.glob(f"*_to_{self.agent}"):
            for line in self._news(folder / "messages.ndjson"):
                if "journalSeq" in line.get("metadata", {}):
                    self.kept.append(Letter.of(line))
                    found = True
        if not found:
            await asyncio.sleep(LOOK_S)

    async def acknowledge(self, letter: Letter) -> None:
        payload = {"acknowledgedMessageId": letter.message_id, "status": "received", "timestamp": _now()}
        await self._answer(letter, "ACK", payload)

    async def reject(self, letter: Letter, *, can_retry: bool) -> None:
        payload = {"rejectedMessageId": letter.message_id, "reason": "no", "timestamp": _now(), "canRetry": can_retry}
        await self._answer(letter, "NACK", payload)

    async def recall(self, message_id: str) -> str:
        asked = Letter.fresh(self.agent, "CUSTOM_RECALL", {"messageId": message_id})
        self.append("tocsin", asked.envelope("tocsin"))
        return str((await self._receipt(asked.message_id))["recall"]["outcome"])

    async def _answer(self, letter: Letter, message_type: str, payload: dict[str, Any]) -> None:
        thread = letter.correlation_id or letter.message_id
        answer = Letter.fresh(self.agent, message_type, payload, correlation_id=thread)
        await self.send(letter.sender, answer)

    async def _receipt(self, message_id: str) -> dict[str, Any]:
        path = self.root / f"tocsin_to_{self.agent}" / "receipts.ndjson"
        async with asyncio.timeout(PATIENCE_S):
            while message_id not in self._receipts:
                self._receipts |= {line["messageId"]: line for line in self._news(path)}
                await asyncio.sleep(LOOK_S / 4)
        told = self._receipts.pop(message_id)
        if "problem" in told:
            raise Refused(told["problem"])
        return told

    def _news(self, path: Path) -> list[dict[str, Any]]:
        """Read the whole lines that were not there before."""
        if not path.exists():
            return []
        with path.open("rb") as file:
            file.seek(self._read.get(path, 0))
            data = file.read()
        data = data[: data.rfind(b"\n") + 1]
        self._read[path] = self._read.get(path, 0) + len(data)
        return [json.loads(line) for line in data.splitlines()]


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@asynccontextmanager
async def over_files(root: Path, agent: str) -> AsyncIterator[FileDriver]:
    """Attach an agent: a directory of its own is all it takes, and its end is the end of its directories."""
    (root / f"{agent}_to_tocsin").mkdir()
    yield FileDriver(agent, root)
    for folder in root.glob(f"{agent}_to_*"):
        shutil.rmtree(folder)
