"""Syncing of files and folders."""

import os
from pathlib import Path

__all__ = ["sync_file"]


def sync_file(path: Path) -> None:
    """Bring a file, or the entries of a folder, to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
