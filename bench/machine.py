"""Load of the machine by other programs, before and during a benchmark.

Load is processor time per elapsed time, in cores. The machine's total is compared with the time of this process and of
all processes that it started; the difference is other programs, plus the time that a hypervisor gave to other machines.
Kernel threads work for whoever writes to the disk, here mostly the benchmark, and are counted as neither.
"""

import os
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

__all__ = [
    "LOAD_MAX",
    "Load",
    "LoadWatch",
    "OwnTime",
    "Process",
    "Sample",
    "cpu_model",
    "measure_load",
    "running_processes",
    "take_sample",
]

#: Figures go into the docs only if other programs used at most this many cores on average, before and during a run.
LOAD_MAX = 0.2
BEFORE_S = 3.0
#: Length of the windows of which the busiest is reported, seconds.
WINDOW_S = 5.0
#: Looks at the processes in a window: those that start and end between two looks are not seen.
_LOOKS = 10
_PROC = Path("/proc")
_TICK_S = 1 / os.sysconf("SC_CLK_TCK")
_KTHREADD = 2


class Load(NamedTuple):
    """Cores that other programs used."""

    mean: float
    #: The busiest window.
    most: float


class Process(NamedTuple):
    """A process: its parent and its processor time."""

    parent: int
    #: Its own processor time and that of its ended children, ticks.
    ticks: int
    #: Its own processor time, ticks.
    alone: int = 0


def running_processes() -> dict[int, Process]:
    """Return all processes that can be seen."""
    found = {}
    for folder in _PROC.iterdir():
        if folder.name.isdigit():
            try:
                status = (folder / "stat").read_text(encoding="utf-8", errors="replace")
            except OSError:  # It has ended.
                continue
            fields = status.rpartition(")")[2].split()
            times = list(map(int, fields[11:15]))
            found[int(folder.name)] = Process(int(fields[1]), sum(times), times[0] + times[1])
    return found


def _descends(pid: int, from_pid: int, processes: dict[int, Process]) -> bool:
    for _ in range(len(processes)):
        if pid == from_pid:
            return True
        if pid not in processes:
            return False
        pid = processes[pid].parent
    return False


def _busy_ticks() -> int:
    """Return the processor time of all programs and of other machines: user, nice, system and steal."""
    fields = list(map(int, (_PROC / "stat").read_text(encoding="ascii").splitlines()[0].split()[1:]))
    return fields[0] + fields[1] + fields[2] + fields[7]


class Sample(NamedTuple):
    """Processor times at a moment."""

    at: float
    busy: int
    #: Ticks of this process and its descendants, and of the kernel's threads.
    own: int
    kernel: int


class OwnTime:
    """Processor time of this process and of all that it started.

    A process that ends gives its time to its parent, unless the parent does not wait for it, as Spark does with its
    Python workers, or has ended before. So the time of every process that was seen is kept as well. Both counts can
    only be too small, and the larger one is taken.
    """

    def __init__(self) -> None:
        self._seen: dict[int, int] = {}
        self._most = 0

    def ticks(self, processes: dict[int, Process]) -> int:
        """Return the time until now, given all processes."""
        me = os.getpid()
        own = [pid for pid in processes if pid in self._seen or _descends(pid, me, processes)]
        self._seen |= {pid: processes[pid].alone for pid in own}
        self._most = max(self._most, sum(processes[pid].ticks for pid in own), sum(self._seen.values()))
        return self._most


def take_sample(own: OwnTime) -> Sample:
    """Return the processor times of now."""
    processes = running_processes()
    kernel = sum(process.ticks for pid, process in processes.items() if _KTHREADD in (pid, process.parent))
    return Sample(time.perf_counter(), _busy_ticks(), own.ticks(processes), kernel)


def _others(first: Sample, last: Sample) -> float:
    """Return the cores that others used between two samples."""
    ticks = (last.busy - first.busy) - (last.own - first.own) - (last.kernel - first.kernel)
    return max(0.0, ticks * _TICK_S / max(last.at - first.at, 1e-9))


def measure_load(seconds: float = BEFORE_S) -> float:
    """Wait, and return the cores that other programs used meanwhile."""
    own = OwnTime()
    first = take_sample(own)
    time.sleep(seconds)
    return _others(first, take_sample(own))


class LoadWatch:
    """Watches the load in a thread while the block of a `with` statement runs."""

    def __init__(self, window_s: float = WINDOW_S) -> None:
        self._window_s = window_s
        self._own = OwnTime()
        self._samples: list[Sample] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="load", daemon=True)

    def __enter__(self) -> "LoadWatch":
        """Start to watch."""
        self._samples.append(take_sample(self._own))
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop to watch."""
        self._ended.set()
        self._thread.join()
        self._samples.append(take_sample(self._own))

    @property
    def load(self) -> Load:
        """Return the load from the start to the last sample."""
        pairs = zip(self._samples, self._samples[1:], strict=False)
        whole = _others(self._samples[0], self._samples[-1])
        windows = [_others(first, last) for first, last in pairs if last.at - first.at > self._window_s / 2]
        return Load(whole, max([whole, *windows]))

    def _watch(self) -> None:
        looks = 0
        while not self._ended.wait(self._window_s / _LOOKS):
            looks += 1
            sample = take_sample(self._own)
            if looks % _LOOKS == 0:
                self._samples.append(sample)


def cpu_model() -> str:
    """Return the number and kind of the processors."""
    lines = (_PROC / "cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{os.cpu_count()} cores{f', {models[0]}' if models else ''}"
