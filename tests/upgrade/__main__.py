"""Make a data folder of this version, to be opened by later ones: `python -m tests.upgrade FOLDER`.

It serves two projects with real hubs, one on SQLite and one on PostgreSQL. Agents send messages of all kinds, and leave
open what a project can have open: a message that waits for approval, leases and who waits for them, a question to a
human, a discussion, a request, a dead letter, unread messages. The pipeline makes a lake of the first project.

FOLDER gets `sqlite.tar.xz` (the data folder of the first hub), `postgres.tar.xz` (the data folder of the second, with
`dump.sql`), and `expected.json` with what agents and administrators saw of both, and the rows of the lake.
"""

import asyncio
import contextlib
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import copy
from typing import Any

import msgspec
from demo.hub import MEMBERS, DemoHub, end_process
from demo.scenes import NOTE, SCENES, Team, team

from tests.postgres import Server
from tests.upgrade.lake import rows_of_lake
from tests.upgrade.seen import remotes, seen
from tocsin.cli.remote import Remote
from tocsin.client import NoResponse

SETTINGS = Path(__file__).with_name("settings")
_SCENES = (
    *("tasks and updates", "recall", "expiry", "priority inheritance", "deadlock", "interrupt at a pause point"),
    *("escalation to a human", "dead letter and redrive"),
)
#: An agent that reads nothing.
_AWAY = "nora"


@contextmanager
def serve(data: Path, *options: str) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    """Serve a data folder on a free port until the end of the block; yield the hub's process and URL."""
    command = [sys.executable, "-m", "tocsin", "serve", "--data", str(data), "--port", "0", *options]
    with (data.parent / f"{data.name}.log").open("a", encoding="utf-8") as log:
        process = subprocess.Popen(  # noqa: S603
            command, stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True
        )
    try:
        assert process.stdout is not None
        line = next((line for line in process.stdout if line.startswith("serving")), None)
        assert line is not None, (data.parent / f"{data.name}.log").read_text(encoding="utf-8")
        yield process, line.split(" at ")[1].split()[0]
    finally:
        end_process(process)


async def live(hub: DemoHub, scenes: tuple[str, ...]) -> None:
    """Let a team work on a hub, and leave things open."""
    hub.issue(*MEMBERS)
    async with team(hub, quick=True) as members:
        for scene in scenes:
            print(f"  {scene}: {await SCENES[scene](members)}")
    hub.remote(_AWAY).ask("register_agent", {"type": "Implementation"})
    # The scene of recalls closes hugo's session, and others may have ended: the team meets again.
    async with team(hub, quick=True) as members:
        await _leave_open(members)
    hub.remote().ask("issue_token", {"agent": "gone", "role": "clone"})
    hub.remote().ask("revoke_tokens", {"agent": "gone"})
    hub.remote().ask("issue_token", {"agent": "deputy", "role": "director", "admin": True})


async def _leave_open(team_: Team) -> None:
    """Leave one of everything that may be open."""
    dora, ada, bob, erin = team_["dora"], team_["ada"], team_["bob"], team_["erin"]
    words = {"text": "merge invoices into main: 14 files"}
    held = await bob.send(to="carl", type="CUSTOM_MERGE", payload=words)
    await team_.look("v1", "approvals", until=lambda page: page["items"], subject=held.message_id)
    await ada.request_approval("plan_approval", "split the billing service", details="in three steps")
    for priority in ("Info", "Coordinate", "Blocking", "Critical"):
        await erin.send(to=_AWAY, type=NOTE, payload={"text": f"a note at {priority}"}, priority=priority)
    await erin.send(to=_AWAY, type="CUSTOM_DRAWING", payload={"shapes": [{"x": i, "naïve": "ü"} for i in range(50)]})
    refused = await dora.send(to="erin", type=NOTE, payload={"text": "deploy with config/production.yaml"})
    async with asyncio.timeout(60):
        async for message in erin.inbox():
            if message.message_id == refused.message_id:
                await message.reject("config/production.yaml does not exist yet", can_retry=False)
                break
            await message.mark_processed()
    await team_.state(refused.message_id, "dead")
    silent, waiting = team_.hub.remote("carl-2"), team_.hub.remote("bob-2")
    await asyncio.to_thread(silent.ask, "acquire_lease", {"exclusive": ["src/billing/**"], "shared": ["docs/*.md"]})
    await asyncio.to_thread(waiting.ask, "acquire_lease", {"exclusive": ["src/billing/invoice.py"]})
    await ada.subscribe_topic("releases")
    await bob.subscribe_topic("releases")
    await dora.publish_topic("releases", type=NOTE, payload={"text": "0.1 is out"})
    opened = await dora.open_discussion("ten years or seven?", ["ada", "bob", "erin"], options=("ten", "seven"))
    await ada.vote(opened.discussion, "ten")
    with contextlib.suppress(NoResponse):
        await ada.request("carl-2", "CUSTOM_QUESTION", {"text": "do we keep invoices for ten years?"}, timeout_s=1.0)
    wanted = {"state": "human_escalation", "trigger": "request_timeout"}
    await team_.look(
        "v1", "escalations", until=lambda page: any(wanted.items() <= row.items() for row in page["items"])
    )


def quiet(admin: Remote, agents: dict[str, Remote]) -> dict[str, Any]:
    """Return what is seen once it stays the same: offers without receipt have returned to their queues."""
    last: dict[str, Any] = {}
    for _ in range(60):
        now = seen(admin, agents)
        if now == last and not any(state == "offered" for *_, state in now["messages"].values()):
            return now
        last = now
        time.sleep(1)
    raise RuntimeError("the project does not come to rest")


def _packed(folder: Path, archive: Path) -> None:
    with tarfile.open(archive, "w:xz") as tar:
        tar.add(folder, arcname=folder.name, filter=_nobody)
    print(f"  {archive.name}: {archive.stat().st_size / 1024:.0f} KiB")


def _nobody(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Leave out sockets and who owned a file."""
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member if member.isfile() or member.isdir() else None


def _data(root: Path, name: str) -> Path:
    data = root / name / "hub"  # where a DemoHub has its data
    data.mkdir(mode=0o700, parents=True)
    copy(SETTINGS / "tocsin.yaml", data)
    return data


def _sqlite(root: Path, to: Path) -> dict[str, Any]:
    data = _data(root, "sqlite")
    with serve(data) as (process, url):
        asyncio.run(live(DemoHub(data.parent, process, url), _SCENES))
        expected = quiet(*remotes(data, url))
        time.sleep(3)  # the last segment is closed a second after its first event
    command = [sys.executable, "-m", "tocsin", "pipeline", "--data", str(data), "run"]
    subprocess.run(command, check=True)  # noqa: S603
    expected["lake"] = rows_of_lake(data)
    _packed(data, to / "sqlite.tar.xz")
    return expected


def _postgres(root: Path, to: Path) -> dict[str, Any]:
    data, server = _data(root, "postgres"), Server().create()
    try:
        with serve(data, "--store", f"postgresql:///postgres?host={server.folder}&user=tocsin") as (process, url):
            asyncio.run(live(DemoHub(data.parent, process, url), ("dead letter and redrive",)))
            expected = quiet(*remotes(data, url))
        server.dump(data / "dump.sql")
    finally:
        server.remove()
    _packed(data, to / "postgres.tar.xz")
    return expected


def main(to: Path) -> None:
    """Make the folder of this version."""
    to.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        expected = {"sqlite": _sqlite(root, to), "postgres": _postgres(root, to)}
    (to / "expected.json").write_bytes(msgspec.json.format(msgspec.json.encode(expected), indent=1) + b"\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
