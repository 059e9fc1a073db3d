"""Copies of the data folders that earlier versions have left."""

import tarfile
from pathlib import Path
from typing import Any

import msgspec

__all__ = ["FOLDERS", "Earlier"]

FOLDERS = sorted((Path(__file__).parents[1] / "fixtures" / "upgrade").iterdir())


class Earlier:
    """A copy of what one version has left."""

    def __init__(self, source: Path, scratch: Path) -> None:
        self._source, self._scratch = source, scratch
        self.expected: dict[str, Any] = msgspec.json.decode((source / "expected.json").read_bytes())

    def data(self, store: str) -> Path:
        """Return a copy of its data folder for a store."""
        to = self._scratch / store
        with tarfile.open(self._source / f"{store}.tar.xz") as tar:
            tar.extractall(to, filter="data")
        return to / "hub"
