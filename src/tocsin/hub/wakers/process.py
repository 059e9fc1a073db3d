"""One process of a waker: started in a process group of its own, watched, and ended with its group.

Theory of operation. A thread starts the process and waits for its end. When the process has ended, by itself or not,
what it has left in its group is ended too, so that a retry does not run beside the remains of an attempt. Only a waker
that says so may leave programs behind: those of a process that has ended with 0 run on, unless the wake fails.

The process outlives the hub: its output goes through a pipe to a log keeper, which is a process too, and a note beside
the log has the process id and the time of its start, so that the next hub recognises the process and watches it on.
"""

import contextlib
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from tocsin.hub.hosting.time_slice import request_time_slice
from tocsin.hub.wakers import log_keeper
from tocsin.process_groups import end_group, has_members, members, signal_group
from tocsin.wire.explanations import WAKER_REASON

__all__ = ["ProcessLimits", "ProcessNote", "WakerProcess", "is_running", "read_note"]

_log = logging.getLogger(__name__)
#: End of the output in which a failed process may say why, bytes.
_REASON_BYTES_MAX = 1000
#: Interval at which a group that ends is looked at, seconds.
_LOOK_S = 0.01


class ProcessLimits(msgspec.Struct, frozen=True):
    """Limits of a waker's process."""

    #: Largest log, bytes.
    log_bytes_max: int
    #: Longest interval at which the process is checked, seconds.
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
        self,
        wake: str,
        folder: Path,
        limits: ProcessLimits,
        ended: Callable[[str, str, int | None, str], None],
        *,
        leaves_programs: bool,
    ) -> None:
        self.wake = wake
        self._limits = limits
        self._ended = ended
        self._leaves_programs = leaves_programs
        self._log_file = folder / f"{wake}.log"
        self._note_file = folder / f"{wake}.json"
        self._pid = 0
        self._ending = threading.Event()
        self._settled = threading.Event()
        self._over = threading.Event()

    def start(
        self, argv: list[str], environment: dict[str, str], directory: Path, after: "WakerProcess | None"
    ) -> None:
        """Start the process once an earlier one of the same agent has ended."""
        self._begin(lambda: self._run(argv, environment, directory, after))

    def adopt(self, note: ProcessNote) -> None:
        """Watch a process that an earlier hub has started, or end what it has left if it has ended since."""
        self._begin(lambda: self._watch(note))

    def end(self) -> None:
        """End the process and all others of its group."""
        self._ending.set()

    def settle(self) -> None:
        """Leave the programs alone that the process may leave behind: the wake has worked, or is not needed."""
        self._settled.set()

    def join(self) -> None:
        """Wait until the process has ended, and what it may not leave."""
        self._over.wait()

    def _begin(self, work: Callable[[], None]) -> None:
        threading.Thread(target=work, name=f"waker {self.wake}", daemon=True).start()

    def _run(self, argv: list[str], environment: dict[str, str], directory: Path, after: "WakerProcess | None") -> None:
        if after is not None:
            after.join()
        request_time_slice(0)  # A program takes over the time slice of the thread that starts it.
        try:
            keeper, process = self._start(argv, environment, directory)
        except (OSError, ValueError) as error:
            self._ended(self.wake, "not_started", None, f"{argv[0]} cannot be started: {error}")
            self._over.set()
            return
        self._pid = process.pid
        self._write_note()
        stays = self._succeeded() and self._leaves_programs
        if not stays:
            self._end_group()
            with contextlib.suppress(subprocess.TimeoutExpired):  # A program that has left the group keeps it open.
                keeper.wait(self._limits.kill_after_s)
        try:
            code = process.wait(self._limits.kill_after_s)
        except subprocess.TimeoutExpired:
            code = -signal.SIGKILL
        self._finish(code)
        if stays:
            self._look_after()
        self._over.set()
        keeper.wait()

    def _start(
        self, argv: list[str], environment: dict[str, str], directory: Path
    ) -> "tuple[subprocess.Popen[bytes], subprocess.Popen[bytes]]":
        """Start the log keeper and the program, whose output the keeper reads."""
        self._log_file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        keep = [sys.executable, "-I", "-S", log_keeper.__file__, str(self._limits.log_bytes_max)]
        nothing = subprocess.DEVNULL
        source, sink = os.pipe()
        try:
            with os.fdopen(os.open(self._log_file, os.O_WRONLY | os.O_CREAT, 0o600), "wb") as log:
                keeper = subprocess.Popen(  # noqa: S603
                    keep, cwd="/", stdin=source, stdout=log, stderr=nothing, start_new_session=True
                )
            try:
                process = subprocess.Popen(  # noqa: S603
                    argv,
                    cwd=directory,
                    env=environment,
                    stdin=nothing,
                    stdout=sink,
                    stderr=sink,
                    start_new_session=True,
                )
            except BaseException:
                keeper.kill()
                keeper.wait()
                raise
        finally:
            os.close(source)
            os.close(sink)
        return keeper, process

    def _succeeded(self) -> bool:
        """Wait until the process ends or is to be ended; return whether it ended with 0. It is not reaped."""
        step = min(0.02, self._limits.check_s)
        while not self._ending.wait(step):
            try:
                found = os.waitid(os.P_PID, self._pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return False
            if found is not None:
                return found.si_code == os.CLD_EXITED and found.si_status == 0
            step = min(2 * step, self._limits.check_s)
        return False

    def _look_after(self) -> None:
        """Wait until the wake has worked, or end the programs that the process has left if it fails."""
        while not self._settled.is_set() and has_members(self._pid):
            if self._ending.wait(self._limits.check_s):
                self._end_group()
                return

    def _watch(self, note: ProcessNote) -> None:
        self._pid = note.pid
        while is_running(note) and not self._ending.wait(self._limits.check_s):
            pass
        # The number of a group that has ended may be another's by now.
        may_stay = self._leaves_programs and not self._ending.is_set()
        if not may_stay and (is_running(note) or _is_of_wake(note)):
            self._end_group()
        self._note_file.unlink(missing_ok=True)
        self._ended(self.wake, "lost", None, "the process was started by an earlier hub and has ended")
        self._over.set()

    def _end_group(self) -> None:
        """Ask the group to end, then end it by force."""
        if has_members(self._pid):
            end_group(self._pid)
            if not self._gone():
                signal_group(self._pid, signal.SIGKILL)
                self._gone()

    def _gone(self) -> bool:
        """Wait until the group has no members; return whether it has none."""
        until = time.monotonic() + self._limits.kill_after_s
        while has_members(self._pid):
            if time.monotonic() > until:
                return False
            time.sleep(_LOOK_S)
        return True

    def _finish(self, code: int) -> None:
        self._note_file.unlink(missing_ok=True)
        detail = f"exit code {code}" if code >= 0 else f"ended by {_signal_name(-code)}"
        if code:
            detail += self._reason()
        self._ended(self.wake, "exited", code, detail)

    def _reason(self) -> str:
        """Return why the process has failed, if the last line of its output says so in the form of our own wakers."""
        try:
            with self._log_file.open("rb") as log:
                log.seek(max(0, log.seek(0, os.SEEK_END) - _REASON_BYTES_MAX))
                lines = log.read().decode(errors="replace").splitlines()
        except OSError:
            return ""
        return f": {lines[-1].removeprefix(WAKER_REASON)}" if lines and lines[-1].startswith(WAKER_REASON) else ""

    def _write_note(self) -> None:
        note = ProcessNote(self.wake, self._pid, _started(self._pid))
        try:
            self._note_file.write_bytes(msgspec.json.encode(note))
        except OSError as error:
            _log.warning("the process of wake %s cannot be noted: %s", self.wake, error)


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


def _is_of_wake(note: ProcessNote) -> bool:
    """Tell whether a group that a process has left is that of its wake, as the environment of a member says."""
    variable = f"TOCSIN_WAKE={note.wake}".encode()
    for pid in members(note.pid):
        with contextlib.suppress(OSError):
            if variable in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                return True
    return False


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
