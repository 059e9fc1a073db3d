"""Safe opening of files in a directory that other users can write to.

Everything is opened relative to a directory that is already open, without following links and without blocking. Owner,
permissions, type and link count are checked on the open file, never by name, so nothing can change between the check
and the use.
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["UnsafePath", "directory", "file_to_append", "file_to_read", "open_root", "sync"]

_READ_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_LINKS = frozenset({errno.ELOOP, errno.ENXIO})


class UnsafePath(Exception):
    """A file or directory failed a check; the message states the reason and contains no path."""


def open_root(path: Path, group: int | None) -> int:
    """Open the directory of all channels, creating it if needed; it must be sticky if others may write to it."""
    if not path.exists():
        path.mkdir(parents=True, mode=0o700)
        if group is not None:
            os.chown(path, -1, group)
            path.chmod(0o1770)
    root = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    mode = os.fstat(root).st_mode
    if mode & _OTHERS_WRITE and not mode & stat.S_ISVTX:
        os.close(root)
        raise UnsafePath("others may write to it and it is not sticky: run chmod +t, or remove their write permission")
    return root


@contextmanager
def directory(root: int, name: str, owner: int) -> Iterator[int]:
    """Open a channel's directory; it must belong to `owner`, and nobody else may write to it."""
    try:
        opened = os.open(name, _READ_FLAGS | os.O_DIRECTORY, dir_fd=root)
    except NotADirectoryError:
        raise UnsafePath("it is not a directory, or it is a link") from None
    try:
        _check(os.fstat(opened), owner)
        yield opened
    finally:
        os.close(opened)


@contextmanager
def file_to_read(folder: int, name: str, owner: int) -> Iterator[int]:
    """Open a regular file that belongs to `owner`."""
    try:
        opened = os.open(name, _READ_FLAGS, dir_fd=folder)
    except OSError as error:
        if isinstance(error, FileNotFoundError):
            raise
        raise UnsafePath(f"it cannot be opened: {error.strerror}") from None
    try:
        _check_file(os.fstat(opened), owner)
        yield opened
    finally:
        os.close(opened)


@contextmanager
def file_to_append(folder: int, name: str, mode: int, group: int | None) -> Iterator[int]:
    """Open a file of the hub for appending, creating it if needed."""
    how = os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        try:
            opened = os.open(name, how, dir_fd=folder)
        except FileNotFoundError:
            opened = os.open(name, how | os.O_CREAT | os.O_EXCL, mode, dir_fd=folder)
            if group is not None:
                os.chown(opened, -1, group)
                os.fchmod(opened, mode)
            sync(folder)
    except (IsADirectoryError, FileExistsError) as error:
        raise UnsafePath(f"it cannot be opened: {error.strerror}") from None
    except OSError as error:
        if error.errno in _LINKS:
            raise UnsafePath("it is a link or a pipe") from None
        raise
    try:
        _check_file(os.fstat(opened), os.geteuid())
        yield opened
    finally:
        os.close(opened)


def sync(opened: int) -> None:
    """Flush an open file or directory to disk."""
    os.fsync(opened)


def _check(found: os.stat_result, owner: int) -> None:
    if found.st_uid != owner:
        raise UnsafePath(f"it belongs to user {found.st_uid}, not to user {owner}")
    if found.st_mode & _OTHERS_WRITE:
        raise UnsafePath("others than its owner may write to it")


def _check_file(found: os.stat_result, owner: int) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise UnsafePath("it is not a regular file")
    if found.st_nlink != 1:
        raise UnsafePath("it has more than one hard link")
    _check(found, owner)
