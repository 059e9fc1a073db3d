"""Opening files in a directory that others can write to, without being led astray.

Everything is opened below a directory that is already open, without following links and without waiting, and judged by
what was opened, never by its name: whose it is, who else could have written to it, and whether it is a plain file under
one name. So there is no moment between the check and the use.
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["Unsound", "directory", "file_to_append", "file_to_read", "open_root", "sync"]

_LOOK = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_LINKS = frozenset({errno.ELOOP, errno.ENXIO})


class Unsound(Exception):
    """Something there is not what it should be; the message says what, and names no path."""


def open_root(path: Path, group: int | None) -> int:
    """Open the directory of all channels, making it if need be; nobody may move what another has made in it."""
    if not path.exists():
        path.mkdir(parents=True, mode=0o700)
        if group is not None:
            os.chown(path, -1, group)
            path.chmod(0o1770)
    root = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    mode = os.fstat(root).st_mode
    if mode & _OTHERS_WRITE and not mode & stat.S_ISVTX:
        os.close(root)
        raise Unsound("others may write to it and it is not sticky: chmod +t, or take their right away")
    return root


@contextmanager
def directory(root: int, name: str, owner: int) -> Iterator[int]:
    """Open a channel's directory, if it is one, belongs to its owner, and nobody else can write to it."""
    try:
        opened = os.open(name, _LOOK | os.O_DIRECTORY, dir_fd=root)
    except NotADirectoryError:
        raise Unsound("it is no directory, or a link") from None
    try:
        _judge(os.fstat(opened), owner)
        yield opened
    finally:
        os.close(opened)


@contextmanager
def file_to_read(folder: int, name: str, owner: int) -> Iterator[int]:
    """Open a file that its owner writes, if it is a plain one."""
    try:
        opened = os.open(name, _LOOK, dir_fd=folder)
    except OSError as error:
        if isinstance(error, FileNotFoundError):
            raise
        raise Unsound(f"it cannot be opened: {error.strerror}") from None
    try:
        _judge_file(os.fstat(opened), owner)
        yield opened
    finally:
        os.close(opened)


@contextmanager
def file_to_append(folder: int, name: str, mode: int, group: int | None) -> Iterator[int]:
    """Open a file of the hub's own, making it if need be; what is written goes to its end."""
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
        raise Unsound(f"it cannot be opened: {error.strerror}") from None
    except OSError as error:
        if error.errno in _LINKS:
            raise Unsound("it is a link or a pipe") from None
        raise
    try:
        _judge_file(os.fstat(opened), os.geteuid())
        yield opened
    finally:
        os.close(opened)


def sync(opened: int) -> None:
    """Wait until what was opened is on disk as it is."""
    os.fsync(opened)


def _judge(found: os.stat_result, owner: int) -> None:
    if found.st_uid != owner:
        raise Unsound(f"it belongs to user {found.st_uid}, not to user {owner}")
    if found.st_mode & _OTHERS_WRITE:
        raise Unsound("others than its owner may write to it")


def _judge_file(found: os.stat_result, owner: int) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise Unsound("it is no plain file")
    if found.st_nlink != 1:
        raise Unsound("it has more than one name")
    _judge(found, owner)
