"""Return of memory to the system after projects were closed.

The allocator of the C library keeps what threads have freed. A process that opened many projects at the same time would
keep the memory of all of them.
"""

import contextlib
import ctypes

__all__ = ["return_memory"]


def return_memory() -> None:
    """Return freed memory to the system, where the C library can."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
