"""Network namespace with nothing but loopback, in which clients, hubs and the model's server run.

One thread has left the machine's network: what it starts and the sockets that it makes are in the new namespace, and
all other threads stay where they are. Whatever is still running in the namespace at the end is killed, however it was
started. To make a namespace takes root on Linux. Elsewhere, variables name a proxy that does not exist: clients that
ignore them reach the network, and `Network.isolated` tells so.
"""

import contextlib
import ctypes
import fcntl
import os
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

__all__ = ["Network"]

_T = TypeVar("_T")
_CLONE_NEWNET = 0x40000000
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 1
_NOWHERE = "http://127.0.0.1:9"
_OWN = Path("/proc/thread-self/ns/net")


class Network:
    """A namespace, for as long as the context lasts."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="loopback-only")
        self._started: list[subprocess.Popen[str]] = []
        #: Whether nothing outside of this machine can be reached.
        self.isolated = sys.platform == "linux" and self.call(_leave)
        self._name = str(self.call(_OWN.readlink)) if self.isolated else ""

    def __enter__(self) -> "Network":
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._started:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            for pipe in (process.stdin, process.stdout, process.stderr):
                if pipe is not None:
                    pipe.close()
        while left := list(self.processes()):
            for number in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(number, signal.SIGKILL)
        self._thread.shutdown()

    @property
    def environment(self) -> dict[str, str]:
        """Return the variables that keep programs from the network where there is no namespace."""
        if self.isolated:
            return {}
        names = ("http_proxy", "https_proxy", "all_proxy")
        proxies = dict.fromkeys([*names, *(name.upper() for name in names)], _NOWHERE)
        return proxies | dict.fromkeys(("no_proxy", "NO_PROXY"), "127.0.0.1,localhost")

    def call(self, function: Callable[..., _T], *arguments: Any, **named: Any) -> _T:
        """Call a function within the namespace, one at a time, and return what it returns."""
        return self._thread.submit(function, *arguments, **named).result()

    def listen(self) -> socket.socket:
        """Return a socket that listens on a free port of loopback."""
        return self.call(socket.create_server, ("127.0.0.1", 0))

    def start(self, words: list[str], **options: Any) -> "subprocess.Popen[str]":
        """Start a program in a group of its own, which ends with the namespace."""
        process: subprocess.Popen[str] = self.call(
            subprocess.Popen, words, text=True, start_new_session=True, **options
        )
        self._started.append(process)
        return process

    def processes(self) -> Iterator[int]:
        """Return the numbers of the processes in the namespace, zombies aside."""
        for folder in Path("/proc").iterdir() if self._name else ():
            with contextlib.suppress(OSError, ValueError):
                number = int(folder.name)
                if str((folder / "ns/net").readlink()) == self._name:
                    yield number


def _leave() -> bool:
    """Give this thread a network of its own with loopback; return false if that is not permitted."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNET) != 0:
        return False
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        asked = struct.pack("16sH14x", b"lo", 0)
        _, flags = struct.unpack("16sH14x", fcntl.ioctl(any_socket, _SIOCGIFFLAGS, asked))
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", flags | _IFF_UP))
    return True
