"""A demo that runs as a process."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["QUICK", "STOPPED", "Demo", "demo", "is_running"]

ROOT = Path(__file__).parents[2]
QUICK = ("--quick", "--without-pipeline")
#: The last line of a demo that was stopped.
STOPPED = "Stopped. The data is kept in .demo until the next run."


class Demo:
    """A demo that runs in a folder of its own; its output is read line by line."""

    def __init__(self, folder: Path, *options: str) -> None:
        environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "COLUMNS": "160", "TERM": "dumb"}
        self.folder = folder
        self.process = subprocess.Popen(  # noqa: S603
            # As a shell starts a program in the background: that must not keep a signal from ending it.
            ["env", "--ignore-signal=INT", sys.executable, "-m", "demo", *options],  # noqa: S607
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.lines: list[str] = []

    def until(self, pattern: str) -> re.Match[str]:
        """Read lines until one matches."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))
            if found := re.search(pattern, line):
                return found
        raise AssertionError(f"the demo ended without {pattern!r}:\n" + "\n".join(self.lines))

    def rest(self) -> str:
        """Return all output, without line breaks, once the demo has ended."""
        assert self.process.stdout is not None
        self.lines += self.process.stdout.read().splitlines()
        self.process.wait()
        return " ".join(" ".join(self.lines).split())

    def interrupt(self) -> str:
        """Press Ctrl-C and return what is said from then on; nothing may be left running."""
        said = len(self.lines)
        hub = self.hub
        self.process.send_signal(signal.SIGINT)
        self.rest()
        assert self.process.returncode == 0
        assert not is_running(hub)
        return "\n".join(self.lines[said:]).strip()

    @property
    def hub(self) -> int:
        """Return the process id of the hub."""
        return int((self.folder / ".demo" / "hub.pid").read_text())

    def tocsin(self, *words: str) -> str:
        """Run the command line that the demo offers."""
        done = subprocess.run(  # noqa: S603
            [".demo/tocsin", *words],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@contextmanager
def demo(folder: Path, *options: str) -> Iterator[Demo]:
    running = Demo(folder, *options)
    try:
        yield running
    finally:
        if running.process.poll() is None:
            running.process.send_signal(signal.SIGINT)
            running.process.wait(60)
        if running.process.stdout is not None:
            running.process.stdout.close()


def is_running(number: int) -> bool:
    """Tell whether a process runs; one that has ended and was not reaped yet does not."""
    try:
        status = Path(f"/proc/{number}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return status.rpartition(")")[2].split()[0] != "Z"
