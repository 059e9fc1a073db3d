"""Writing of channel files: lines appended in order, durable, each exactly once.

Theory of operation. A line of an event carries the event's sequence number (`metadata.journalSeq`), and the numbers in
one file only grow. So the end of a file shows how far it has been written, and no other record of that is needed: after
a crash the same lines are handed over again, and those up to the last number in the file are skipped. Numbers of
another journal, or of one that was restored to an earlier state, do not count: each line also names its journal
(`metadata.journalId`), and a number above the journal's last one is ignored. A reply to an agent has no number but an
id derived from the line that it answers; the ids at the end of the file are used in the same way. A last line without
a newline was left incomplete by a crash; nothing depends on it, and it is removed.

A file that has become large or old is renamed to `messages.<UTC time>.ndjson`, and a new one is started. Such names
sort by time, and a reader that has the old file open can read it to its end. All calls block and belong to one thread.
"""

import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime, timedelta
from itertools import groupby
from pathlib import Path

import msgspec

from tocsin.gateways.files.safe_open import UnsafePath, directory, file_to_append, open_root, sync
from tocsin.hub.config import Channels

__all__ = ["ChannelWriter", "Line", "numbered"]

_BLOCK = 65_536
#: Bytes at the end of a file that are searched for replies: more than the replies to one batch of lines.
_ANSWERS = 1_048_576
_STAMP = "%Y%m%dT%H%M%S.%fZ"
_ROTATED = re.compile(r"\.(\d{8}T\d{6}\.\d{6}Z)\.ndjson")


class Line(msgspec.Struct, frozen=True):
    """A line to be appended."""

    directory: str
    file: str
    #: JSON without its newline.
    data: bytes
    #: Sequence number of its event; 0 for a reply.
    seq: int = 0
    #: Id of a reply.
    key: str = ""


class _Tail(msgspec.Struct):
    """The last event and the last replies in a file."""

    #: Sequence number of the last event in it.
    seq: int
    #: Ids of the replies at its end.
    keys: frozenset[str]


class _Mark(msgspec.Struct, frozen=True):
    journal_seq: int = msgspec.field(name="journalSeq", default=0)
    journal_id: str = msgspec.field(name="journalId", default="")


class _Written(msgspec.Struct, frozen=True):
    """The parts of a written line that identify it."""

    message_id: str | None = msgspec.field(name="messageId", default=None)
    receipt_id: str = msgspec.field(name="receiptId", default="")
    metadata: _Mark = _Mark()


_WRITTEN: msgspec.json.Decoder[_Written] = msgspec.json.Decoder(_Written)


def numbered(metadata: bytes, journal_id: str, seq: int) -> bytes:
    """Add journal id and sequence number to a message's metadata."""
    known: dict[str, object] = msgspec.json.decode(metadata) if metadata not in (b"", b"{}") else {}
    return msgspec.json.encode(known | {"journalId": journal_id, "journalSeq": seq})


class ChannelWriter:
    """Appends lines to the channels below a root."""

    def __init__(self, root: Path, config: Channels, journal_id: str, last_seq: Callable[[], int]) -> None:
        #: Settings of the file gateway.
        self.config = config
        self._journal_id = journal_id
        self._last_seq = last_seq
        self._root = open_root(root, config.group)
        self._modes = (0o700, 0o600) if config.group is None else (0o750, 0o640)
        self._tails: dict[tuple[str, str], _Tail] = {}

    @property
    def root(self) -> int:
        """Return the directory of all channels, open."""
        return self._root

    @property
    def remembered(self) -> int:
        """Return the number of files whose ends are kept in memory."""
        return len(self._tails)

    def close(self) -> None:
        """Close the directory."""
        os.close(self._root)

    def append(self, lines: list[Line]) -> dict[str, str]:
        """Append the lines that are not written yet, durably; return the unsafe directories with the reasons.

        After an `OSError` some lines may be written and some not: append all of them again.
        """
        unsound: dict[str, str] = {}
        lines = sorted(lines, key=lambda line: (line.directory, line.file))
        try:
            for (folder, file), some in groupby(lines, key=lambda line: (line.directory, line.file)):
                try:
                    self._append(folder, file, list(some))
                except UnsafePath as error:
                    unsound[folder] = str(error)
        except OSError:
            self._tails.clear()
            raise
        return unsound

    def _append(self, name: str, file: str, lines: list[Line]) -> None:
        with self._own_directory(name) as folder:
            tail = self._tails.get((name, file))
            if tail is None:
                tail = self._recover(folder, name, file)
            new = [line for line in lines if line.seq > tail.seq or (not line.seq and line.key not in tail.keys)]
            if not new:
                return
            data = b"".join(line.data + b"\n" for line in new)
            with self._own_file(folder, file) as opened:
                due = self._rotation_due(opened, len(data))
                if not due:
                    _write(opened, data)
            if due:
                self._rotate(folder, file)
                with self._own_file(folder, file) as opened:
                    _write(opened, data)
            tail.seq = max(tail.seq, *(line.seq for line in new))

    @contextmanager
    def _own_directory(self, name: str) -> Iterator[int]:
        mode, group = self._modes[0], self.config.group
        try:
            os.mkdir(name, mode, dir_fd=self._root)
        except FileExistsError:
            made = False
        else:
            made = True
        with directory(self._root, name, os.geteuid()) as folder:
            if made:
                if group is not None:
                    os.chown(folder, -1, group)
                os.fchmod(folder, mode)
                sync(self._root)
            yield folder

    def _own_file(self, folder: int, file: str) -> AbstractContextManager[int]:
        return file_to_append(folder, file, self._modes[1], self.config.group)

    def _recover(self, folder: int, name: str, file: str) -> _Tail:
        """Find the last event and replies of a file; one without an event continues the renamed ones, newest first."""
        if len(self._tails) >= self.config.tails_max:
            self._tails.clear()
        tail = _Tail(0, frozenset())
        for older in [file, *reversed(_rotated(folder, file))]:
            with self._own_file(folder, older) as opened:
                found, more = _tail_of(opened, self._journal_id)
            tail = _Tail(found.seq, tail.keys | found.keys)
            if not more:
                break
        if tail.seq > self._last_seq():
            tail = _Tail(0, tail.keys)
        self._tails[name, file] = tail
        return tail

    def _rotation_due(self, opened: int, more: int) -> bool:
        found = os.fstat(opened)
        age_s = self.config.rotate_age_s
        old = found.st_mtime // age_s != time.time() // age_s
        return found.st_size > 0 and (old or found.st_size + more > self.config.rotate_bytes)

    def _rotate(self, folder: int, file: str) -> None:
        existing = _rotated(folder, file)
        stem = file.removesuffix(".ndjson")
        name = f"{stem}.{datetime.now(UTC):{_STAMP}}.ndjson"
        if existing and existing[-1] >= name:
            # The clock went back: the order of the names matters more than the time in them.
            last = datetime.strptime(existing[-1].removeprefix(stem + ".").removesuffix(".ndjson"), _STAMP)
            name = f"{stem}.{last + timedelta(microseconds=1):{_STAMP}}.ndjson"
        os.rename(file, name, src_dir_fd=folder, dst_dir_fd=folder)
        for old in existing:
            if os.stat(old, dir_fd=folder, follow_symlinks=False).st_mtime < time.time() - self.config.keep_s:
                os.unlink(old, dir_fd=folder)
        sync(folder)


def _rotated(folder: int, file: str) -> list[str]:
    """List the renamed files, oldest first."""
    stem = file.removesuffix(".ndjson")
    return sorted(
        name for name in os.listdir(folder) if name.startswith(stem) and _ROTATED.fullmatch(name.removeprefix(stem))
    )


def _write(opened: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(opened, view) :]
    os.fsync(opened)


def _tail_of(opened: int, journal_id: str) -> tuple[_Tail, bool]:
    """Read a file from its end until an event's line and the last replies are found; remove an incomplete last line.

    Also return whether older files have to be read: not if an event was found, even one of another journal.
    """
    size = whole = os.fstat(opened).st_size
    keys: set[str] = set()
    seq, found, sound = 0, False, False
    for start, data in _backwards(opened, size):
        written = _read(data)
        if written is None:
            if not sound:
                whole = start
            continue
        sound = True
        mark = written.metadata
        if not mark.journal_seq:
            keys.add(written.receipt_id or written.message_id or "")
        elif not found:
            found = True
            seq = mark.journal_seq if mark.journal_id == journal_id else 0
        if found and start + _ANSWERS < size:
            break
    if whole < size:
        os.ftruncate(opened, whole)
        os.fsync(opened)
    return _Tail(seq, frozenset(keys)), not found


def _read(line: bytes) -> _Written | None:
    """Decode the identifying parts of a line; null if the line is incomplete."""
    if not line.endswith(b"\n"):
        return None
    try:
        return _WRITTEN.decode(line)
    except msgspec.ValidationError:
        return _Written()
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _backwards(opened: int, size: int) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of a file, the last one first, each with its offset and its newline if it has one."""
    rest = b""
    end = size
    while end:
        start = max(0, end - _BLOCK)
        data = os.pread(opened, end - start, start) + rest
        first, *others = _split(data)
        at = start + len(data)
        for line in reversed(others):
            at -= len(line)
            yield at, line
        rest, end = first, start
    if rest:
        yield 0, rest


def _split(data: bytes) -> list[bytes]:
    parts = data.split(b"\n")
    return [part + b"\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])
