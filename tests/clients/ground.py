"""A hub, a project under git and the models of its agents, in a network with only loopback.

What a person does here is done by the real command line, as the docs tell it: `tocsin` is on the PATH, the hub has its
default address, and each agent's programs have a home directory and an environment of their own.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from tests.clients.model import Model
from tests.clients.network import Network
from tests.patience import PATIENCE_S

__all__ = ["Ground", "Received"]

#: The folder of this environment's `tocsin`.
_PROGRAMS = Path(sys.executable).parent
_ASK_AGAIN_S = 0.2
#: States of a message that its recipient has received, as Tocsin sees it.
_RECEIVED = "delivered,acknowledged,processed"


class Received(NamedTuple):
    """A message that Tocsin calls received, with all texts of its payload."""

    message_id: str
    texts: tuple[str, ...]

    def is_whole_in(self, shown: str) -> bool:
        """Tell whether a text has its id and all of its texts, each as it is, in JSON, or in JSON within JSON."""
        return self.message_id in shown and all(any(form in shown for form in _forms(text)) for text in self.texts)


def _forms(text: str) -> tuple[str, ...]:
    once = json.dumps(text, ensure_ascii=False)[1:-1]
    return text, once, json.dumps(once, ensure_ascii=False)[1:-1]


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _texts(part)


class Ground:
    """What the clients of one case share."""

    def __init__(self, folder: Path) -> None:
        self.root = folder
        #: The project: a git repository with one commit, and the data of its hub.
        self.project = folder / "shop"
        self.network = Network()
        self.model = Model(self.network.listen())

    def __enter__(self) -> "Ground":
        self.model.__enter__()
        self.project.mkdir(parents=True)
        (self.root / "tmp").mkdir()
        (self.project / ".gitignore").write_text(".tocsin/\n")
        (self.project / "price.py").write_text("PRICE = 1\n")
        for words in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-q", "-m", "begin"]):
            self.run(["git", *words])
        self.start_hub()
        return self

    def __exit__(self, *_: object) -> None:
        self.network.__exit__()
        self.model.__exit__()

    @property
    def data(self) -> Path:
        """Return the data directory of the hub."""
        return self.project / ".tocsin"

    def home(self, agent: str) -> Path:
        """Return the home directory of an agent's programs."""
        home = self.root / "homes" / agent
        home.mkdir(parents=True, exist_ok=True)
        return home

    def environment(self, agent: str = "user", **more: str) -> dict[str, str]:
        """Return the whole environment of an agent's programs; nothing of this process's is in it."""
        person = {"GIT_{}_{}".format(*pair): agent for pair in (("AUTHOR", "NAME"), ("COMMITTER", "NAME"))}
        person |= {name.replace("NAME", "EMAIL"): f"{agent}@localhost" for name in person}
        return {
            "HOME": str(self.home(agent)),
            "PATH": os.pathsep.join([str(_PROGRAMS), "/usr/local/bin", "/usr/bin", "/bin"]),
            "LANG": "C.UTF-8",
            "TERM": "xterm-256color",
            "TMPDIR": str(self.root / "tmp"),
            "TMUX_TMPDIR": str(self.root / "tmp"),
            "GIT_CONFIG_NOSYSTEM": "1",
            **person,
            **self.network.environment,
            **more,
        }

    def start_hub(self) -> None:
        """Start the hub as the docs do."""
        with (self.root / "hub.log").open("ab") as log:
            self._hub = hub = self.network.start(
                ["tocsin", "serve"],
                cwd=self.project,
                env=self.environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
            )
        assert hub.stdout is not None
        if not any(line.startswith("serving") for line in hub.stdout):
            raise RuntimeError(f"the hub has not started: {(self.root / 'hub.log').read_text()}")

    def stop_hub(self) -> None:
        """Stop the hub as Ctrl-C does."""
        self._hub.send_signal(signal.SIGINT)
        self._hub.wait(PATIENCE_S)

    def wait(self, what: Callable[[], bool], meant: str) -> None:
        """Wait until something holds that only asking can tell."""
        end = time.monotonic() + PATIENCE_S
        while not what():
            if time.monotonic() > end:
                raise TimeoutError(f"there never was {meant}")
            time.sleep(_ASK_AGAIN_S)

    def run(
        self,
        words: list[str],
        *,
        cwd: Path | None = None,
        agent: str = "user",
        check: bool = True,
        variables: Mapping[str, str] = MappingProxyType({}),
    ) -> "subprocess.CompletedProcess[str]":
        """Run a program as a person would in a shell, with some more variables."""
        process = self.network.start(
            words,
            cwd=cwd or self.project,
            env=self.environment(agent, **variables),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        out, err = process.communicate(timeout=2 * PATIENCE_S)
        if check and process.returncode:
            raise RuntimeError(f"{words} has ended with {process.returncode}: {out}{err}")
        return subprocess.CompletedProcess(words, process.returncode, out, err)

    def tocsin(self, *words: str, cwd: Path | None = None) -> str:
        """Run the command line, and return what it prints."""
        return self.run(["tocsin", *words], cwd=cwd).stdout

    def ask(self, *words: str) -> Any:
        """Run the command line, and return its answer as JSON values."""
        return json.loads(self.tocsin(*words, "--json"))

    def add(self, agent: str, role: str = "primary", kind: str = "Implementation") -> None:
        """Add an agent with a saved token."""
        self.tocsin("agents", "add", agent, "--role", role, "--type", kind, "--save")

    def send(self, sender: str, to: str, text: str, priority: str = "Coordinate") -> str:
        """Send a message, and return its id."""
        answer = self.ask("--as", sender, "send", to, text, "--priority", priority)
        return str(answer["receipt"]["message_id"])

    def message(self, message_id: str) -> dict[str, Any]:
        """Return all that Tocsin knows of a message."""
        found: dict[str, Any] = self.ask("messages", "show", message_id)[0]
        return found

    def state(self, message_id: str) -> str:
        """Return the state of a message."""
        return str(self.message(message_id)["state"])

    def received(self, agent: str) -> list[Received]:
        """Return the messages that Tocsin calls received by an agent."""
        found = self.ask("messages", "find", "--recipient", agent, "--states", _RECEIVED)["items"]
        whole = [self.message(item["message_id"]) for item in found]
        return [Received(one["message_id"], tuple(_texts(one["payload"]))) for one in whole]

    def unseen(self, agent: str) -> list[str]:
        """Return the ids of messages that Tocsin calls received and that the agent's own model was not shown whole.

        What a sub-agent's model was shown does not count.
        """
        shown = self.model.text(agent)
        return [one.message_id for one in self.received(agent) if not one.is_whole_in(shown)]
