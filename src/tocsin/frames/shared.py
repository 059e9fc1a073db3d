"""Blocks of shared memory, as words and as bytes; the process that created a block removes it."""

import sys
from multiprocessing.shared_memory import SharedMemory


class SharedWords:
    """Shared memory seen as unsigned 64-bit words, and as bytes."""

    __slots__ = ("_memory", "_owned", "bytes", "name", "open", "words")

    def __init__(self, memory: SharedMemory, *, owned: bool) -> None:
        self._memory = memory
        self._owned = owned
        #: Name under which other processes open it.
        self.name = memory.name
        #: The block as bytes.
        self.bytes = memoryview(memory.buf or b"")
        #: The block as words.
        self.words = self.bytes.cast("Q")
        #: False after `close`.
        self.open = True

    @classmethod
    def create(cls, words: int) -> "SharedWords":
        """Create a block of zeros; it is removed when its creator closes it."""
        return cls(SharedMemory(create=True, size=words * 8), owned=True)

    @classmethod
    def attach(cls, name: str) -> "SharedWords":
        """Open a block that another process created; raise FileNotFoundError if it was removed.

        Only the creator removes it. Before Python 3.13 this process is also registered with the resource tracker, which
        is harmless: processes of one family share the tracker, and it has each block once.
        """
        if sys.version_info >= (3, 13):
            return cls(SharedMemory(name, track=False), owned=False)
        return cls(SharedMemory(name), owned=False)

    def close(self) -> None:
        """Close the block, and remove it if this process created it. Raise BufferError while a view of it is in use."""
        if self.open:
            self.open = False
            self.words.release()
            self.bytes.release()
            if self._owned:
                self._memory.unlink()
        self._memory.close()
