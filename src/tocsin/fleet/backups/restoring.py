"""Restoring a backup: checking it, copying it beside its place, verifying the copy, and renaming it into place."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tocsin.fleet.backups.archive import unpacked
from tocsin.fleet.backups.making import check_sound, put_in_place, sync_tree
from tocsin.fleet.backups.manifest import (
    BackedUpProject,
    BackupError,
    BackupFile,
    Manifest,
    read_manifest,
    verify_files,
)
from tocsin.journal.errors import ProjectBusy
from tocsin.journal.sqlite.repair import lock_project

__all__ = ["restore_backup"]


def restore_backup(backup: Path, data: Path, only: str | None = None) -> list[BackedUpProject]:
    """Restore a backup folder or an exported archive below a data folder that no hub serves; return its projects.

    A backup with a home project needs a data folder that is new or empty. A single project is added to a data folder in
    which it is not yet.
    """
    data = data.absolute()
    try:
        data.parent.mkdir(parents=True, exist_ok=True)
        with ExitStack() as open_now:
            folder = open_now.enter_context(unpacked(backup, data.parent)) if backup.is_file() else backup
            manifest = read_manifest(folder)
            chosen = manifest.projects if only is None else [manifest.find(only)]
            open_now.enter_context(_not_served(data))
            for place, files, projects in _places(manifest, chosen, data):
                _restore(folder, files, place, data, projects)
    except OSError as error:
        raise BackupError(f"the backup cannot be restored: {error}") from error
    return chosen


def _places(
    manifest: Manifest, chosen: list[BackedUpProject], data: Path
) -> list[tuple[Path, list[BackupFile], list[BackedUpProject]]]:
    """Return the folders to make, each with its files and projects; refuse those that have something in them."""
    if len(chosen) == len(manifest.projects) and any(one.folder == "." for one in chosen):
        places = [(data, manifest.files, chosen)]
    else:
        places = [(data / one.folder, manifest.files_of(one), [one]) for one in chosen]
    for place, _, _ in places:
        if place.is_symlink() or (place.exists() and (not place.is_dir() or any(place.iterdir()))):
            raise BackupError(f"{place} is not empty: restore to a new folder, or move this one away")
    return places


def _restore(backup: Path, files: list[BackupFile], place: Path, data: Path, projects: list[BackedUpProject]) -> None:
    """Copy files beside their place, check them there, and rename them into place."""
    place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    staging = Path(tempfile.mkdtemp(prefix=f".{place.name}.partial-", dir=place.parent))
    try:
        for file in files:
            target = staging / (data / file.path).relative_to(place)
            target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            source = backup / file.path
            if source.is_symlink() or not source.is_file():
                raise BackupError(f"the backup is damaged: {file.path} is missing")
            shutil.copyfile(source, target)
            target.chmod(0o600)
        relative = [_moved(file, place, data) for file in files]
        verify_files(staging, relative)
        for one in projects:
            check_sound(staging / (data / one.folder).relative_to(place), one.project)
        sync_tree(staging)
        put_in_place(staging, place)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _moved(file: BackupFile, place: Path, data: Path) -> BackupFile:
    """Return a file with its path relative to the place that it is restored to."""
    return BackupFile((data / file.path).relative_to(place).as_posix(), file.size, file.sha256)


@contextmanager
def _not_served(data: Path) -> Iterator[None]:
    """Refuse a data folder that a hub serves, and keep hubs from serving it meanwhile."""
    if not (data / "lock.db").exists():
        yield
        return
    try:
        lock = lock_project(data, data.name)
    except ProjectBusy:
        raise BackupError(f"a hub serves {data}: stop it first, or restore to another folder") from None
    try:
        yield
    finally:
        lock.close()
