"""A backup as one file: a tar archive that is made while it is sent, and unpacked to be restored."""

import shutil
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tocsin.fleet.backups.manifest import MANIFEST, BackupError, read_manifest, verify_files

__all__ = ["check_archive", "packed", "unpacked"]

_CHUNK_BYTES = 1 << 18


def packed(folder: Path) -> Iterator[bytes]:
    """Yield a backup folder as the content of a tar archive, its list first."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path != folder / MANIFEST)
    for path in [folder / MANIFEST, *files]:
        entry = tarfile.TarInfo(path.relative_to(folder).as_posix())
        found = path.stat()
        entry.size, entry.mtime, entry.mode = found.st_size, int(found.st_mtime), 0o600
        yield entry.tobuf(tarfile.PAX_FORMAT)
        with path.open("rb") as file:
            while chunk := file.read(_CHUNK_BYTES):
                yield chunk
        yield bytes(-entry.size % tarfile.BLOCKSIZE)
    yield bytes(2 * tarfile.BLOCKSIZE)


@contextmanager
def unpacked(archive: Path, parent: Path) -> Iterator[Path]:
    """Unpack an archive to a temporary folder below `parent`, which is removed at the end."""
    folder = Path(tempfile.mkdtemp(prefix=f".{archive.name}.unpacked-", dir=parent))
    try:
        try:
            with tarfile.open(archive, "r:") as tar:
                tar.extractall(folder, filter="data")
        except (tarfile.TarError, EOFError) as error:
            raise BackupError(f"the backup is damaged: {archive} is not a complete archive: {error}") from error
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def check_archive(archive: Path) -> None:
    """Refuse an archive that is incomplete, or whose files do not match their checksums."""
    with unpacked(archive, archive.absolute().parent) as folder:
        verify_files(folder, read_manifest(folder).files)
