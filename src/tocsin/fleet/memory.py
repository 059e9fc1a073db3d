"""Return of memory to the system after large messages, and after projects were closed.

The allocator of the C library keeps what threads have freed. A process that had many large messages, or opened many
projects at the same time, would keep the memory of all of them.
"""

import contextlib
import ctypes

__all__ = ["return_large_blocks", "return_memory"]

#: `M_MMAP_THRESHOLD` of the GNU C library.
_MMAP_THRESHOLD = -3


def return_memory() -> None:
    """Return freed memory to the system, where the C library can."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def return_large_blocks(bytes_min: int) -> None:
    """Let blocks of at least this size be returned to the system as soon as they are freed, where the C library can.

    By default the GNU C library raises that size to the largest block that was freed, up to 32 MiB, and keeps what is
    smaller.
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_MMAP_THRESHOLD, bytes_min)
