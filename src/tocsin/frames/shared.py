"""A block of shared memory as words and as bytes, with an owner that removes it and guests that only look."""

import sys
from multiprocessing.shared_memory import SharedMemory


class SharedWords:
    """Shared memory seen as unsigned 64-bit words, and as bytes."""

    __slots__ = ("_memory", "_owned", "bytes", "name", "open", "words")

    def __init__(self, memory: SharedMemory, *, owned: bool) -> None:
        self._memory = memory
        self._owned = owned
        #: The name under which others find it.
        self.name = memory.name
        #: The block as bytes.
        self.bytes = memoryview(memory.buf or b"")
        #: The block as words.
        self.words = self.bytes.cast("Q")
        #: False after `close`.
        self.open = True

    @classmethod
    def create(cls, words: int) -> "SharedWords":
        """Make a block of zeros, to be removed when its maker closes it."""
        return cls(SharedMemory(create=True, size=words * 8), owned=True)

    @classmethod
    def attach(cls, name: str) -> "SharedWords":
        """Open a block that another process made; raise FileNotFoundError when it is gone.

        Its removal is its maker's affair. Before Python 3.13 the guest is entered with the resource tracker all the
        same, which is harmless: processes of one family share the tracker, and it knows each block once.
        """
        if sys.version_info >= (3, 13):
            return cls(SharedMemory(name, track=False), owned=False)
        return cls(SharedMemory(name), owned=False)

    def close(self) -> None:
        """Let go of the block, and remove it if it is one's own. Raise BufferError while someone holds a view of it."""
        if self.open:
            self.open = False
            self.words.release()
            self.bytes.release()
            if self._owned:
                self._memory.unlink()
        self._memory.close()
