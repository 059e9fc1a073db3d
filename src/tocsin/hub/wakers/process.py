"""One process of a waker: started in a process group of its own, watched, and ended by its group.

Theory of operation. A thread starts the process and waits for its end. The process outlives the hub: its output goes to
a file, and a note beside it has the process id and the time of its start, so that the next hub recognises the process
and watches it on. The log is cut to its newest part whenever it has grown over its limit.
"""

import contextlib
import logging
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from tocsin.hub.hosting.time_slice import request_time_slice

__all__ = ["ProcessLimits", "ProcessNote", "WakerProcess", "is_running", "read_note"]

_log = logging.getLogger(__name__)


class ProcessLimits(msgspec.Struct, frozen=True):
    """Limits of a waker's process."""

    #: Largest log, bytes.
    log_bytes_max: int
    #: Interval at which the log, and a process of an earlier hub, are checked, seconds.
    check_s: float
    #: Time from the request to end to the forced end, seconds.
    kill_after_s: float


class ProcessNote(msgspec.Struct, frozen=True):
    """A running process, as the note beside its log names it."""

    wake: str
    #: Process id, which is also the id of its group.
    pid: int
    #: Start of the process as the system counts it; empty where the system does not tell.
    started: str


class WakerProcess:
    """A process of a waker; `ended` is called, on another thread, with the outcome, the exit code and details."""

    def __init__(
        self, wake: str, folder: Path, limits: ProcessLimits, ended: Callable[[str, str, int | None, str], None]
    ) -> None:
        self.wake = wake
        self._limits = limits
        self._ended = ended
        self._log_file = folder / f"{wake}.log"
        self._note_file = folder / f"{wake}.json"
        self._pid = 0
        self._ending = threading.Event()
        self._thread: threading.Thread | None = None

    def start(
        self, argv: list[str], environment: dict[str, str], directory: Path, after: "WakerProcess | None"
    ) -> None:
        """Start the process once an earlier one of the same agent has ended."""
        self._begin(lambda: self._run(argv, environment, directory, after))

    def adopt(self, note: ProcessNote) -> None:
        """Watch a process that an earlier hub has started."""
        self._begin(lambda: self._watch(note))

    def end(self) -> None:
        """End the process and all others of its group."""
        self._ending.set()

    def join(self, timeout_s: float | None = None) -> None:
        """Wait until the process has ended."""
        if self._thread is not None:
            self._thread.join(timeout_s)

    def _begin(self, work: Callable[[], None]) -> None:
        self._thread = threading.Thread(target=work, name=f"waker {self.wake}", daemon=True)
        self._thread.start()

    def _run(self, argv: list[str], environment: dict[str, str], directory: Path, after: "WakerProcess | None") -> None:
        if after is not None:
            after.join()
        request_time_slice(0)  # A program takes over the time slice of the thread that starts it.
        try:
            self._log_file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            output = os.open(self._log_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            try:
                process = subprocess.Popen(  # noqa: S603
                    argv,
                    cwd=directory,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,
                )
            finally:
                os.close(output)
        except (OSError, ValueError) as error:
            self._ended(self.wake, "not_started", None, f"{argv[0]} cannot be started: {error}")
            return
        self._pid = process.pid
        self._write_note()
        code: int | None = None
        while code is None:
            self._pause()
            code = process.poll()
            self._cut_log()
            if code is None and self._ending.is_set():
                code = self._end_group(process.wait)
        self._finish(code)

    def _pause(self) -> None:
        """Wait until the process ends, it is to be ended, or a check is due."""
        if self._ending.wait(0):
            return
        with contextlib.suppress(ChildProcessError):
            until = time.monotonic() + self._limits.check_s
            step = min(0.02, self._limits.check_s)
            while time.monotonic() < until and not self._ending.wait(step):
                if os.waitid(os.P_PID, self._pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
                    return
                step = min(2 * step, self._limits.check_s)

    def _watch(self, note: ProcessNote) -> None:
        self._pid = note.pid
        while is_running(note):
            if self._ending.wait(self._limits.check_s):
                self._end_group(lambda timeout: _wait_gone(note, timeout))
                break
            self._cut_log()
        self._note_file.unlink(missing_ok=True)
        self._ended(self.wake, "lost", None, "the process was started by an earlier hub and has ended")

    def _end_group(self, wait: Callable[[float], object]) -> int:
        """Ask the group to end, then end it by force."""
        _signal_group(self._pid, signal.SIGTERM)
        code: object = None
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = wait(self._limits.kill_after_s)
        _signal_group(self._pid, signal.SIGKILL)
        if code is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                code = wait(self._limits.kill_after_s)
        return code if isinstance(code, int) else -signal.SIGKILL

    def _finish(self, code: int) -> None:
        self._note_file.unlink(missing_ok=True)
        detail = f"exit code {code}" if code >= 0 else f"ended by {_signal_name(-code)}"
        self._ended(self.wake, "exited", code, detail)

    def _write_note(self) -> None:
        note = ProcessNote(self.wake, self._pid, _started(self._pid))
        try:
            self._note_file.write_bytes(msgspec.json.encode(note))
        except OSError as error:
            _log.warning("the process of wake %s cannot be noted: %s", self.wake, error)

    def _cut_log(self) -> None:
        """Keep the newest part of a log that has grown over its limit."""
        limit = self._limits.log_bytes_max
        with contextlib.suppress(OSError):
            size = self._log_file.stat().st_size
            if size > limit:
                with self._log_file.open("r+b") as file:
                    file.seek(size - limit // 2)
                    newest = file.read(limit // 2)
                    file.truncate(0)
                # The process appends, so what it writes meanwhile comes after this.
                with self._log_file.open("ab") as file:
                    file.write(newest)


def read_note(path: Path) -> ProcessNote | None:
    """Read the note of a process; null if there is none, or it cannot be read."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=ProcessNote)
    except (OSError, msgspec.DecodeError):
        return None


def is_running(note: ProcessNote) -> bool:
    """Tell whether the process of a note still runs, and is not another one with the same id."""
    try:
        os.kill(note.pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return False
    return _started(note.pid) == note.started


def _started(pid: int) -> str:
    """Return the start time of a process in the system's own count; empty for one that has ended or is unknown."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return ""
    # After the name: state is the first field, the start time the twentieth.
    return "" if fields[0] == "Z" else fields[19]


def _wait_gone(note: ProcessNote, timeout_s: float) -> int | None:
    until = time.monotonic() + timeout_s
    while time.monotonic() < until:
        if not is_running(note):
            return 0
        time.sleep(0.01)
    return None


def _signal_group(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
