"""The demo's hub, in a separate process, and tokens for the members of its team."""

import contextlib
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tocsin.cli.remote import Remote
from tocsin.client import Agent
from tocsin.client.agent import Connecting

__all__ = ["MEMBERS", "DemoHub", "serve"]

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
    "hugo": ("human", "User"),
}


class DemoHub:
    """A running hub, with a token for each member of the team."""

    def __init__(self, data: Path, url: str) -> None:
        #: The project's data directory.
        self.data = data
        #: URL of the hub.
        self.url = url
        self._admin = (data / "admin.token").read_text(encoding="utf-8").strip()
        self._tokens: dict[str, str] = {}
        for name, (role, _) in MEMBERS.items():
            issued = self.remote().post("v1", "admin", "tokens", body={"agent": name, "role": role, "type": None})
            self._tokens[name] = str(issued["token"])
        #: File with the token for signing in to the dashboard.
        self.token_file = data / "hugo.token"
        self.token_file.touch(mode=0o600)
        self.token_file.write_text(self._tokens["hugo"] + "\n", encoding="utf-8")

    def remote(self, name: str = "") -> Remote:
        """Return an HTTP client with a member's token; without a name with the administrator's."""
        return Remote(self.url, self._tokens[name] if name else self._admin)

    def join(self, name: str, **more: Any) -> Connecting:
        """Connect a member of the team."""
        return Agent.connect(self.url, token=self._tokens[name], type=MEMBERS[name][1], **more)


@contextmanager
def serve(root: Path, port: int) -> Iterator[DemoHub]:
    """Serve a new project until the end of the block; on another port if this one is taken."""
    shutil.rmtree(root, ignore_errors=True)
    data = root / "hub"
    data.mkdir(parents=True)
    shutil.copy(Path(__file__).with_name("tocsin.yaml"), data / "tocsin.yaml")
    process, url = _serve(data, port)
    try:
        yield DemoHub(data, url)
    finally:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(30)


def _serve(data: Path, port: int) -> tuple["subprocess.Popen[str]", str]:
    for attempt in (port, 0):
        command = [sys.executable, "-m", "tocsin", "serve", "--data", str(data), "--port", str(attempt)]
        log = (data / "hub.log").open("w", encoding="utf-8")
        process = subprocess.Popen(  # noqa: S603
            [*command, "--log-level", "warning"],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            start_new_session=True,
        )
        if process.stdout is None:
            raise RuntimeError("the hub has no standard output")
        for line in process.stdout:
            if found := re.search(r"http://\S+", line):
                return process, found[0]
        process.wait()
    sys.exit(f"the hub did not start: {(data / 'hub.log').read_text(encoding='utf-8')[-2000:]}")
