"""A terminal in which a client runs, made by tmux: typing, keys, and what the screen shows."""

import re
import shlex
import time
from collections.abc import Callable
from pathlib import Path

from tests.clients.ground import Ground
from tests.patience import PATIENCE_S

__all__ = ["Terminal"]

_LOOK_AGAIN_S = 0.1


class Terminal:
    """A session of a tmux server that belongs to the ground; its name is that of the agent."""

    def __init__(self, ground: Ground, agent: str, words: list[str], folder: Path, environment: dict[str, str]) -> None:
        self._ground, self.agent = ground, agent
        variables = [f"{name}={value}" for name, value in environment.items()]
        shell = shlex.join(["env", "-i", *variables, *words])
        self._tmux("new-session", "-d", "-s", agent, "-x", "160", "-y", "50", "-c", str(folder), shell)
        self._tmux("set-option", "-t", agent, "remain-on-exit", "on")

    def _tmux(self, *words: str) -> str:
        return self._ground.run(["tmux", *words]).stdout

    def screen(self) -> str:
        """Return the text that the terminal shows."""
        return self._tmux("capture-pane", "-p", "-J", "-t", self.agent)

    def type(self, text: str) -> None:
        """Type a text as it is."""
        self._tmux("send-keys", "-t", self.agent, "-l", text)

    def press(self, *keys: str) -> None:
        """Press keys by tmux's names for them, as `Enter` or `C-c`."""
        self._tmux("send-keys", "-t", self.agent, *keys)

    def wait_for(self, pattern: str) -> str:
        """Wait until the screen shows a pattern, and return the screen."""
        return self.wait(lambda screen: re.search(pattern, screen) is not None, pattern)

    def wait(self, what: Callable[[str], bool], meant: str) -> str:
        """Wait until the screen is as a function wants it, and return the screen."""
        end = time.monotonic() + PATIENCE_S
        while True:
            screen = self.screen()
            if what(screen):
                return screen
            if time.monotonic() > end:
                raise TimeoutError(f"the screen never showed {meant}:\n{screen}")
            time.sleep(_LOOK_AGAIN_S)

    def submit(self, text: str) -> None:
        """Type a prompt as a person does: see it in the input, then press Enter."""
        self.type(text)
        self.wait_for(re.escape(text[-30:]))
        self.press("Enter")
