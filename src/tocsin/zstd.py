"""Zstandard compression: from the standard library since Python 3.14, from its backport before."""

import sys

if sys.version_info >= (3, 14):
    from compression.zstd import ZstdError, compress, decompress, open  # noqa: A004
else:
    from backports.zstd import ZstdError, compress, decompress, open  # noqa: A004

__all__ = ["ZstdError", "compress", "decompress", "open"]
