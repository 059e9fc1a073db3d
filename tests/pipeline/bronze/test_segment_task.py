"""The segment task: accepted events, quarantine, duplicates, and records of older and newer writers."""

from enum import Enum
from pathlib import Path
from types import UnionType
from typing import Any, Union, cast, get_args, get_origin, get_type_hints

import msgspec
import pyarrow.parquet as pq
import pytest

from tests.pipeline.test_message_life import STORY
from tests.pipeline.traffic import DAY_US, START, numbered, row_of, simulated, write_segment
from tocsin import zstd
from tocsin.core import events as ev
from tocsin.core.events import EVENT_TYPES, Event
from tocsin.journal.records import record_of
from tocsin.pipeline.bronze.landing_zone import segment_name
from tocsin.pipeline.bronze.segment_task import Assignment, Ingested, ingest_segment
from tocsin.pipeline.lake.intervals import Interval
from tocsin.pipeline.tables.schemas import EVENT


def read(path: Path, landing: Path, tmp_path: Path, covered: list[Interval] | None = None, **limits: int) -> Ingested:
    bounds: dict[str, Any] = {"text_max": 100, "lines_max": 50, **limits}
    name = path.relative_to(landing).as_posix()
    return ingest_segment(Assignment(str(landing), name, str(tmp_path / "wh"), covered or [], **bounds))


def rows(result: Ingested, tmp_path: Path) -> list[tuple[object, ...]]:
    found = []
    for file in result.files:
        day = Path(file.path).parts[-2].removeprefix("date=")
        for row in pq.ParquetFile(tmp_path / "wh" / file.path).read().to_pylist():
            said = {**row, "project": file.project, "date": day}
            found.append(tuple(said.get(column.name) for column in EVENT))
    return sorted(found, key=lambda row: int(str(row[2])))


def quarantine(result: Ingested, tmp_path: Path) -> list[dict[str, object]]:
    return [row for file in result.quarantine for row in pq.ParquetFile(tmp_path / "wh" / file.path).read().to_pylist()]


def as_rows(project: str, events: list[Event], first: int = 1) -> list[tuple[object, ...]]:
    wanted = []
    for row in [row_of(project, seq, event) for seq, event in enumerate(events, first)]:
        wanted.append((row[0], str(row[1]), *row[2:]))
    return wanted


def test_every_event_arrives_as_it_is(landing: Path, tmp_path: Path) -> None:
    events, _ = simulated(7, 1500)
    day = [event for event in events if event.at // DAY_US == events[0].at // DAY_US]
    result = read(write_segment(landing, "p", 1, day), landing, tmp_path)
    assert (result.events, result.lines, result.quarantined, result.duplicates) == (len(day), len(day), 0, 0)
    assert result.seqs == [(1, len(day))]
    assert rows(result, tmp_path) == as_rows("p", day)
    assert sum(result.kinds.values()) == len(day)


def test_files_are_sorted_by_kind_and_number(landing: Path, tmp_path: Path) -> None:
    result = read(write_segment(landing, "p", 1, STORY), landing, tmp_path)
    found = pq.ParquetFile(tmp_path / "wh" / result.files[0].path).read(["kind", "seq"]).to_pylist()
    order = [(row["kind"], row["seq"]) for row in found]
    assert order == sorted(order)
    assert (result.files[0].low, result.files[0].high, result.last_at) == (1, len(STORY), STORY[-1].at)


def test_a_file_has_the_columns_of_its_kinds_only(landing: Path, tmp_path: Path) -> None:
    beats: list[Event] = [ev.SessionHeartbeat(START, "s"), ev.SessionHeartbeat(START + 1, "s")]
    (file,) = read(write_segment(landing, "p", 1, beats), landing, tmp_path).files
    assert pq.read_schema(tmp_path / "wh" / file.path).names == ["seq", "kind", "at", "session"]


def test_a_segment_with_two_days_becomes_two_files(landing: Path, tmp_path: Path) -> None:
    events: list[Event] = [ev.SessionHeartbeat(START + day * DAY_US, "s") for day in (0, 1, 0)]
    result = read(write_segment(landing, "p", 5, events), landing, tmp_path)
    assert [(file.date, file.rows, file.low, file.high) for file in result.files] == [
        ("2025-11-12", 2, 5, 7),
        ("2025-11-13", 1, 6, 6),
    ]


def line_of(seq: int, event: Event, **changes: object) -> bytes:
    return msgspec.json.encode({**record_of("p", seq, event, payloads=False), **changes})


BEAT = ev.SessionHeartbeat(START, "s")
OFFER = ev.MessageOffered(START, 1, "s", 1, 1, 5, True)


@pytest.mark.parametrize(
    ("line", "reason", "detail"),
    [
        (b"{", "malformed", "not a JSON object with a kind"),
        (b"", "malformed", "not a JSON object with a kind"),
        (b"[1]", "malformed", "not a JSON object with a kind"),
        (b'{"kind":"SessionHeartbeat","project":"p","seq":3,"at":1,"session":"s"', "malformed", "truncated"),
        (b'{"kind":"SessionHeartbeat","session":"\xff\xfe"}', "malformed", "utf-8"),
        (b'{"kind":"CatFed","project":"p","seq":3,"at":1}', "unknown_kind", "there is no event 'CatFed'"),
        (line_of(3, BEAT, project="q"), "impossible", "'q' - at `$.project`"),
        (line_of(0, BEAT), "impossible", "$.seq"),
        (line_of(1 << 60, BEAT), "impossible", "$.seq"),
        (line_of(3, BEAT, at=-1), "impossible", "$.at"),
        (line_of(3, BEAT, at=10**18), "impossible", "$.at"),
        (line_of(3, BEAT, session=7), "impossible", "$.session"),
        (line_of(3, OFFER, level=5), "impossible", "$.level"),
        (line_of(3, OFFER, waited_us=-5), "impossible", "$.waited_us"),
        (line_of(3, OFFER, message=3), "impossible", "message 3, which was not accepted yet at 3"),
        (b'{"kind":"MessageOffered","project":"p","seq":3,"at":1,"message":1}', "impossible", "session"),
    ],
)
def test_what_is_no_event_is_quarantined(landing: Path, tmp_path: Path, line: bytes, reason: str, detail: str) -> None:
    result = read(write_segment(landing, "p", 1, [BEAT, BEAT], [line]), landing, tmp_path)
    assert (result.events, result.quarantined, result.seqs) == (2, 1, [(1, 2)])
    (row,) = quarantine(result, tmp_path)
    assert row["line"] == 3
    assert row["reason"] == reason
    assert detail in str(row["detail"])
    assert row["file"] == result.segment
    assert row["text"] == line[:100].decode("utf-8", "replace")


def test_a_file_that_is_no_segment_is_quarantined_whole(landing: Path, tmp_path: Path) -> None:
    path = write_segment(landing, "p", 1, [BEAT])
    path.write_bytes(zstd.compress(b"x" * 10_000)[:15])
    result = read(path, landing, tmp_path)
    assert result.events == 0
    (row,) = quarantine(result, tmp_path)
    assert (row["line"], row["reason"]) == (0, "unreadable")


def test_quarantine_has_a_limit_and_counts_on(landing: Path, tmp_path: Path) -> None:
    result = read(write_segment(landing, "p", 1, [BEAT], [b"?"] * 20), landing, tmp_path, lines_max=5)
    assert result.quarantined == 20
    assert len(quarantine(result, tmp_path)) == 5


def test_an_older_writer_did_not_know_all_fields(landing: Path, tmp_path: Path) -> None:
    acknowledged = record_of("p", 2, ev.MessageAcknowledged(START, 1, "received", 5), payloads=False)
    del acknowledged["notes"]
    refused = record_of("p", 3, ev.SendRefused(START, "m", "a", "b", "T", 1, "E_X", "no"), payloads=False)
    del refused["retry_after_s"]
    extra = [msgspec.json.encode(acknowledged), msgspec.json.encode(refused)]
    result = read(write_segment(landing, "p", 1, [BEAT], extra), landing, tmp_path)
    assert result.quarantined == 0
    wanted: list[Event] = [
        BEAT,
        ev.MessageAcknowledged(START, 1, "received", 5),
        ev.SendRefused(START, "m", "a", "b", "T", 1, "E_X", "no"),
    ]
    assert rows(result, tmp_path) == as_rows("p", wanted)


def test_a_newer_writer_may_say_more_and_in_another_order(landing: Path, tmp_path: Path) -> None:
    line = b'{"mood":"good","seq":2,"session":"s","at":%d,"project":"p","kind":"SessionHeartbeat"}' % START
    result = read(write_segment(landing, "p", 1, [BEAT], [line]), landing, tmp_path)
    assert rows(result, tmp_path) == as_rows("p", [BEAT, BEAT])


def test_what_bronze_has_is_left_out(landing: Path, tmp_path: Path) -> None:
    path = write_segment(landing, "p", 3, STORY, [line_of(4, BEAT)])
    result = read(path, landing, tmp_path, [(1, 5), (10, 11)])
    everything = set(range(3, 3 + len(STORY)))
    kept = everything - {3, 4, 5, 10, 11}
    assert result.duplicates == len(STORY) + 1 - len(kept)
    assert [row[2] for row in rows(result, tmp_path)] == sorted(kept)
    assert result.seqs == [(6, 9), (12, 2 + len(STORY))]


def test_payloads_are_kept_as_text(landing: Path, tmp_path: Path) -> None:
    event = ev.BroadcastAccepted(START, "m", "a", "T", "*", 2, ("x=E_1",), b'{"n": 1}', b"{}")
    line = msgspec.json.encode(record_of("p", 2, event, payloads=True))
    result = read(write_segment(landing, "p", 1, [BEAT], [line]), landing, tmp_path)
    found = pq.ParquetFile(tmp_path / "wh" / result.files[0].path).read().to_pylist()
    (row,) = [row for row in found if row["kind"] == "BroadcastAccepted"]
    assert (row["payload"], row["metadata"], row["failed"]) == ('{"n": 1}', "{}", ["x=E_1"])


def test_names_of_segments() -> None:
    assert segment_name("x/project=p/date=2025-01-02/00000000000000000007.ndjson.zst") == ("p", "2025-01-02", 7)
    assert segment_name("project=p/date=2025-01-02/.cutting-7-ab") is None
    assert numbered("p", [BEAT])[0][1] == 1


def sample(kind: type) -> Event:
    """Make an event of a kind, with something in every field."""

    def value(hint: Any) -> Any:
        if get_origin(hint) in (Union, UnionType):
            return value(next(item for item in get_args(hint) if item is not type(None)))
        if get_origin(hint) is tuple:
            return (value(get_args(hint)[0]),) * 2
        if issubclass(hint, Enum):
            return next(iter(hint))
        return {bool: True, int: 1, float: 0.5, str: "körper", bytes: b'{"a": 1}'}[hint]

    hints = get_type_hints(kind)
    made = kind(**{name: START if name == "at" else value(hint) for name, hint in hints.items()})
    return cast("Event", made)


def test_every_kind_of_event_arrives(landing: Path, tmp_path: Path) -> None:
    events = [sample(kind) for kind in EVENT_TYPES]
    result = read(write_segment(landing, "p", 2, events), landing, tmp_path)
    assert quarantine(result, tmp_path) == []
    assert rows(result, tmp_path) == as_rows("p", events, 2)
