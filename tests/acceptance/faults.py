"""A file system that fails when it is told to, under SQLite."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import apsw

#: What a fault does in place of a write or a sync of some file; it raises, or returns how much of the data to write.
Fault = Callable[[str, str, int], int | None]


class FaultyVFS(apsw.VFS):
    """Passes everything on to the default file system, unless a fault says otherwise."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.fault: Fault | None = None
        super().__init__(name, "")

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:  # noqa: N802
        return FaultyFile(self, name, flags)


class FaultyFile(apsw.VFSFile):
    """One file of it."""

    def __init__(self, vfs: FaultyVFS, name: Any, flags: list[int]) -> None:
        self._vfs = vfs
        self._file = name.filename() if isinstance(name, apsw.URIFilename) else str(name)
        super().__init__("", name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        fault = self._vfs.fault
        if fault is not None:
            short = fault("write", self._file, len(data))
            if short is not None:
                super().xWrite(data[:short], offset)
                raise apsw.IOError("short write")
        super().xWrite(data, offset)

    def xSync(self, flags: int) -> None:  # noqa: N802
        if self._vfs.fault is not None:
            self._vfs.fault("sync", self._file, 0)
        super().xSync(flags)


class Plan:
    """Lets some operations on some files pass and then fails, once or until told otherwise."""

    def __init__(self, what: str, file: str, error: Callable[[], Exception] | int, after: int, times: int) -> None:
        self._what, self._file, self._error = what, file, error
        self._after, self._times = after, times
        self._lock = threading.Lock()
        #: How often it struck.
        self.struck = 0

    def __call__(self, what: str, file: str, size: int) -> int | None:
        with self._lock:
            if what != self._what or not file.endswith(self._file):
                return None
            if self._after > 0:
                self._after -= 1
                return None
            if self.struck >= self._times:
                return None
            self.struck += 1
        if isinstance(self._error, int):
            return min(self._error, max(0, size - 1))
        raise self._error()


@contextmanager
def faulty_vfs(name: str) -> Iterator[FaultyVFS]:
    vfs = FaultyVFS(name)
    try:
        yield vfs
    finally:
        vfs.unregister()
