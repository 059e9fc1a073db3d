"""Process that has imported Tocsin and is forked for each process that tests ask for (`tests/forks.py`).

It is started with a path for its socket and the modules to import, and reads the packaged settings too. When its
standard input ends, because the tests have ended or were killed, it kills what it has forked and ends. A request is a
connection: a line of JSON with the file descriptors of the new process. The answers are two lines, the number of the
process and, when it has ended, its exit code.
"""

import contextlib
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import sys
from pathlib import Path
from typing import Any

from tocsin.hub.config import load_config
from tocsin.policies import default_policy

__all__: list[str] = []


def _wait_for_request(path: Path) -> dict[str, Any]:
    """Fork for each request, and return it in the new process; the template itself ends here."""
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    callers: dict[int, socket.socket] = {}
    listening = socket.socket(socket.AF_UNIX)
    new = path.with_suffix(".new")
    listening.bind(str(new))
    listening.listen(100)
    new.rename(path)
    while True:
        ready, _, _ = select.select([0, listening.fileno(), woken], [], [])
        if 0 in ready:
            for running in callers:
                os.kill(running, signal.SIGKILL)
            _report_ended(callers, 0)
            path.unlink()
            path.parent.rmdir()
            os._exit(0)
        if woken in ready:
            os.read(woken, 4096)
            _report_ended(callers, os.WNOHANG)
        if listening.fileno() not in ready:
            continue
        caller, _ = listening.accept()
        request, descriptors = _read(caller)
        pid = os.fork()
        if not pid:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            for number, descriptor in enumerate(descriptors):
                os.dup2(descriptor, number)
            for descriptor in (woken, wake, *descriptors):
                os.close(descriptor)
            for opened in (listening, caller, *callers.values()):
                opened.close()
            return request
        callers[pid] = caller
        caller.sendall(f"{pid}\n".encode())
        for descriptor in descriptors:
            os.close(descriptor)


def _read(caller: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Return a request, and the file descriptors that came with it."""
    text, descriptors, _, _ = socket.recv_fds(caller, 65536, 3)
    while not text.endswith(b"\n"):
        text += caller.recv(65536)
    return json.loads(text), descriptors


def _report_ended(callers: dict[int, socket.socket], options: int) -> None:
    while callers:
        pid, status = os.waitpid(-1, options)
        if not pid:
            return
        with callers.pop(pid) as caller, contextlib.suppress(BrokenPipeError):
            caller.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())


def _become(request: dict[str, Any]) -> str:
    """Take over what a new process starts with; return its module."""
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    sys.path[0] = request["folder"]
    module, *words = request["words"]
    sys.argv = [module, *words]
    sys.stdin = open(0, closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115
    return str(module)


def _main(path: str, *names: str) -> str:
    for name in names:
        importlib.import_module(name)
    default_policy()
    load_config()
    gc.collect()
    gc.freeze()
    return _become(_wait_for_request(Path(path)))


if __name__ == "__main__":
    runpy.run_module(_main(*sys.argv[1:]), run_name="__main__", alter_sys=True)
