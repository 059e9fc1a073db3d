"""A hub with channels inside a test, and an agent that knows nothing but files."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.envelopes import envelope
from tests.gateways.hubs import QUICK, HubTeam, team_at
from tests.patience import PATIENCE_S
from tocsin.gateways.files.gateway import FileGateway

#: Fast enough for a test to wait for.
BRISK = {"poll_interval_s": 0.05, "refusal_pause_s": 0.0, "retry_s": 0.2}


class FileClient:
    """An agent that appends lines and reads lines."""

    def __init__(self, root: Path, name: str) -> None:
        self.root = root
        self.name = name

    def outbox(self, receiver: str = "tocsin") -> Path:
        folder = self.root / f"{self.name}_to_{receiver}"
        folder.mkdir(parents=True, exist_ok=True)
        return folder / "messages.ndjson"

    def append(self, data: bytes, receiver: str = "tocsin") -> None:
        with self.outbox(receiver).open("ab") as file:
            file.write(data)

    def say(self, number: int, receiver: str, **changes: Any) -> None:
        self.append(line(number, self.name, receiver, **changes), receiver)

    def lines(self, sender: str = "tocsin", file: str = "messages.ndjson") -> list[dict[str, Any]]:
        return lines_of(self.root / f"{sender}_to_{self.name}" / file)

    def receipts(self) -> list[dict[str, Any]]:
        return self.lines(file="receipts.ndjson")


def line(number: int, sender: str, receiver: str, **changes: Any) -> bytes:
    return json.dumps(envelope(number, sender, receiver, **changes)).encode() + b"\n"


def lines_of(path: Path) -> list[dict[str, Any]]:
    """Read the whole lines of a file, and of those that it was before, oldest first."""
    older = sorted(path.parent.glob(f"{path.stem}.2*.ndjson"))
    found: list[dict[str, Any]] = []
    for file in (*older, path):
        data = file.read_bytes() if file.exists() else b""
        found += [json.loads(text) for text in data[: data.rfind(b"\n") + 1].splitlines()]
    return found


async def until(reached: Callable[[], Any]) -> Any:
    """Wait for a file to say something."""
    async with asyncio.timeout(PATIENCE_S):
        while not (value := reached()):
            await asyncio.sleep(0.005)
        return value


async def until_state(team: HubTeam, message: str, state: str) -> list[str]:
    """Wait for a message to come into a state, and return what has happened to it."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            [found] = (await team.get("boss", f"/v1/messages/{message}/history")).json()
            if found["message"]["state"] == state:
                return [step["kind"] for step in found["history"]]


@asynccontextmanager
async def channels_at(
    path: Path, *agents: str, policy: str = QUICK, declared: dict[str, Any] | None = None, **config: Any
) -> AsyncIterator[tuple[HubTeam, Path]]:
    """Serve a project with channels in which some agents are file agents."""
    root = path / "channels"
    named = {agent: {"type": "Implementation"} for agent in agents} if declared is None else declared
    section = {"directory": str(root), "agents": named, **BRISK, **config}
    async with team_at(path, policy, channels=section) as team:
        await FileGateway.open(team.hub)
        yield team, root


@asynccontextmanager
async def channel_team(path: Path, *agents: str, **config: Any) -> AsyncIterator[tuple[HubTeam, Path]]:
    """Serve a project with ada and a director over HTTP, and some file agents."""
    async with channels_at(path, *agents, **config) as (team, root):
        await team.register("ada")
        await team.register("boss", "director")
        yield team, root
