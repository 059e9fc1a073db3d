"""The demo's hub in a separate process, its folder, and tokens for the members of its team."""

import contextlib
import fcntl
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tocsin.cli.remote import Remote
from tocsin.client import Agent
from tocsin.client.agent import Connecting
from tocsin.hub.wakers.process import is_running, read_note

__all__ = ["HUMAN", "MEMBERS", "ON_CALL", "DemoHub", "end_process", "free_port", "own_folder", "serve"]

#: Members of the team: name, role and agent type.
MEMBERS: dict[str, tuple[str, str]] = {
    "dora": ("director", "Manager"),
    "ada": ("primary", "Implementation"),
    "bob": ("primary", "Implementation"),
    "carl": ("primary", "Implementation"),
    "erin": ("primary", "Implementation"),
    "ada-2": ("clone", "Implementation"),
    "bob-2": ("clone", "Implementation"),
    "carl-2": ("clone", "Implementation"),
    "nora": ("primary", "Implementation"),
    "hugo": ("human", "User"),
}
#: The member that the reader is.
HUMAN = "hugo"
#: The member that is not running until a message wakes it.
ON_CALL = "nora"
_LOOPBACK = "127.0.0.1"
_PATIENCE_S = 10.0
_SCRIPT = """\
#!/bin/sh
# The command line for the demo's hub. Written by the demo.
exec {python} -m tocsin --url {url} --data {data} "$@"
"""


class DemoHub:
    """A running hub, with a token for each member of the team."""

    def __init__(self, root: Path, process: "subprocess.Popen[str]", url: str) -> None:
        self.root = root
        #: The project's data directory.
        self.data = root / "hub"
        self.process = process
        #: URL of the hub.
        self.url = url
        self._admin = (self.data / "admin.token").read_text(encoding="utf-8").strip()
        self._tokens: dict[str, str] = {}
        #: The command line for this hub, as one would type it.
        self.command = root / "tocsin"
        words = {"python": sys.executable, "url": url, "data": str(self.data.resolve())}
        self.command.write_text(_SCRIPT.format(**{name: shlex.quote(word) for name, word in words.items()}))
        self.command.chmod(0o755)

    def issue(self, *names: str) -> None:
        """Issue tokens for members, and save them where the command line looks for them."""
        folder = self.data / "tokens"
        folder.mkdir(mode=0o700, exist_ok=True)
        for name in names:
            role, kind = MEMBERS[name]
            # The others register when they connect.
            body = {"agent": name, "role": role, "type": kind if name == ON_CALL else None}
            self._tokens[name] = str(self.remote().post("v1", "admin", "tokens", body=body)["token"])
            file = folder / f"{name}.token"
            file.touch(mode=0o600)
            file.write_text(self._tokens[name] + "\n", encoding="utf-8")

    def sign_in_link(self) -> str:
        """Make a link that signs the reader in to the dashboard, once."""
        return self.url + str(self.remote(HUMAN).post("sign-in", "links")["path"])

    def remote(self, name: str = "") -> Remote:
        """Return an HTTP client with a member's token; without a name with the administrator's."""
        return Remote(self.url, self._tokens[name] if name else self._admin)

    def join(self, name: str, **more: Any) -> Connecting:
        """Connect a member of the team."""
        return Agent.connect(self.url, token=self._tokens[name], type=MEMBERS[name][1], **more)


def free_port(wanted: int) -> int | None:
    """Return the port if it is free (any free one for 0), else null."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((_LOOPBACK, wanted))
        except OSError:
            return None
        return int(probe.getsockname()[1])


@contextmanager
def own_folder(root: Path) -> Iterator[None]:
    """Hold the demo's folder, emptied; exit if another demo uses it."""
    root.mkdir(exist_ok=True)
    with (root / "lock").open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.seek(0)
            sys.exit(f"a demo already runs in {root} (process {lock.read().strip() or 'unknown'}): stop it first")
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        _end_leftover(root)
        for path in root.iterdir():
            if path.name != "lock":
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        yield


def _end_leftover(root: Path) -> None:
    """End the hub of a demo that was killed and could not end it itself."""
    with contextlib.suppress(OSError, ValueError):
        number = int((root / "hub.pid").read_text())
        asked = ["ps", "-o", "command=", "-p", str(number)]
        shown = subprocess.run(asked, capture_output=True, text=True, check=False)  # noqa: S603
        if str((root / "hub").resolve()) in shown.stdout:
            os.kill(number, signal.SIGKILL)


@contextmanager
def serve(root: Path, port: int) -> Iterator[DemoHub]:
    """Serve a new project until the end of the block."""
    data = root / "hub"
    data.mkdir()
    for name in ("tocsin.yaml", "server.yaml"):
        shutil.copy(Path(__file__).with_name(name), data / name)
    shutil.copy(Path(__file__).with_name("on_call.sh"), root)
    command = [sys.executable, "-m", "tocsin", "serve", "--data", str(data.resolve()), "--port", str(port)]
    with (data / "hub.log").open("w", encoding="utf-8") as log:
        process = subprocess.Popen(  # noqa: S603
            [*command, "--log-level", "warning"],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            start_new_session=True,
        )
    try:
        (root / "hub.pid").write_text(str(process.pid))
        yield DemoHub(root, process, _address(process, data))
    finally:
        end_process(process)
        _end_woken(data)


def _end_woken(data: Path) -> None:
    """End the processes of wakes that are under way: they outlive their hub."""
    for path in (data / "wakes").glob("*/*.json"):
        note = read_note(path)
        if note is not None and is_running(note):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(note.pid, signal.SIGKILL)
            while is_running(note):
                time.sleep(0.01)


def _address(process: "subprocess.Popen[str]", data: Path) -> str:
    """Read the address from the output of the hub."""
    for line in process.stdout or ():
        if found := re.search(r"http://\S+", line):
            return found[0]
    sys.exit(f"the hub did not start: {(data / 'hub.log').read_text(encoding='utf-8')[-2000:]}")


def end_process(process: "subprocess.Popen[str]") -> None:
    """End a process and all that it has started."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_PATIENCE_S)
            break
    if process.stdout is not None:
        process.stdout.close()
