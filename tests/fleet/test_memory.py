"""Return of memory to the system."""

import platform
import subprocess
import sys

import pytest

#: Frees large blocks between small ones that stay, and prints the MiB that were not returned. The first block raises
#: the size from which the allocator returns blocks.
_PROGRAM = """
import sys
from tocsin.fleet.memory import return_large_blocks

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096 >> 20

del [bytearray(8 << 20)][:]
if sys.argv[1] == "returned":
    return_large_blocks(256 << 10)
before = resident()
blocks = [(bytearray(b"x") * (1 << 20), bytearray(2000)) for _ in range(100)]
small = [one for _, one in blocks]
del blocks
print(resident() - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only the GNU C library keeps large blocks")
def test_the_memory_of_large_payloads_is_returned() -> None:
    """After 256 large messages were received, the hub kept 400 MB."""

    def kept_mib(how: str) -> int:
        command = [sys.executable, "-c", _PROGRAM, how]
        return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)  # noqa: S603

    assert kept_mib("kept") > 50
    assert kept_mib("returned") < 20
