"""Keeps the newest part of a wake's output: a program of its own, which reads a pipe until all writers have closed it.

Its input is the pipe, its output the log, its argument the largest size in bytes. It is a process and not a thread of
the hub because a wake outlives the hub: a program that writes to a pipe without a reader is ended by SIGPIPE, and one
whose reader does not read stops. It reads all the time, so the program is slowed down at most, and the hub not at all.
A limit of the system on file sizes (RLIMIT_FSIZE) would also end the program when it writes any other large file.

It is started with `python -I -S`, so it imports nothing but the standard library.
"""

import contextlib
import os
import signal
import sys

__all__: list[str] = []

_INPUT, _LOG = 0, 1
_READ_BYTES = 65_536


def _keep(log_bytes_max: int) -> None:
    """Copy the input to the log; when that is full, it goes on with the newest half."""
    newest = b""
    while part := os.read(_INPUT, _READ_BYTES):
        # A full disk must not end the program that writes.
        with contextlib.suppress(OSError):
            if len(newest) + len(part) <= log_bytes_max:
                os.pwrite(_LOG, part, len(newest))
                newest += part
            else:
                newest = (newest + part)[-(log_bytes_max // 2) :]
                os.pwrite(_LOG, newest, 0)
                os.ftruncate(_LOG, len(newest))


if __name__ == "__main__":
    # It ends after the program, also when everything is asked to end at the same time.
    for _number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(_number, signal.SIG_IGN)
    _keep(int(sys.argv[1]))
