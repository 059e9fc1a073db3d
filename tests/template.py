"""Process that has imported Tocsin and is forked for each process that tests ask for (`tests/forks.py`).

It is started with the modules to import. A request is one message of its standard input, a socket: JSON, and the file
descriptors of the new process and of a pipe that gets its number and, when it has ended, its exit status. Template and
requests end when the socket is closed at the other end.
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
from typing import Any

__all__: list[str] = []

#: Longest request: it has the environment of a process.
_REQUEST_BYTES_MAX = 200_000


def _wait_for_request(control: socket.socket) -> dict[str, Any]:
    """Fork for each request, and return it in the new process; the template itself ends here."""
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    reports: dict[int, int] = {}
    while True:
        ready, _, _ = select.select([control.fileno(), woken], [], [])
        if woken in ready:
            os.read(woken, 4096)
            _report_ended(reports)
        if control.fileno() not in ready:
            continue
        message, descriptors, _, _ = socket.recv_fds(control, _REQUEST_BYTES_MAX, 4)
        if not message:
            os._exit(0)
        *standard, report = descriptors
        pid = os.fork()
        if not pid:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            for number, descriptor in enumerate(standard):
                os.dup2(descriptor, number)
            for descriptor in (woken, wake, report, *reports.values(), *standard):
                os.close(descriptor)
            control.detach()
            return dict(json.loads(message))
        reports[pid] = report
        os.write(report, f"{pid}\n".encode())
        for descriptor in standard:
            os.close(descriptor)


def _report_ended(reports: dict[int, int]) -> None:
    while reports:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        report = reports.pop(pid)
        with contextlib.suppress(BrokenPipeError):
            os.write(report, f"{os.waitstatus_to_exitcode(status)}\n".encode())
        os.close(report)


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


def _main() -> str:
    for name in sys.argv[1:]:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()
    return _become(_wait_for_request(socket.socket(fileno=0)))


if __name__ == "__main__":
    runpy.run_module(_main(), run_name="__main__", alter_sys=True)
