"""Reading what a file agent appends: whole lines, in order, from where reading stopped, whatever became of the file.

Theory of operation. A file is known again by its content, not by its name: the bytes before the position must be those
that were read. If they are, reading goes on, even in a copy. If they are not, the file was renamed, emptied, cut or
replaced:

- renamed: it is in the directory under another name; it is read to its end first, then the new one from its beginning;
- cut: it begins as it did and is shorter now. All of it was read once; reading goes on at its end, and the agent is
  told, because a line of its own may be gone;
- anything else is new content and is read from its beginning.

A line counts when its newline is there. One that is longer than any message may be, or whose end does not come in time,
is a fault: it is passed over up to the next newline. All calls block and belong to one thread; no more than one line of
the greatest length is held at a time.
"""

import os
import time
from hashlib import blake2b

import msgspec

from tocsin.core.errors import Problem, refusal
from tocsin.gateways.files.names import MESSAGES
from tocsin.gateways.files.positions import Position
from tocsin.gateways.files.safe_open import Unsound, directory, file_to_read

__all__ = ["Batch", "Item", "Outbox"]

#: Bytes before a position that a file is known again by.
_TAIL = 64
#: Bytes of its beginning; fewer than any envelope has, so that what is cut shorter holds no whole line.
_HEAD = 64


class Item(msgspec.Struct, frozen=True):
    """A line, or what is wrong in a line's place; neither where something was passed over."""

    #: Where it begins.
    offset: int
    generation: int
    #: Where reading goes on after it.
    after: Position
    line: bytes = b""
    fault: Problem | None = None


class Batch(msgspec.Struct, frozen=True):
    """What was found in one look."""

    items: list[Item]
    #: Whether there may be more at once.
    more: bool = False


class Outbox:
    """One directory in which an agent says something to one receiver."""

    def __init__(self, root: int, name: str, owner: int, *, partial_line_timeout_s: float) -> None:
        self._root = root
        self._name = name
        self._owner = owner
        self._timeout_s = partial_line_timeout_s
        self._partial: tuple[int, int, float] | None = None

    def read(self, position: Position, lines_max: int, bytes_max: int) -> Batch:
        """Return the next lines after a position; nothing where the file is not there yet."""
        with directory(self._root, self._name, self._owner) as folder:
            try:
                with file_to_read(folder, MESSAGES, self._owner) as opened:
                    return self._read(folder, opened, position, lines_max, bytes_max)
            except FileNotFoundError:
                return self._read_renamed(folder, position, lines_max, bytes_max) or Batch([])

    def _read(self, folder: int, opened: int, position: Position, lines_max: int, bytes_max: int) -> Batch:
        found = os.fstat(opened)
        if not _continues(opened, found, position):
            if found.st_ino != position.inode:
                older = self._read_renamed(folder, position, lines_max, bytes_max)
                if older is not None:
                    return older
            position, lost = _restarted(opened, found, position)
            if lost is not None:
                return Batch([Item(position.offset, position.generation, position, fault=lost)], more=True)
        return self._take(opened, found, position, lines_max, bytes_max)

    def _read_renamed(self, folder: int, position: Position, lines_max: int, bytes_max: int) -> Batch | None:
        """Read the rest of a file that was renamed, if there is any."""
        if not position.inode:
            return None
        with os.scandir(folder) as entries:
            names = [entry.name for entry in entries if entry.inode() == position.inode]
        for name in names:
            try:
                with file_to_read(folder, name, self._owner) as opened:
                    found = os.fstat(opened)
                    if not _continues(opened, found, position) or found.st_size == position.offset:
                        continue
                    return self._take(opened, found, position, lines_max, bytes_max)
            except (FileNotFoundError, Unsound):
                continue
        return None

    def _take(self, opened: int, found: os.stat_result, position: Position, lines_max: int, bytes_max: int) -> Batch:
        base = max(0, position.offset - _TAIL)
        data = os.pread(opened, position.offset - base + bytes_max + 1, base)
        start = position.offset - base
        whole = base + len(data) >= found.st_size
        reach = _Reach(opened, found, position, base, data)
        items: list[Item] = []
        skipping = position.skipping
        while len(items) < lines_max:
            end = data.find(b"\n", start)
            if end < 0:
                break
            items.append(reach.item(start, end + 1, b"" if skipping else data[start:end]))
            start, skipping = end + 1, False
        else:
            return Batch(items, more=True)
        rest = len(data) - start
        if not rest:
            self._partial = None
            return Batch(items, more=not whole)
        if skipping:
            self._partial = None
            return Batch([*items, reach.item(start, len(data), b"", skipping=True)], more=not whole)
        if rest > bytes_max:
            return Batch([*items, reach.item(start, len(data), b"", _too_long(bytes_max), skipping=True)], more=True)
        if whole and self._is_late(found, base + start):
            late = _late(self._timeout_s)
            return Batch([*items, reach.item(start, len(data), b"", late, skipping=True)])
        return Batch(items, more=not whole)

    def _is_late(self, found: os.stat_result, offset: int) -> bool:
        """Tell whether a line without its end has not grown for too long."""
        now = time.monotonic()
        if self._partial is None or self._partial[:2] != (offset, found.st_size):
            self._partial = (offset, found.st_size, now)
        return now - self._partial[2] >= self._timeout_s


class _Reach:
    """A stretch of a file, and positions in it."""

    def __init__(self, opened: int, found: os.stat_result, position: Position, base: int, data: bytes) -> None:
        self._found = found
        self._position = position
        self._base = base
        self._data = data
        self._first = os.pread(opened, _HEAD, 0) if position.head_bytes < _HEAD else b""

    def item(self, start: int, end: int, line: bytes, fault: Problem | None = None, *, skipping: bool = False) -> Item:
        offset = self._base + end
        head, head_bytes = self._position.head, self._position.head_bytes
        if head_bytes < _HEAD:
            head_bytes = min(_HEAD, offset)
            head = _print(self._first[:head_bytes])
        after = Position(
            inode=self._found.st_ino,
            offset=offset,
            generation=self._position.generation,
            head=head,
            head_bytes=head_bytes,
            tail=_print(self._data[max(0, end - _TAIL) : end]),
            skipping=skipping,
            seen_bytes=self._found.st_size,
        )
        return Item(self._base + start, after.generation, after, line, fault)


def _continues(opened: int, found: os.stat_result, position: Position) -> bool:
    """Tell whether a file holds what was read, where it was read."""
    if found.st_size < position.offset:
        return False
    start = max(0, position.offset - _TAIL)
    return not position.offset or _print(os.pread(opened, position.offset - start, start)) == position.tail


def _restarted(opened: int, found: os.stat_result, position: Position) -> tuple[Position, Problem | None]:
    """Return where to go on in a file that is not what it was, and what has been lost, if that is known."""
    fresh = Position(inode=found.st_ino, generation=position.generation + 1)
    begins_alike = (
        0 < position.head_bytes <= found.st_size and _print(os.pread(opened, position.head_bytes, 0)) == position.head
    )
    if begins_alike and found.st_size < position.offset:
        start = max(0, found.st_size - _TAIL)
        tail = _print(os.pread(opened, found.st_size - start, start))
        cut = Position(
            inode=found.st_ino,
            offset=found.st_size,
            generation=fresh.generation,
            head=position.head,
            head_bytes=position.head_bytes,
            tail=tail,
            seen_bytes=found.st_size,
        )
        detail = f"the file was cut from {position.seen_bytes} to {found.st_size} bytes: reading goes on at its end"
        return cut, _lost(detail)
    if position.seen_bytes > position.offset:
        unread = position.seen_bytes - position.offset
        return fresh, _lost(f"the file was replaced with {unread} bytes of it unread: send again what was in them")
    return fresh, None


def _print(data: bytes) -> str:
    return blake2b(data, digest_size=12).hexdigest()


def _too_long(bytes_max: int) -> Problem:
    found, expected = f"more than {bytes_max} bytes without a newline", f"at most {bytes_max} bytes and a newline"
    detail = f"a line has {found}: it is passed over"
    return refusal("E_VALIDATION_005", detail, found=found, expected=expected).problem


def _late(timeout_s: float) -> Problem:
    detail = f"a line has been without its newline for {timeout_s:g} s: it is passed over up to the next one"
    return refusal("E_PROTOCOL_002", detail, found="no newline", expected="a newline at the end of each line").problem


def _lost(detail: str) -> Problem:
    return refusal("E_PROTOCOL_002", detail, expected="a file that is only appended to, or renamed").problem
