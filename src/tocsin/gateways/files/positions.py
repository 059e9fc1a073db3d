"""How far the gateway is, kept where only the hub can write: what it has read of each file, what it has written.

A position is saved after what it stands for is durable. So after a crash something is done again, never left out; that
doing it again changes nothing is the business of message ids and of the files' own tails.
"""

import os
from pathlib import Path
from typing import TypeVar

import msgspec

__all__ = ["Attended", "Notebook", "Position", "Progress"]

Kept = TypeVar("Kept")


class Position(msgspec.Struct, frozen=True):
    """How far one file of an agent's has been read, and how to know it again."""

    #: Which file it was: an inode number, so that it is found under another name.
    inode: int = 0
    #: Bytes read, up to the end of a line.
    offset: int = 0
    #: Which content of the channel this is, counted; part of the ids of lines that have none.
    generation: int = 0
    #: Fingerprint of its first `head_bytes` bytes.
    head: str = ""
    head_bytes: int = 0
    #: Fingerprint of the bytes before `offset`.
    tail: str = ""
    #: Whether the rest of a line that was too long or came too late is being passed over.
    skipping: bool = False
    #: Its size when it was last looked at.
    seen_bytes: int = 0


class Attended(msgspec.Struct):
    """What is remembered of one file agent."""

    #: The session that its messages are offered to.
    session: str = ""
    #: Its files, by directory.
    files: dict[str, Position] = {}


class Progress(msgspec.Struct):
    """How far the channels follow the journal, and which journal that is."""

    written_seq: int = 0
    #: Made up when the journal is first followed; another journal in the same place gets another.
    journal_id: str = ""


class Notebook:
    """A directory of small documents, each replaced as a whole."""

    def __init__(self, path: Path) -> None:
        self._path = path
        path.mkdir(parents=True, exist_ok=True, mode=0o700)

    def load(self, name: str, kind: type[Kept]) -> Kept:
        """Return a document, or a fresh one where there is none that can be read."""
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
