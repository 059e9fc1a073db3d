"""A small extract with known numbers, in the form that the pipeline writes."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from tocsin import zstd
from tocsin.extract import INDEX, Column, Evidence, Index, Part, Piece, Reach, Table

__all__ = ["ADVICE", "RECALL", "TRAFFIC", "part", "write_extract"]

_COMMON = (Column("project", "string", "The project."), Column("date", "date", "Day, UTC."))
TRAFFIC = [
    *_COMMON,
    Column("hour", "timestamp", "Start of the hour."),
    Column("sender", "string", "Who sent."),
    Column("message_type", "string", "The type."),
    Column("messages", "bigint", "Messages accepted."),
    Column("p95_us", "bigint", "95 % were faster."),
]
LEAD_TIME = [
    Column("project", "string", "The project."),
    Column("message_type", "string", "The type."),
    Column("samples", "bigint", "How many."),
]
RECALL = [*_COMMON, Column("minute", "timestamp", "The minute."), Column("recalls", "bigint", "How many.")]
ADVICE = Piece(
    "ttl_too_short",
    "Question",
    "20 % of Question expire although their recipient comes soon after: let them live for longer.",
    [Evidence("ttl_use", "expired where message_type = Question", 0.2, 80)],
    "contracts:\n  Question:\n    ttl_s: 7200\n",
)


def part(folder: Path, project: str, date: str | None, rows: Sequence[Sequence[Any]], left_out: int = 0) -> Part:
    """Write a part."""
    name = f"part-{abs(hash((project, date, repr(rows)))):x}.ndjson.zst"
    folder.mkdir(parents=True, exist_ok=True)
    lines = b"".join(msgspec.json.encode(list(row)) + b"\n" for row in rows)
    (folder / name).write_bytes(zstd.compress(lines))
    return Part(project, date, name, len(rows) + left_out, len(rows))


def write_extract(
    folder: Path,
    *,
    project: str = "team",
    last_seq: int = 1,
    days: Sequence[str] = ("2026-03-02", "2026-03-03"),
    reached_at: int = 1_772_528_400_000_000,
    advice: Sequence[Piece] = (ADVICE,),
    senders: Sequence[str] = ("ada", "bob"),
) -> Index:
    """Write an extract: two tables by day, one without days, and rows of another project that must not be shown."""

    def traffic(date: str, whose: str, factor: int) -> list[list[Any]]:
        return [
            [whose, date, f"{date}T{hour:02}:00:00+00:00", sender, kind, factor * (hour + place + 1), 1000 * (hour + 1)]
            for hour in (9, 10)
            for place, (sender, kind) in enumerate(
                (sender, kind) for sender in senders for kind in ("Question", "StatusUpdate")
            )
        ]

    parts = [part(folder, project, day, traffic(day, project, 1 + number)) for number, day in enumerate(days)]
    foreign = part(folder, "elsewhere", days[0], traffic(days[0], "elsewhere", 1000))
    recalls = [part(folder, project, day, [[project, day, f"{day}T09:01:00+00:00", 3]], left_out=7) for day in days]
    lead = part(folder, project, None, [[project, "Question", 12], [project, "TASK_ASSIGNMENT", 4]])
    index = Index(
        version=7,
        written_at=reached_at + 60_000_000,
        tables={
            "traffic": Table("What was sent, by hour.", TRAFFIC, [*parts, foreign]),
            "recall": Table("Recalls by minute.", RECALL, recalls),
            "lead_time": Table("How long threads take.", LEAD_TIME, [lead]),
        },
        reach={project: Reach(last_seq, reached_at, 0)},
        advice={project: list(advice), "elsewhere": [ADVICE]},
    )
    (folder / INDEX).write_bytes(msgspec.json.encode(index))
    return index
