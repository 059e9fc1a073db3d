"""Segments: the journal exported to immutable files, which are the pipeline's only input.

Theory of operation. A segment is `project=…/date=…/<first sequence number>.ndjson.zst`: one JSON object per event, the
events of one day, in order. The next segment begins after the end of the last one, so its first sequence number and its
name follow from the existing segments. A file gets its name only when it is complete and on disk, by a link that does
not replace an existing file; then it is recorded in the tables. An exporter that finds the name in use, after a crash
or because a replaced owner has written it, adopts that file. So every event is in exactly one segment.
"""

import os
import secrets
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from tocsin import zstd
from tocsin.core.events import Event
from tocsin.core.policy import Storage
from tocsin.journal.base import Journal
from tocsin.journal.errors import JournalDamaged, JournalUnavailable
from tocsin.journal.files import sync_file
from tocsin.journal.log import events_of, tail
from tocsin.journal.open_files import reason_of
from tocsin.journal.records import RECORDS, RECORDS_WITH_PAYLOADS
from tocsin.journal.tables import Segment, Tables

__all__ = ["CHUNK_BYTES", "Exporter", "read_segment"]

_JSON = msgspec.json.Encoder()
_DAY_US = 86_400_000_000
_TEMPORARY = ".cutting-"
#: Bytes of lines that are compressed at a time. The interpreter is released meanwhile.
CHUNK_BYTES = 32 * 1024


class _Record(msgspec.Struct):
    """The part of a record that is checked when a file is adopted."""

    seq: int


_RECORD: msgspec.json.Decoder[_Record] = msgspec.json.Decoder(_Record)


class Exporter:
    """Exports one project's journal to segments below a root folder."""

    def __init__(self, journal: Journal, tables: Tables, root: Path) -> None:
        self._journal = journal
        self._tables = tables
        self._root = root
        self._folder = root / f"project={journal.project}"
        self._exported = tables.exported_seq()
        self._bytes_per_event = 0.0
        #: Time of the first event that is in no segment; null until it has been read.
        self._first_at: int | None = None
        for leftover in self._folder.glob(f"date=*/{_TEMPORARY}*"):
            leftover.unlink(missing_ok=True)

    def step(self, storage: Storage, now: int | None = None) -> bool:
        """Write the next segment if it is due; return whether there may be more."""
        if not storage.segments:
            return False
        try:
            # A file that is finished but not recorded is there from before, or found when the name is in use.
            adopted = self._existing(self._exported + 1) if self._first_at is None else None
            segment = adopted or self._cut(storage, time.time_ns() // 1000 if now is None else now)
        except OSError as error:
            raise JournalUnavailable(reason_of(error, "io_error"), f"segments: {error}") from error
        if segment is None:
            return False
        self._tables.record_segment(segment)
        self._exported, self._first_at = segment.last_seq, None
        return True

    def _existing(self, first_seq: int) -> Segment | None:
        """Return a segment that was finished but not recorded, if there is one."""
        for path in self._folder.glob(f"date=*/{first_seq:020d}.ndjson.zst"):
            seqs = [_RECORD.decode(line).seq for line in read_segment(path)]
            if seqs != list(range(first_seq, first_seq + len(seqs))) or not seqs:
                raise JournalDamaged(f"{path.name}: the segment does not contain the events that its name states")
            return self._recorded(path, first_seq, seqs[-1])
        return None

    def _cut(self, storage: Storage, now: int) -> Segment | None:
        behind = self._journal.last_seq() - self._exported
        if not behind:
            return None
        if self._first_at is None:
            group = next(self._journal.read(self._exported, 1))
            self._first_at = events_of(group)[self._exported + 1 - group.first_seq].at
        old = self._first_at + storage.segment_age_s * 1_000_000 <= now
        if not old and behind * self._bytes_per_event < storage.segment_bytes_max:
            return None
        events = tail(self._journal, self._exported)
        first_seq, first = next(events)
        folder = self._folder / f"date={datetime.fromtimestamp(first.at / 1_000_000, UTC):%Y-%m-%d}"
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        folder.mkdir(exist_ok=True)
        temporary = folder / f"{_TEMPORARY}{first_seq}-{secrets.token_hex(4)}"
        last_seq = self._write(temporary, first_seq, first, events, storage)
        path = folder / f"{first_seq:020d}.ndjson.zst"
        try:
            os.link(temporary, path)
        except FileExistsError:
            return self._existing(first_seq)
        finally:
            temporary.unlink(missing_ok=True)
        sync_file(folder)
        return self._recorded(path, first_seq, last_seq)

    def _write(
        self, path: Path, first_seq: int, first: Event, rest: Iterator[tuple[int, Event]], storage: Storage
    ) -> int:
        """Write events up to the segment's limit or the end of their day; return the last one's number."""
        project, day = self._journal.project, first.at // _DAY_US
        records = RECORDS_WITH_PAYLOADS if storage.segment_payloads else RECORDS
        encode_into, size_max = _JSON.encode_into, storage.segment_bytes_max
        seq, event, size, lines = first_seq, first, 0, bytearray()
        with path.open("wb") as file:
            with zstd.open(file, "wb") as out:
                while True:
                    encode_into(records[type(event)](project, seq, event), lines, -1)
                    lines += b"\n"
                    following = next(rest, None)
                    if following is None or size + len(lines) >= size_max or following[1].at // _DAY_US != day:
                        break
                    if len(lines) >= CHUNK_BYTES:
                        out.write(lines)
                        size += len(lines)
                        lines.clear()
                    seq, event = following
                out.write(lines)
                size += len(lines)
            file.flush()
            os.fsync(file.fileno())
        self._bytes_per_event = size / (seq - first_seq + 1)
        return seq

    def _recorded(self, path: Path, first_seq: int, last_seq: int) -> Segment:
        where = path.relative_to(self._root).as_posix()
        return Segment(first_seq, last_seq, where, path.stat().st_size, time.time_ns() // 1000)


def read_segment(path: Path) -> list[bytes]:
    """Return the lines of a segment."""
    with zstd.open(path, "rb") as reader:
        return reader.read().splitlines()
