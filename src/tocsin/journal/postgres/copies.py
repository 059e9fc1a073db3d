"""Durability of a commit on a PostgreSQL server: the number of nodes that have it when it returns."""

import re
from functools import cache

from tocsin.journal.base import BUFFERED, FLUSHED, REPLICATED, Commit

__all__ = ["commit_of", "standbys_awaited"]

_COUNTED = re.compile(r"^\s*(?:FIRST|ANY)?\s*(\d+)\s*\(", re.IGNORECASE)


@cache
def commit_of(standby_names: str, synchronous_commit: str) -> Commit:
    """Return the durability of a commit under a server's settings."""
    if synchronous_commit == "off":
        return Commit(BUFFERED, 1)
    awaited = standbys_awaited(standby_names)
    if not awaited or synchronous_commit in ("local", "remote_write"):
        return Commit(FLUSHED, 1)
    return Commit(REPLICATED if synchronous_commit == "remote_apply" else FLUSHED, 1 + awaited)


def standbys_awaited(standby_names: str) -> int:
    """Return the number of standbys that a commit waits for."""
    if not standby_names.strip():
        return 0
    counted = _COUNTED.match(standby_names)
    return int(counted.group(1)) if counted else 1
