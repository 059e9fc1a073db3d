"""Processes and folders that Spark is started with, so that a command can end them at any moment.

PySpark starts its JVM in a function that returns when the JVM answers. A command that is interrupted before that has no
handle of it, so the processes are recorded here when they start. Each has a session of its own: Ctrl-C in the terminal
does not reach it, and it is killed together with its children.
"""

import os
import shutil
import signal
import subprocess
import threading
from pathlib import Path
from typing import Any

__all__ = ["PROCESSES", "Ended", "Processes"]


class Ended(Exception):
    """No more processes are started, because the command is ending."""


class Processes:
    """Running processes and temporary folders, ended together."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: list[subprocess.Popen[Any]] = []
        self._folders: list[Path] = []
        self._ended = False

    def start(self, command: list[Any], **options: Any) -> "subprocess.Popen[Any]":
        """Start a process in a session of its own; the options are those of `Popen`."""
        with self._lock:
            self.check()
            self._running = [one for one in self._running if one.poll() is None]
            process = subprocess.Popen(command, start_new_session=True, **options)  # noqa: S603
            self._running.append(process)
            return process

    def check(self) -> None:
        """Raise `Ended` after `kill`: what a killed process left undone is not to be recorded."""
        if self._ended:
            raise Ended

    def keep_until_end(self, folder: Path) -> None:
        """Record a temporary folder, which `kill` deletes."""
        with self._lock:
            self._folders.append(folder)

    def kill(self) -> None:
        """Kill all processes with their children and delete the folders; start no more."""
        with self._lock:
            self._ended = True
            for process in self._running:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
            for process in self._running:
                process.wait()
            for folder in self._folders:
                shutil.rmtree(folder, ignore_errors=True)


#: Those of this process.
PROCESSES = Processes()
