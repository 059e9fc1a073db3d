"""Time slices of threads, requested from the Linux scheduler.

A thread that has waited for a disk or a socket gets a busy processor only when its own time slice would end before that
of the thread that runs there. With the kernel's default all slices are equally long, so it waits for the next tick of
the scheduler, up to 4 ms each time. A thread with a shorter slice runs at once. Its share of the processor is the same.

Linux 6.12 and newer take such requests; earlier versions and other systems ignore them.
"""

import ctypes
import platform

__all__ = ["request_time_slice", "time_slice_s"]

#: Numbers of the system calls `sched_setattr` and `sched_getattr`, which the C library does not always have.
_CALLS = {"x86_64": (314, 315), "aarch64": (274, 275)}
#: Scheduling policies whose threads have a time slice: the normal one, and the one for batches.
_FAIR = (0, 3)


class _Attributes(ctypes.Structure):
    """The kernel's `struct sched_attr`, in its first version."""

    _fields_ = (
        ("size", ctypes.c_uint32),
        ("policy", ctypes.c_uint32),
        ("flags", ctypes.c_uint64),
        ("nice", ctypes.c_int32),
        ("priority", ctypes.c_uint32),
        ("runtime", ctypes.c_uint64),
        ("deadline", ctypes.c_uint64),
        ("period", ctypes.c_uint64),
    )


def request_time_slice(slice_s: float) -> None:
    """Request a time slice for this thread and those that it starts from now on; 0 is the kernel's default."""
    found = _attributes()
    if found is None or found.policy not in _FAIR:
        return
    found.runtime = round(slice_s * 1e9)
    _call(0, ctypes.byref(found), 0)


def time_slice_s() -> float:
    """Return the time slice of this thread in seconds; 0 where the system does not tell."""
    found = _attributes()
    return 0.0 if found is None else float(found.runtime / 1e9)


def _attributes() -> _Attributes | None:
    found = _Attributes()
    return None if _call(1, ctypes.byref(found), ctypes.sizeof(found), 0) else found


def _call(which: int, *arguments: object) -> int:
    """Make one of the system calls for this thread; return 0, or another number if it is refused or does not exist."""
    numbers = _CALLS.get(platform.machine())
    if platform.system() != "Linux" or numbers is None:
        return -1
    return int(ctypes.CDLL(None).syscall(numbers[which], 0, *arguments))
