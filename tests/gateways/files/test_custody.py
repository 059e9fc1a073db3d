"""Nothing is opened that is not plainly what it should be."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tocsin.gateways.files.safe_open import UnsafePath, directory, file_to_append, file_to_read, open_root

ME = os.geteuid()
SOMEBODY = 54321


def symlinked(path: Path) -> None:
    (path / "real").mkdir()
    (path / "channel").symlink_to(path / "real")


def a_file(path: Path) -> None:
    (path / "channel").write_text("no directory")


def open_to_all(path: Path) -> None:
    (path / "channel").mkdir()
    (path / "channel").chmod(0o777)


def open_to_a_group(path: Path) -> None:
    (path / "channel").mkdir()
    (path / "channel").chmod(0o770)


def somebody_elses(path: Path) -> None:
    (path / "channel").mkdir()
    os.chown(path / "channel", SOMEBODY, -1)


@pytest.mark.parametrize("make", [symlinked, a_file, open_to_all, open_to_a_group, somebody_elses])
def test_an_unsound_directory_is_not_opened(tmp_path: Path, make: Callable[[Path], None]) -> None:
    if make is somebody_elses and ME:
        pytest.skip("giving a directory away takes root")
    make(tmp_path)
    root = open_root(tmp_path, None)
    with pytest.raises(UnsafePath), directory(root, "channel", ME):
        raise AssertionError("it was opened")
    os.close(root)


def test_a_directory_belongs_to_whoever_is_declared(tmp_path: Path) -> None:
    (tmp_path / "channel").mkdir()
    root = open_root(tmp_path, None)
    with pytest.raises(UnsafePath, match=f"not to user {SOMEBODY}"), directory(root, "channel", SOMEBODY):
        raise AssertionError("it was opened")
    os.close(root)


def linked(path: Path) -> None:
    (path / "elsewhere").write_text("secret")
    (path / "file").symlink_to(path / "elsewhere")


def hard_linked(path: Path) -> None:
    (path / "elsewhere").write_text("secret")
    (path / "file").hardlink_to(path / "elsewhere")


def a_pipe(path: Path) -> None:
    os.mkfifo(path / "file")


def a_directory(path: Path) -> None:
    (path / "file").mkdir()


def writable(path: Path) -> None:
    (path / "file").touch()
    (path / "file").chmod(0o666)


UNSOUND = [linked, hard_linked, a_pipe, a_directory, writable]


@pytest.mark.parametrize("make", UNSOUND)
def test_an_unsound_file_is_neither_read_nor_written(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path)
    folder = os.open(tmp_path, os.O_RDONLY)
    try:
        with pytest.raises(UnsafePath), file_to_read(folder, "file", ME):
            raise AssertionError("it was opened")
        with pytest.raises(UnsafePath), file_to_append(folder, "file", 0o600, None):
            raise AssertionError("it was opened")
    finally:
        os.close(folder)
    elsewhere = tmp_path / "elsewhere"
    assert not elsewhere.exists() or elsewhere.read_text() == "secret"


def test_a_root_where_anyone_can_move_things_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    with pytest.raises(UnsafePath, match="sticky"):
        open_root(tmp_path, None)
    tmp_path.chmod(0o1777)
    os.close(open_root(tmp_path, None))
