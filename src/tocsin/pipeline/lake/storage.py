"""Storage of tables and segments: a folder, or a prefix of an object store, named by a URL.

A folder is read and written through the operating system. Everything else goes through the object stores of
`deltalake`, so that data files and the transaction log are reached with the same credentials, which those libraries
take from the environment (`AWS_…`, `GOOGLE_…`, `AZURE_…`). Without credentials the library would ask the cloud's
instance metadata service for some; for S3 this is refused unless the environment asks for it.
"""

import functools
import io
import os
import re
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any, BinaryIO, cast

import msgspec
import pyarrow as pa
import pyarrow.fs as pafs

from tocsin.pipeline.errors import StorageUnknown, StorageUnreachable

__all__ = ["SCHEMES", "Place", "Storage", "StoredFile", "open_storage"]

#: Schemes of URLs that name an object store or a distributed file system.
SCHEMES = ("s3", "s3a", "gs", "abfss", "abfs", "az", "hdfs")
_AZURE = "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY"
_AWS = "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION and AWS_ENDPOINT_URL"
#: Variables of the environment that say how a storage is reached, by scheme.
_VARIABLES = {
    **dict.fromkeys(("s3", "s3a"), _AWS),
    **dict.fromkeys(("abfss", "abfs", "az"), _AZURE),
    "gs": "GOOGLE_SERVICE_ACCOUNT",
    "hdfs": "HADOOP_CONF_DIR",
}
#: Variables that configure credentials of S3, one group of which must be set.
_S3_CREDENTIALS = (
    ("AWS_ACCESS_KEY_ID",),
    ("AWS_SECRET_ACCESS_KEY",),
    ("AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ROLE_ARN"),
    ("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",),
    ("AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"),
    ("AWS_FORCE_CREDENTIAL_LOAD",),
    ("AWS_SKIP_SIGNATURE",),
)
#: Variable that AWS's own tools read; `false` asks for the credentials of the instance.
_NO_METADATA = "AWS_EC2_METADATA_DISABLED"
#: Colours, arrows and line ends in errors of the object stores.
_ORNAMENTS = re.compile(r"\s*(?:\x1b\[[0-9;]*m|\N{DOWNWARDS ARROW WITH TIP RIGHTWARDS}|\s)+\s*")
#: A URL; where it went through `Path`, one slash is left of two.
_URL = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*):/+(?P<rest>.*)")


#: Size of the buffer before an upload, and of the pieces that are written to it.
_BUFFER_BYTES = 8 << 20
_PIECE_BYTES = 1 << 20


class StoredFile(msgspec.Struct, frozen=True):
    """A file that a listing found."""

    bytes: int
    #: Time of its last change, seconds since the epoch; null where the storage does not tell.
    changed_at: float | None


class Storage(msgspec.Struct, frozen=True):
    """A folder, local or on an object store; paths are relative to it."""

    #: Absolute path, or URL, without a slash at its end.
    url: str

    @property
    def local(self) -> Path | None:
        """Return the folder, if it is local."""
        return None if _URL.match(self.url) else Path(self.url)

    @property
    def files(self) -> pafs.FileSystem:
        """Return the file system whose root is this folder."""
        return _file_system(self.url)

    def uri(self, path: str) -> str:
        """Return the full path or URL of a file or folder."""
        return f"{self.url}/{path}"

    def below(self, path: str) -> "Storage":
        """Return a folder below this one."""
        return Storage(self.uri(path))

    def listed(self, folder: str = "") -> dict[str, StoredFile]:
        """Return all files below a folder, by path, sorted; none if it does not exist."""
        found = self.files.get_file_info(pafs.FileSelector(folder, recursive=True, allow_not_found=True))
        return {
            info.path.lstrip("/"): StoredFile(info.size, None if info.mtime is None else info.mtime.timestamp())
            for info in sorted(found, key=lambda info: info.path)
            if info.is_file
        }

    def size(self, path: str) -> int | None:
        """Return the size of a file; None if it does not exist."""
        (info,) = self.files.get_file_info([path])
        return int(info.size) if info.is_file else None

    def read(self, path: str) -> bytes:
        """Return the content of a file."""
        with self.files.open_input_file(path) as file:
            return bytes(file.read())

    def open(self, path: str) -> BinaryIO:
        """Open a file for reading at any position."""
        return cast("BinaryIO", self.files.open_input_file(path))

    def create(self, path: str) -> BinaryIO:
        """Open a new file for writing; on an object store it appears when it is closed."""
        if self.local is not None:
            place = self.local / path
            place.parent.mkdir(parents=True, exist_ok=True)
            return place.open("wb")
        # Without `compression=None` Arrow compresses what is written under a name like that of a segment.
        stream = self.files.open_output_stream(path, compression=None, buffer_size=_BUFFER_BYTES)
        return cast("BinaryIO", _Upload(stream))

    def put(self, source: Path, path: str) -> None:
        """Copy a local file to here."""
        content = source.read_bytes()
        with self.create(path) as out:
            out.write(content)

    def delete(self, paths: Iterable[str]) -> None:
        """Delete files; those that do not exist are left out."""
        for path in paths:
            if self.size(path) is not None:
                self.files.delete_file(path)

    def delete_folder(self, path: str) -> None:
        """Delete a folder with all its files, if it exists."""
        if self.local is not None:
            shutil.rmtree(self.local / path, ignore_errors=True)
        else:
            self.delete(self.listed(path))

    def check(self) -> None:
        """Ask a remote storage for its root; raise `StorageUnreachable` if it does not answer."""
        if self.local is not None:
            return
        try:
            self.files.get_file_info([""])
        except OSError as error:
            detail = _ORNAMENTS.sub(" ", str(error)).strip()
            variables = _VARIABLES[self.url.partition(":")[0]]
            raise StorageUnreachable(
                f"{self.url} cannot be reached: {detail}. Check the URL, and {variables} in the environment"
            ) from None

    def sync(self, paths: Iterable[str]) -> None:
        """Make local files durable, with their folders; object stores are durable when a file is closed."""
        if self.local is None:
            return
        places = [self.local / path for path in paths]
        for place in [*places, *{place.parent for place in places}]:
            _sync(place)


#: A storage, or the path or URL of one.
Place = Storage | Path | str


def open_storage(given: Place) -> Storage:
    """Return the storage that a path or URL names; an unknown scheme is an error."""
    if isinstance(given, Storage):
        return given
    named = _URL.match(str(given))
    if named is None:
        return Storage(str(Path(given).absolute()))
    scheme, rest = named["scheme"].lower(), named["rest"].rstrip("/")
    if scheme == "file":
        return Storage(f"/{rest}")
    if scheme not in SCHEMES:
        known = ", ".join(f"{name}://" for name in ("file", *SCHEMES))
        raise StorageUnknown(f"there is no storage {scheme}:// ({given}); use a folder, or one of {known}")
    _require_credentials(f"{scheme}://{rest}")
    return Storage(f"{scheme}://{rest}")


def _require_credentials(url: str) -> None:
    """Raise `StorageUnreachable` for S3 without credentials, before the library asks the instance metadata service."""
    if not url.startswith(("s3://", "s3a://")) or os.environ.get(_NO_METADATA, "").lower() == "false":
        return
    if not any(all(os.environ.get(name) for name in group) for group in _S3_CREDENTIALS):
        raise StorageUnreachable(
            f"{url} cannot be reached: there are no credentials. Check the URL, and {_AWS} in the environment;"
            f" {_NO_METADATA}=false uses the credentials of a cloud instance"
        )


class _Upload(io.RawIOBase):
    """A new file of an object store, written in pieces that fit into the buffer before it.

    Larger ones would pass the buffer and reach the library's stream as a type that it does not take.
    """

    def __init__(self, stream: pa.NativeFile) -> None:
        self._stream = stream

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        for start in range(0, len(view), _PIECE_BYTES):
            self._stream.write(view[start : start + _PIECE_BYTES])
        return len(view)

    def close(self) -> None:
        if not self.closed:
            self._stream.close()
            super().close()


@functools.lru_cache(maxsize=64)
def _file_system(url: str) -> pafs.FileSystem:
    if _URL.match(url) is None:
        return pafs.SubTreeFileSystem(url, pafs.LocalFileSystem())
    _require_credentials(url)
    from deltalake.fs import DeltaStorageHandler

    return pafs.PyFileSystem(DeltaStorageHandler(url))


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
