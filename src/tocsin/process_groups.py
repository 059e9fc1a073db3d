"""Process groups: signals to all members, and whether a member is left.

A program that is started as the leader of a group is ended by its group, so that the programs that it has started end
with it. A program that moves to a group or session of its own (`setsid`, a daemon) is not a member any more.
"""

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

__all__ = ["end_group", "has_members", "members", "signal_group"]

_PROCESSES = Path("/proc")


def signal_group(group: int, number: int) -> None:
    """Send a signal to all members of a group; one that has ended is no error."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def end_group(group: int) -> None:
    """Ask all members of a group to end, also those that are stopped."""
    signal_group(group, signal.SIGTERM)
    signal_group(group, signal.SIGCONT)


def has_members(group: int) -> bool:
    """Tell whether a group has a running member."""
    try:
        os.killpg(group, 0)
    except (ProcessLookupError, PermissionError):
        return False
    # The group exists until its last member was reaped; where the system lists processes, those do not count.
    return not _PROCESSES.joinpath("self").exists() or any(True for _ in members(group))


def members(group: int) -> Iterator[int]:
    """Iterate over the running members of a group, where the system lists processes under `/proc`."""
    for path in _PROCESSES.glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            # After the name come the state, the parent and the group.
            state, _, found = path.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[:3]
            if int(found) == group and state not in "ZX":
                yield int(path.parent.name)
