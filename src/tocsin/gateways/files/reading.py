"""Reading of the lines that a file agent appends, in order and each once.

Theory of operation. A file is recognised by its content, not by its name: the bytes before the position must be those
that were read. If they are, reading continues, even in a copy. If they are not, the file was renamed, emptied, cut or
replaced:

- renamed: it is in the directory under another name; it is read to its end first, then the new one from its beginning;
- cut: it begins as before and is shorter now. All of it was read before; reading continues at its end, and the agent
  gets a report, because a line may be lost;
- anything else is new content and is read from its beginning.

A line is complete when it ends with a newline. A line that is longer than any message may be, or that is not completed
in time, is a fault and is skipped up to the next newline. All calls block and belong to one thread; at most one line of
the greatest length is held in memory.
"""

import os
import time
from hashlib import blake2b

import msgspec

from tocsin.core.errors import Problem, refusal
from tocsin.gateways.files.names import MESSAGES
from tocsin.gateways.files.positions import Position
from tocsin.gateways.files.safe_open import UnsafePath, directory, file_to_read

__all__ = ["Batch", "Item", "Outbox"]

#: Bytes before a position by which a file is recognised.
_TAIL = 64
#: Bytes at the beginning by which a file is recognised; fewer than any envelope has.
_HEAD = 64


class Item(msgspec.Struct, frozen=True):
    """A line or a fault; neither for a part that was skipped."""

    #: Where it begins.
    offset: int
    generation: int
    #: Position after it.
    after: Position
    line: bytes = b""
    fault: Problem | None = None


class Batch(msgspec.Struct, frozen=True):
    """Lines found by one read."""

    items: list[Item]
    #: Whether there may be more to read at once.
    more: bool = False


class Outbox:
    """One directory with an agent's lines to one receiver."""

    def __init__(self, root: int, name: str, owner: int, *, partial_line_timeout_s: float) -> None:
        self._root = root
        self._name = name
        self._owner = owner
        self._timeout_s = partial_line_timeout_s
        self._partial: tuple[int, int, float] | None = None

    def read(self, position: Position, lines_max: int, bytes_max: int) -> Batch:
        """Return the next lines after a position; none if the file does not exist yet."""
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
            except (FileNotFoundError, UnsafePath):
                continue
        return None

    def _take(self, opened: int, found: os.stat_result, position: Position, lines_max: int, bytes_max: int) -> Batch:
        base = max(0, position.offset - _TAIL)
        data = os.pread(opened, position.offset - base + bytes_max + 1, base)
        start = position.offset - base
        whole = base + len(data) >= found.st_size
        chunk = _Chunk(opened, found, position, base, data)
        items: list[Item] = []
        skipping = position.skipping
        while len(items) < lines_max:
            end = data.find(b"\n", start)
            if end < 0:
                break
            items.append(chunk.item(start, end + 1, b"" if skipping else data[start:end]))
            start, skipping = end + 1, False
        else:
            return Batch(items, more=True)
        rest = len(data) - start
        if not rest:
            self._partial = None
            return Batch(items, more=not whole)
        if skipping:
            self._partial = None
            return Batch([*items, chunk.item(start, len(data), b"", skipping=True)], more=not whole)
        if rest > bytes_max:
            return Batch([*items, chunk.item(start, len(data), b"", _too_long(bytes_max), skipping=True)], more=True)
        if whole and self._is_late(found, base + start):
            late = _late(self._timeout_s)
            return Batch([*items, chunk.item(start, len(data), b"", late, skipping=True)])
        return Batch(items, more=not whole)

    def _is_late(self, found: os.stat_result, offset: int) -> bool:
        """Tell whether an incomplete line has not grown for too long."""
        now = time.monotonic()
        if self._partial is None or self._partial[:2] != (offset, found.st_size):
            self._partial = (offset, found.st_size, now)
        return now - self._partial[2] >= self._timeout_s


class _Chunk:
    """A part of a file that was read, and positions in it."""

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
    """Tell whether the bytes before a position are those that were read."""
    if found.st_size < position.offset:
        return False
    start = max(0, position.offset - _TAIL)
    return not position.offset or _print(os.pread(opened, position.offset - start, start)) == position.tail


def _restarted(opened: int, found: os.stat_result, position: Position) -> tuple[Position, Problem | None]:
    """Return where to continue in a file that has changed, and the loss if one is known."""
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
        detail = f"the file was cut from {position.seen_bytes} to {found.st_size} bytes: reading continues at its end"
        return cut, _lost(detail)
    if position.seen_bytes > position.offset:
        unread = position.seen_bytes - position.offset
        return fresh, _lost(f"the file was replaced with {unread} bytes of it unread: send again what was in them")
    return fresh, None


def _print(data: bytes) -> str:
    return blake2b(data, digest_size=12).hexdigest()


def _too_long(bytes_max: int) -> Problem:
    found, expected = f"more than {bytes_max} bytes without a newline", f"at most {bytes_max} bytes and a newline"
    detail = f"a line has {found}: it is skipped"
    return refusal("E_VALIDATION_005", detail, found=found, expected=expected).problem


def _late(timeout_s: float) -> Problem:
    detail = f"a line has been without a newline for {timeout_s:g} s: it is skipped up to the next newline"
    return refusal("E_PROTOCOL_002", detail, found="no newline", expected="a newline at the end of each line").problem


def _lost(detail: str) -> Problem:
    return refusal("E_PROTOCOL_002", detail, expected="a file that is only appended to, or renamed").problem
