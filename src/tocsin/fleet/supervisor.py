"""The supervisor of a hub's workers: starts them, restarts those that die, and stops them in order.

It serves nothing itself. The port and the sockets between the workers are its own, and every worker inherits them. So a
worker that is started again takes up the connections that were passed to it meanwhile.
"""

import contextlib
import logging
import os
import select
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Sequence

import msgspec

from tocsin.fleet.worker import WORKER_ENVIRONMENT, WorkerSockets

__all__ = ["Supervisor"]

_log = logging.getLogger("tocsin.supervisor")
_LOOK_S = 0.05
_BACKOFF_S = (0.0, 0.1, 0.5, 1.0, 2.0, 5.0)
#: A worker that has served for this long starts again without delay, seconds.
_STEADY_S = 30.0


class _Worker:
    """One worker process and its sockets."""

    def __init__(self) -> None:
        self.send, self.receive = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self.process: subprocess.Popen[bytes] | None = None
        self.ready: int | None = None
        self.started_at = 0.0
        self.failures = 0
        self.start_at = 0.0
        self.served = False


class Supervisor:
    """Runs workers until it is told to stop."""

    def __init__(self, command: Sequence[str], listener: socket.socket, workers: int) -> None:
        self._command = list(command)
        self._listener = listener
        self._workers = [_Worker() for _ in range(workers)]
        self._stopping = False
        self._code = 0
        #: Nothing is written here; workers see it end.
        self._life, self._alive = os.pipe()

    def run(self, started: Callable[[], None], timeout_s: float) -> int:
        """Run the workers; call `started` once all of them serve; return an exit code.

        A worker that fails before it has ever served ends all of them, with its exit code. `timeout_s` is the time for
        workers to end before they are killed.
        """
        for name in (signal.SIGTERM, signal.SIGINT):
            signal.signal(name, self._stop)
        told = False
        while not self._stopping:
            for number, worker in enumerate(self._workers):
                if worker.process is None and time.monotonic() >= worker.start_at:
                    self._start(number, worker)
            self._look()
            if not told and all(worker.served for worker in self._workers):
                told = True
                started()
        self._end(timeout_s)
        return self._code

    def _stop(self, number: int, frame: object) -> None:
        self._stopping = True

    def _start(self, number: int, worker: _Worker) -> None:
        reading, writing = os.pipe()
        os.set_inheritable(writing, True)
        sockets = WorkerSockets(
            worker=number,
            listener=self._listener.fileno(),
            received=worker.receive.fileno(),
            others=[one.send.fileno() for one in self._workers],
            ready=writing,
            supervisor=self._life,
        )
        fds = [sockets.listener, sockets.received, *sockets.others, writing, self._life]
        environment = os.environ | {WORKER_ENVIRONMENT: msgspec.json.encode(sockets).decode()}
        worker.process = subprocess.Popen(self._command, env=environment, pass_fds=fds, start_new_session=True)  # noqa: S603
        os.close(writing)
        worker.ready, worker.started_at = reading, time.monotonic()

    def _look(self) -> None:
        """Wait a moment for workers that begin to serve or that end."""
        waiting = [worker.ready for worker in self._workers if worker.ready is not None]
        with contextlib.suppress(InterruptedError):
            if waiting:
                select.select(waiting, [], [], _LOOK_S)
            else:
                time.sleep(_LOOK_S)
        for number, worker in enumerate(self._workers):
            if worker.ready is not None and select.select([worker.ready], [], [], 0)[0]:
                worker.served = worker.served or bool(os.read(worker.ready, 1))
                os.close(worker.ready)
                worker.ready = None
            if worker.process is not None and (code := worker.process.poll()) is not None:
                self._ended(number, worker, code)

    def _ended(self, number: int, worker: _Worker, code: int) -> None:
        lasted_s = time.monotonic() - worker.started_at
        worker.process = None
        if self._stopping:
            return
        if not worker.served:
            self._stopping, self._code = True, code if code > 0 else 1
            return
        worker.failures = 0 if lasted_s >= _STEADY_S else worker.failures + 1
        pause_s = _BACKOFF_S[min(worker.failures, len(_BACKOFF_S) - 1)]
        worker.start_at = time.monotonic() + pause_s
        fields = {"worker": number, "code": code, "restart_in_s": pause_s}
        _log.error("a worker has ended and is started again", extra={"fields": fields})

    def _end(self, timeout_s: float) -> None:
        running = [worker.process for worker in self._workers if worker.process is not None]
        for process in running:
            process.terminate()
        until = time.monotonic() + timeout_s
        for process in running:
            try:
                code = process.wait(max(0.0, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                _log.error("a worker did not end in time and is killed", extra={"fields": {"process": process.pid}})
                process.kill()
                code = process.wait()
            self._code = self._code or (code if code > 0 else 0)
