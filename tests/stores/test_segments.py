"""Segments: every event in exactly one file, whatever happens in between."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.stores.stores import Store
from tests.stores.test_recovery import lived, lived_on
from tests.workload import START
from tocsin.core.policy import Storage
from tocsin.journal.base import Journal
from tocsin.journal.errors import JournalDamaged
from tocsin.journal.log import tail
from tocsin.journal.segments import Exporter, read_segment
from tocsin.journal.tables import Segment, Tables
from tocsin.policies import default_policy

LATER = START * 2


@pytest.fixture
def tables(journal: Journal) -> Iterator[Tables]:
    opened = journal.tables()
    yield opened
    opened.close()


def storage(**changes: Any) -> Storage:
    return msgspec.structs.replace(default_policy().storage, **changes)


def cut_all(exporter: Exporter, limits: Storage) -> None:
    while exporter.step(limits, now=LATER):
        pass


def records(root: Path) -> list[dict[str, Any]]:
    files = sorted(root.glob("project=test/date=*/*.ndjson.zst"), key=lambda path: path.name)
    return [msgspec.json.decode(line) for path in files for line in read_segment(path)]


def test_segments_hold_every_event_once_by_name(
    journal: Journal, tables: Tables, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tocsin.journal.segments.CHUNK_BYTES", 1_000)  # smaller than a segment
    lived(journal, tables, 21, 500, 0.0)
    root = tmp_path / "segments"
    cut_all(Exporter(journal, tables, root), storage(segment_bytes_max=20_000))
    found = records(root)
    events = dict(tail(journal, 0))
    assert [record["seq"] for record in found] == list(events)
    for record in found:
        event = events[record["seq"]]
        assert (record["kind"], record["project"], record["at"]) == (type(event).__name__, "test", event.at)
        names = set(event.__struct_fields__) - {"payload", "metadata"}
        assert not names & {"kind", "project", "seq"}
        is_notice = getattr(event, "sender", "") == "tocsin" and b"subject" in getattr(event, "metadata", b"")
        notice = {"metadata"} if is_notice else set()
        assert set(record) == names | notice | {"kind", "project", "seq"}
    segments = tables.segments(0, 1000)
    assert len(segments) > 3
    assert tables.exported_seq() == journal.last_seq()
    for segment in segments:
        assert (root / segment.path).stat().st_size == segment.size
    assert not list(root.glob("**/.*"))


def test_payloads_are_exported_only_where_policy_asks(journal: Journal, tables: Tables, tmp_path: Path) -> None:
    lived(journal, tables, 22, 400, 0.0)
    cut_all(Exporter(journal, tables, tmp_path), storage(segment_payloads=True))
    accepted = [record for record in records(tmp_path) if record["kind"] == "MessageAccepted"]
    assert any("text" in (record["payload"] or {}) for record in accepted)
    assert {record["payload"] is None for record in accepted if record["broadcast"]} == {True}


def test_a_segment_is_cut_when_it_is_old_or_large_and_not_before(
    journal: Journal, tables: Tables, tmp_path: Path
) -> None:
    exchange = lived(journal, tables, 23, 300, 0.0)
    exporter, limits = Exporter(journal, tables, tmp_path), storage(segment_age_s=10, segment_bytes_max=5_000)
    assert not exporter.step(limits, now=START + 9_000_000)
    assert exporter.step(limits, now=START + 10_000_000)
    assert 0 < tables.exported_seq() < exchange.state.seq
    assert exporter.step(limits, now=START)
    assert not exporter.step(storage(segments=False), now=LATER)


def test_a_day_begins_a_new_segment(journal: Journal, tables: Tables, tmp_path: Path) -> None:
    exchange = lived(journal, tables, 24, 200, 0.0)
    lived_on(exchange, journal, later=86_400_000_000)
    cut_all(Exporter(journal, tables, tmp_path), storage())
    days = {path.name: len(list(path.iterdir())) for path in tmp_path.glob("project=test/date=*")}
    assert sorted(days) == ["date=2025-06-15", "date=2025-06-16"]
    for record in records(tmp_path):
        assert record["at"] // 86_400_000_000 in (START // 86_400_000_000, START // 86_400_000_000 + 1)


def test_a_crash_before_the_name_leaves_nothing_and_after_it_a_segment_that_is_adopted(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = store.open()
    tables = journal.tables()
    lived(journal, tables, 25, 200, 0.0)
    limits = storage(segment_bytes_max=5_000)

    def crash(*_: object) -> None:
        raise KeyboardInterrupt

    for moment in ("os.fsync", "os.link"):
        with monkeypatch.context() as patch:
            patch.setattr(moment, crash)
            with pytest.raises(KeyboardInterrupt):
                Exporter(journal, tables, tmp_path).step(limits, now=LATER)
        assert records(tmp_path) == []
    with monkeypatch.context() as patch:
        patch.setattr(tables, "record_segment", crash)
        with pytest.raises(KeyboardInterrupt):
            Exporter(journal, tables, tmp_path).step(limits, now=LATER)
    assert tables.exported_seq() == 0
    first = records(tmp_path)
    exporter = Exporter(journal, tables, tmp_path)
    assert exporter.step(storage(segment_bytes_max=100_000), now=LATER)
    assert tables.exported_seq() == len(first)
    cut_all(exporter, limits)
    assert [record["seq"] for record in records(tmp_path)] == list(range(1, journal.last_seq() + 1))
    assert not list(tmp_path.glob("**/.cutting-*"))
    tables.close()
    journal.close()


def test_segments_that_the_tables_forgot_are_adopted_even_where_the_journal_has_been_pruned(
    journal: Journal, tables: Tables, tmp_path: Path
) -> None:
    exchange = lived(journal, tables, 28, 300, 0.0)
    cut_all(Exporter(journal, tables, tmp_path), storage(segment_bytes_max=10_000))
    before = tables.segments(0, 1000)
    assert len(before) > 2
    while journal.prune(exchange.state.seq, 1 << 60, 50):
        pass

    class Forgetful:
        """Tables from before the first segment, as a power cut may leave them."""

        def __init__(self) -> None:
            self.adopted: list[Segment] = []

        def exported_seq(self) -> int:
            return 0

        def record_segment(self, segment: Segment) -> None:
            self.adopted.append(segment)

    forgetful = Forgetful()
    cut_all(Exporter(journal, forgetful, tmp_path), storage())  # type: ignore[arg-type]
    ranges = [(segment.first_seq, segment.last_seq, segment.path) for segment in forgetful.adopted]
    assert ranges == [(segment.first_seq, segment.last_seq, segment.path) for segment in before]


def test_two_who_cut_at_the_same_time_make_one_segment(
    journal: Journal, tables: Tables, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lived(journal, tables, 26, 200, 0.0)
    mine, other = Exporter(journal, tables, tmp_path), Exporter(journal, tables, tmp_path)
    link = os.link

    def late(source: Path, target: Path) -> None:
        monkeypatch.setattr("os.link", link)
        assert other.step(storage(segment_bytes_max=3_000), now=LATER)
        link(source, target)

    monkeypatch.setattr("os.link", late)
    assert mine.step(storage(), now=LATER)
    cut_all(mine, storage())
    assert [record["seq"] for record in records(tmp_path)] == list(range(1, journal.last_seq() + 1))


def test_a_file_with_other_events_than_its_name_says_is_not_adopted(
    journal: Journal, tables: Tables, tmp_path: Path
) -> None:
    lived(journal, tables, 27, 200, 0.0)
    cut_all(Exporter(journal, tables, tmp_path), storage(segment_bytes_max=5_000))
    files = sorted(tmp_path.glob("project=test/date=*/*.zst"))
    files[1].replace(files[0])

    class Forgetful:
        def exported_seq(self) -> int:
            return 0

    with pytest.raises(JournalDamaged, match="does not contain the events that its name states"):
        Exporter(journal, Forgetful(), tmp_path).step(storage(), now=LATER)  # type: ignore[arg-type]
