"""Floor for the journal benchmark: an append-only file with one `fdatasync` per group.

It can only be written: no reading, no tables, no ownership. Real journals are compared with it.
"""

import math
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tocsin.journal.base import FLUSHED, Commit, Group
from tocsin.journal.checksums import Seals
from tocsin.journal.columns import Table
from tocsin.journal.errors import TablesDamaged
from tocsin.journal.tables import Batch, Standing
from tocsin.journal.terms import OwnershipTerms


class FloorJournal:
    """A journal that can only be appended to."""

    project = "floor"
    epoch = 1
    terms: OwnershipTerms | None = None
    commit_timeout_s: float | None = None

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._last_seq = 0
        self._commit = Commit(FLUSHED, 1)

    def append(self, group: Group) -> Commit:
        os.write(self._descriptor, group.events)
        os.fdatasync(self._descriptor)
        self._last_seq = group.last_seq
        return self._commit

    def read(self, after_seq: int, limit: int = 0) -> Iterator[Group]:
        return iter(())

    def last_seq(self) -> int:
        return self._last_seq

    def last_at(self) -> int:
        return 0

    def pruned_seq(self) -> int:
        return 0

    def prune(self, upto_seq: int, before_at: int, limit: int) -> int:
        return 0

    def harden(self) -> None:
        pass

    def probe(self) -> Commit:
        return self._commit

    def announce(self, seq: int) -> None:
        pass

    def recover(self) -> None:
        pass

    def renew(self) -> None:
        pass

    def lease_left_s(self) -> float:
        return math.inf

    def reset_tables(self, error: TablesDamaged) -> None:
        raise error

    def tables(self) -> Any:
        return _NoTables()

    def close(self) -> None:
        os.close(self._descriptor)


class _NoTables:
    """Tables that store nothing."""

    def standing(self) -> Standing:
        return Standing()

    def write(self, batch: Batch) -> None:
        pass

    def harden(self) -> None:
        pass

    def back_up(self, pause: Callable[[], None]) -> int:
        return 0

    def backed_up_seq(self) -> int:
        return 0

    def rows(self, table: Table, where: str = "", order: str = "") -> Iterator[tuple[Any, ...]]:
        return iter(())

    def stored_queue(self, name: str, seals: Seals | None = None) -> list[tuple[int, int]]:
        return []

    def index(self, limit: int) -> int:
        return 0

    def prune(self, before_at: int, limit: int) -> int:
        return 0

    def exported_seq(self) -> int:
        return 0

    def close(self) -> None:
        pass
