"""Making a backup of one project or of all projects of a data folder, while a hub serves them.

A backup is a folder with the layout of the data folder, and a list of its files with checksums. It is written under a
temporary name, verified, and renamed at the end: a folder of the final name is complete.
"""

import errno
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from tocsin import __version__
from tocsin.core.errors import TocsinError, refusal
from tocsin.fleet.backups.manifest import (
    FORMAT,
    MANIFEST,
    BackedUpProject,
    BackupError,
    BackupFile,
    Manifest,
    checksum_of,
)
from tocsin.fleet.folder import INDEX, PROJECTS
from tocsin.hub.auth.sqlite_grants import project_of_grants
from tocsin.journal.errors import JournalError
from tocsin.journal.files import sync_file
from tocsin.journal.sqlite.copying import copy_database, copy_project
from tocsin.journal.sqlite.verification import verify_directory

__all__ = ["check_sound", "made_in", "make_backup", "project_folders", "put_in_place", "sync_tree"]

#: What a data folder has that is not copied: locks, notes and copies that a hub makes anew, logs of processes of this
#: machine, and what the pipeline and the lab make out of the segments.
_NOT_COPIED = frozenset(
    {"lock.db", "journal.last", "tables.backup.db", "wakes", "warehouse", "reports", "lab", "segments", PROJECTS, INDEX}
)
_COPIED_TOGETHER = frozenset({"journal.db", "tables.db"})
_DATABASE = ".db"
#: Why a folder cannot be renamed to a name that is taken.
_TAKEN = frozenset({errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR})
_PASSING = ("-wal", "-shm", "-journal", ".new", ".tmp", ".damaged.db")


def make_backup(
    data: Path, target: Path, only: str | None = None, told: Callable[[str], None] = lambda project: None
) -> Manifest:
    """Back up all projects of a data folder, or one, to a new folder; `told` is called with each project."""
    target = target.absolute()
    if target.exists() or target.is_symlink():
        raise _taken(target)
    if target.is_relative_to(data.absolute()):
        raise BackupError(f"{target} is in the data folder: choose a place outside of it, best on another disk")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with made_in(target.parent, data, only, told, name=target.name) as (folder, manifest):
            put_in_place(folder, target)
    except OSError as error:
        raise BackupError(f"the backup cannot be written: {error}") from error
    return manifest


@contextmanager
def made_in(
    parent: Path,
    data: Path,
    only: str | None = None,
    told: Callable[[str], None] = lambda project: None,
    name: str = "export",
) -> Iterator[tuple[Path, Manifest]]:
    """Make a backup in a temporary folder below `parent`, which is removed at the end unless it was renamed."""
    staging = Path(tempfile.mkdtemp(prefix=f".{name}.partial-", dir=parent))
    try:
        yield staging, _make(data, staging, only, told)
    except JournalError as error:
        raise BackupError(f"the backup cannot be made: {error}") from error
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def put_in_place(staging: Path, place: Path) -> None:
    """Give a complete folder its name; refuse if something else has got that name meanwhile."""
    try:
        staging.rename(place)
    except OSError as error:
        if error.errno in _TAKEN:
            raise _taken(place) from None
        raise
    sync_file(place.parent)


def _taken(place: Path) -> TocsinError:
    detail = f"{place} exists, perhaps made by another process just now: nothing is overwritten, choose another name"
    return refusal("E_STATE_002", detail, found=str(place), expected="a name that is not taken")


def project_folders(data: Path) -> dict[str, str]:
    """Return the folder of each project of a data folder, relative to it."""
    found: dict[str, str] = {}
    if (data / "journal.db").exists():
        found[project_of_grants(data) or "default"] = "."
    for path in sorted((data / PROJECTS).glob("*/journal.db")):
        if not path.parent.name.startswith("."):
            found.setdefault(path.parent.name, f"{PROJECTS}/{path.parent.name}")
    return found


def _make(data: Path, staging: Path, only: str | None, told: Callable[[str], None]) -> Manifest:
    begun_at = datetime.now(UTC)
    folders = project_folders(data)
    if only is not None:
        if only not in folders:
            raise BackupError(f"there is no project {only} in {data}; it has {', '.join(folders) or 'none'}")
        folders = {only: folders[only]}
    elif not folders:
        raise BackupError(f"there is no project in {data}: it has no journal.db")
    projects: list[BackedUpProject] = []
    for project, folder in folders.items():
        try:
            projects.append(_copy(data / folder, staging / folder, project, folder))
        except (JournalError, OSError):
            if (data / folder / "journal.db").exists():
                raise
            shutil.rmtree(staging / folder)  # It was removed meanwhile.
            continue
        told(project)
    if only is None and (data / INDEX).exists():
        # Last, because a token is entered there before its project has it: no copied token is missing.
        copy_database(data / INDEX, staging / INDEX)
    files = [
        BackupFile(path.relative_to(staging).as_posix(), path.stat().st_size, checksum_of(path))
        for path in sorted(staging.rglob("*"))
        if path.is_file()
    ]
    manifest = Manifest(FORMAT, __version__, begun_at, projects, files)
    (staging / MANIFEST).write_bytes(msgspec.json.format(msgspec.json.encode(manifest)))
    (staging / MANIFEST).chmod(0o600)
    sync_tree(staging)
    return manifest


def _copy(source: Path, target: Path, project: str, folder: str) -> BackedUpProject:
    """Copy one project, and verify the copy.

    What counts how far someone has read the journal is copied before it, so that it is never ahead of it.
    """
    target.mkdir(parents=True, exist_ok=True, mode=0o700)
    for path in sorted(source.iterdir()):
        if path.name in _NOT_COPIED | _COPIED_TOGETHER or path.name.startswith(".") or path.name.endswith(_PASSING):
            continue
        if path.name.endswith(_DATABASE):
            copy_database(path, target / path.name)
        else:
            _copy_files(path, target / path.name)
    copied = copy_project(source, target)
    for name in copied.segments:
        _copy_files(source / "segments" / name, target / "segments" / name)
    check_sound(target, project)
    return BackedUpProject(project, folder, copied.last_seq)


def _copy_files(source: Path, target: Path) -> None:
    """Copy a file or a folder, readable by its owner only; links and sockets are left out."""
    if source.is_symlink():
        return
    if source.is_dir():
        target.mkdir(mode=0o700)
        for path in sorted(source.iterdir()):
            _copy_files(path, target / path.name)
    elif source.is_file():
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with source.open("rb") as reading, os.fdopen(descriptor, "wb") as writing:
            shutil.copyfileobj(reading, writing)


def check_sound(folder: Path, project: str) -> None:
    """Read everything that a copied project has stored, and raise if something is damaged."""
    for examined in verify_directory(folder):
        if not examined.good:
            detail = examined.problems[0] if examined.problems else "it is damaged"
            raise BackupError(f"project {project} is damaged, {examined.what}: {detail}")


def sync_tree(folder: Path) -> None:
    """Bring all files and folders below a folder to disk."""
    for path in folder.rglob("*"):
        sync_file(path)
    sync_file(folder)
