"""Killed at any moment, the hub loses no line, doubles none and keeps their order, in both directions."""

import contextlib
import random
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2

from tests.cli.processes import RunningHub
from tests.envelopes import envelope
from tests.gateways.files.channels import FileClient, line, lines_of
from tests.patience import PATIENCE_S
from tests.soak import SOAK, tally, within

#: An offer that is not confirmed in time is made again, as another line: no start of a hub takes that long.
POLICY = """
bucket: {capacity: 1000000, refill_per_s: 1000000}
delivery: {receipt_timeout_s: {piggyback: 600}}
"""
SERVER = """
channels:
  directory: {root}
  agents: {{bob: {{type: Implementation}}}}
  poll_interval_s: 0.05
  retry_s: 0.1
"""


class MortalHub:
    """A hub that is killed and started again, on the same data."""

    def __init__(self, path: Path, **channels: float) -> None:
        self.data = path / "data"
        self.root = path / "channels"
        self.data.mkdir()
        (self.data / "tocsin.yaml").write_text(POLICY)
        more = "".join(f"  {name}: {value}\n" for name, value in channels.items())
        (self.data / "server.yaml").write_text(SERVER.format(root=self.root) + more)
        self.tokens: dict[str, str] = {}
        self.start()
        admin = (self.data / "admin.token").read_text().strip()
        for agent in ("ada", "eve"):
            body = {"agent": agent, "type": "Manager"}
            self.tokens[agent] = self._call("POST", "/v1/admin/tokens", admin, body)["token"]

    def start(self) -> None:
        self.hub = RunningHub(self.data)
        self.hub.__enter__()

    def kill(self) -> None:
        tally("kills")
        self.hub.process.kill()
        self.hub.process.communicate(timeout=PATIENCE_S)

    def _call(self, method: str, path: str, token: str, body: Any = None) -> Any:
        headers = {"Authorization": f"Bearer {token}"}
        with httpx2.Client(base_url=self.hub.url, headers=headers, timeout=PATIENCE_S) as client:
            response = client.request(method, path, json=body)
        response.raise_for_status()
        return response.json()

    def call(self, agent: str, method: str, path: str, body: Any = None) -> Any:
        """Call until a hub answers."""
        while True:
            try:
                return self._call(method, path, self.tokens[agent], body)
            except (httpx2.TransportError, httpx2.HTTPStatusError) as error:
                if isinstance(error, httpx2.HTTPStatusError) and error.response.status_code != 503:
                    raise
                time.sleep(0.01)


def count(path: Path) -> int:
    """Count the lines of a file and of those that it was before, without reading what they say."""
    found = 0
    for file in (path, *path.parent.glob(f"{path.stem}.2*.ndjson")):
        with contextlib.suppress(FileNotFoundError):
            found += file.read_bytes().count(b"\n")
    return found


def until(reached: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not reached():
        assert time.monotonic() < end, "it never came to that"
        time.sleep(0.02)


def test_killed_at_random_nothing_is_lost_or_doubled_and_order_is_kept(tmp_path: Path) -> None:
    # Drawn here: workers that draw it while they collect have different tests, and nothing runs.
    seed = random.SystemRandom().randrange(2**32) if SOAK else 20260101
    print(f"seed {seed}")  # noqa: T201
    chance = random.Random(seed)
    mortal = MortalHub(tmp_path, rotate_bytes=20_000, refusal_pause_s=0.001)
    bob = FileClient(mortal.root, "bob")
    done = threading.Event()
    said: list[str | None] = []
    sent: dict[str, list[str]] = {"bob": [], "eve": []}
    failures: list[BaseException] = []
    receipts = mortal.root / "tocsin_to_bob" / "receipts.ndjson"
    bobs, eves = (mortal.root / f"ada_to_{name}" / "messages.ndjson" for name in ("bob", "eve"))

    def append() -> None:
        """Append lines in pieces of any size, and some that are none."""
        pace = random.Random(seed + 1)
        number = 0
        while not done.is_set():
            name = f"msg_said_{number}" if number % 7 else None
            data = b"nonsense %d\n" % number if name is None else line(number, "bob", "ada", messageId=name)
            cut = pace.randrange(len(data))
            bob.append(data[:cut], "ada")
            time.sleep(pace.random() * 0.02)
            bob.append(data[cut:], "ada")
            said.append(name)
            number += 1

    def send(receiver: str) -> None:
        number = 0
        while not done.is_set():
            name = f"msg_{receiver}_{number}"
            message = envelope(number, "ada", receiver, messageId=name)
            mortal.call("ada", "POST", "/v1/messages", message)
            sent[receiver].append(name)
            number += 1

    def guarded(work: Callable[..., None], *arguments: str) -> threading.Thread:
        def run() -> None:
            try:
                work(*arguments)
            except BaseException as error:
                failures.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        return thread

    threads = [guarded(append), guarded(send, "bob"), guarded(send, "eve")]
    try:
        for _ in within(3, 40, budget_s=180):
            goal = count(receipts) + chance.randrange(1, 40), count(bobs) + chance.randrange(1, 40)
            until(lambda: count(receipts) >= goal[0] or count(bobs) >= goal[1])  # noqa: B023
            mortal.kill()
            mortal.start()
    finally:
        done.set()
        for thread in threads:
            thread.join(60)
    try:
        assert not failures
        until(lambda: count(receipts) >= len(said))
        until(lambda: count(bobs) >= len(sent["bob"]))
        until(lambda: count(eves) >= len(sent["eve"]))
    finally:
        assert mortal.hub.stop() == 0

    assert [item["messageId"] for item in bob.lines("ada")] == sent["bob"]
    assert [item["messageId"] for item in lines_of(eves)] == sent["eve"]
    assert [item["messageId"] for item in bob.receipts()] == said
    assert [item["messageType"] for item in bob.lines()] == ["ERROR_REPORT"] * said.count(None)
    assert _accepted(mortal, "bob") == [name for name in said if name is not None]


def _accepted(mortal: MortalHub, sender: str) -> list[str]:
    """Return what the journal has of a sender, in order, without any hub."""
    from tocsin.core.events import MessageAccepted
    from tocsin.journal.log import EventLog
    from tocsin.journal.sqlite import SqliteJournal

    journal = SqliteJournal(mortal.data, checkpoint_bytes=1 << 20)
    try:
        events = list(EventLog(journal).read())
    finally:
        journal.close()
    return [event.message_id for event in events if isinstance(event, MessageAccepted) and event.sender == sender]
