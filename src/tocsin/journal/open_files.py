"""Open files of this process: whether they have run out, and a report of that in the log.

A process that has as many open files as it may can open no database and accept no connection. Everything that was open
goes on. The report names the limit and how to raise it; a shortage that lasts is reported again at an interval, with
the number of failures since, so that a hub that is asked thousands of times does not fill its log.
"""

import errno
import logging
import os
import resource
import time
from pathlib import Path

__all__ = ["OPEN_FILES", "TOO_MANY_FILES", "OpenFiles", "count", "limit", "ran_out", "reason_of"]

#: Reason of a journal's error that comes from a lack of open files.
TOO_MANY_FILES = "too_many_files"

_log = logging.getLogger("tocsin.hub")
#: Interval at which a shortage that lasts is reported again, seconds.
_AGAIN_S = 60.0
_FOLDER = Path("/dev/fd")


def limit() -> int:
    """Return how many open files this process may have; -1 is no limit."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def count() -> int:
    """Return how many open files this process has; none is left to count them with where they have run out."""
    try:
        return sum(1 for _ in _FOLDER.iterdir()) - 1  # without that of the folder
    except OSError:
        return limit()


def ran_out(error: Exception) -> bool:
    """Tell whether an error of the system comes from a lack of open files."""
    return isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE)


def reason_of(error: Exception, otherwise: str) -> str:
    """Return the reason of a journal's error: a lack of open files, or the other one.

    SQLite and libpq do not tell the number of the system's error, so this tries to open another file.
    """
    if isinstance(error, OSError):
        return TOO_MANY_FILES if ran_out(error) else otherwise
    try:
        os.close(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
    except OSError as failed:
        return reason_of(failed, otherwise)
    return otherwise


class OpenFiles:
    """Reports that open files have run out, at most once in an interval."""

    def __init__(self, again_s: float = _AGAIN_S) -> None:
        self._again_s = again_s
        self._reported_at: float | None = None
        #: Failures since the last report.
        self._failures = 0

    def report(self, what: str, error: BaseException) -> None:
        """Report what failed for a lack of open files."""
        now = time.monotonic()
        self._failures += 1
        if self._reported_at is not None and now - self._reported_at < self._again_s:
            return
        fields = {"open_files": count(), "limit": limit(), "failures": self._failures}
        self._reported_at, self._failures = now, 0
        _log.error(
            "open files have run out, and %s: %s. Raise the limit of this process, %d (RLIMIT_NOFILE), with"
            " LimitNOFILE= in the systemd unit, --ulimit nofile= of the container or `ulimit -n`, or fs.file-max if"
            " that of the whole system is reached; or lower connections_max and socket.connections_max",
            *(what, error, limit()),
            extra={"fields": fields},
        )


#: The limit is that of the process, and so is the report.
OPEN_FILES = OpenFiles()
