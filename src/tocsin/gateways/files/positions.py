"""Stored positions: how far the files of agents have been read, and how far the channels have been written.

A position is saved after the work before it is durable. So after a crash some work is repeated, and none is left out.
Message ids and the last lines of the files make the repetition harmless.
"""

import os
from pathlib import Path
from typing import TypeVar

import msgspec

__all__ = ["FileAgentState", "Position", "PositionStore", "Progress"]

Kept = TypeVar("Kept")


class Position(msgspec.Struct, frozen=True):
    """Position in one file of an agent, and data to recognise the file."""

    #: Inode number of the file, by which it is found after it was renamed.
    inode: int = 0
    #: Bytes read, up to the end of a line.
    offset: int = 0
    #: Number of the channel's content, raised when it is replaced; part of the ids of lines that have none.
    generation: int = 0
    #: Fingerprint of its first `head_bytes` bytes.
    head: str = ""
    head_bytes: int = 0
    #: Fingerprint of the bytes before `offset`.
    tail: str = ""
    #: Whether the rest of a line that was too long or too late is being skipped.
    skipping: bool = False
    #: Size of the file when it was last read.
    seen_bytes: int = 0


class FileAgentState(msgspec.Struct):
    """Stored state of one file agent."""

    #: The session that its messages are offered to.
    session: str = ""
    #: Its files, by directory.
    files: dict[str, Position] = {}


class Progress(msgspec.Struct):
    """Position of the channels in the journal, and the journal's id."""

    written_seq: int = 0
    #: Random id, made when the journal is first read; another journal in the same place gets another one.
    journal_id: str = ""


class PositionStore:
    """A directory of small documents, each replaced as a whole."""

    def __init__(self, path: Path) -> None:
        self._path = path
        path.mkdir(parents=True, exist_ok=True, mode=0o700)

    def load(self, name: str, kind: type[Kept]) -> Kept:
        """Return a document, or a new one if there is none that can be read."""
        try:
            return msgspec.json.decode((self._path / f"{name}.json").read_bytes(), type=kind)
        except (FileNotFoundError, msgspec.DecodeError):
            return kind()

    def save(self, name: str, document: object) -> None:
        """Replace a document; it is on disk when this returns."""
        temporary = self._path / f".{name}.json"
        with temporary.open("wb") as file:
            file.write(msgspec.json.encode(document))
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self._path / f"{name}.json")
        folder = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
