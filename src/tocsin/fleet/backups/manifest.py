"""The list of what a backup has: its projects and its files, with their checksums."""

import hashlib
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import Annotated

import msgspec
from msgspec import Meta

__all__ = [
    "FORMAT",
    "MANIFEST",
    "BackedUpProject",
    "BackupError",
    "BackupFile",
    "Manifest",
    "checksum_of",
    "read_manifest",
    "verify_files",
]

#: Name of the list in a backup.
MANIFEST = "backup.json"
#: Version of the layout of a backup.
FORMAT = 1
_CHUNK_BYTES = 1 << 20


class BackupError(Exception):
    """A backup cannot be made, is damaged, or cannot be restored where it was asked for."""


class BackupFile(msgspec.Struct, frozen=True):
    """One file of a backup."""

    #: Path in the backup.
    path: str
    size: int
    sha256: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]


class BackedUpProject(msgspec.Struct, frozen=True):
    """One project of a backup."""

    project: str
    #: Folder in the backup, and in the data folder; `.` for the home project.
    folder: str
    #: Number of its last event.
    last_seq: int


class Manifest(msgspec.Struct, frozen=True):
    """What a backup has."""

    format: int
    #: Version of Tocsin that made it.
    version: str
    #: When it was begun; everything that was confirmed before is in it.
    begun_at: datetime
    projects: list[BackedUpProject]
    files: list[BackupFile]

    def find(self, project: str) -> BackedUpProject:
        """Return a project, or raise."""
        for one in self.projects:
            if one.project == project:
                return one
        known = ", ".join(one.project for one in self.projects)
        raise BackupError(f"the backup has no project {project}; it has {known}")

    def files_of(self, project: BackedUpProject) -> list[BackupFile]:
        """Return the files of a project."""
        if project.folder != ".":
            return [file for file in self.files if file.path.startswith(f"{project.folder}/")]
        folders = tuple(f"{one.folder}/" for one in self.projects if one.folder != ".")
        return [file for file in self.files if not file.path.startswith(folders)]


def read_manifest(folder: Path) -> Manifest:
    """Read the list of a backup, and refuse one that is damaged, of another version, or names files elsewhere."""
    try:
        found = msgspec.json.decode((folder / MANIFEST).read_bytes(), type=Manifest)
    except FileNotFoundError:
        raise BackupError(f"{folder} is not a backup: it has no {MANIFEST}") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BackupError(f"the backup is damaged: {MANIFEST} cannot be read: {error}") from None
    if found.format != FORMAT:
        raise BackupError(f"the backup has layout {found.format}; this version of Tocsin reads layout {FORMAT}")
    for path in [*(file.path for file in found.files), *(one.folder for one in found.projects)]:
        parts = PurePosixPath(path).parts
        if path.startswith("/") or ".." in parts or "\0" in path:
            raise BackupError(f"the backup is damaged: {MANIFEST} names a file outside of it")
    return found


def verify_files(folder: Path, files: list[BackupFile]) -> None:
    """Refuse a backup in which a file is missing or has another content than the list says."""
    for file in files:
        path = folder / file.path
        if path.is_symlink() or not path.is_file():
            raise BackupError(f"the backup is damaged: {file.path} is missing")
        found = checksum_of(path)
        if found != file.sha256:
            raise BackupError(f"the backup is damaged: {file.path} does not match its checksum in {MANIFEST}")


def checksum_of(path: Path) -> str:
    """Return the SHA-256 of a file."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()
