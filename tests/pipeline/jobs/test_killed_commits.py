"""A job that is killed at each of its commits in turn, with tables in a folder."""

import random
import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.pipeline.jobs.kills import check, expected, segments
from tests.pipeline.jobs.test_run import wrong
from tests.soak import SOAK
from tocsin.pipeline.catalogue import open_warehouse
from tocsin.pipeline.jobs.run import run
from tocsin.pipeline.jobs.verify import verify
from tocsin.pipeline.lake.compaction import Housekeeping, compact
from tocsin.pipeline.lake.delta_table import StoredTable
from tocsin.pipeline.lake.release import Releases
from tocsin.pipeline.settings import Settings

__all__ = ["expected", "segments"]

#: `make test` kills it at one of so many commits, and `make soak` at all of them.
STRIDE = 1 if SOAK else 2


class Killed(BaseException):
    """Stands for the end of the process."""


def test_killed_at_every_commit(
    no_spark: SparkSession,
    settings: Settings,
    tmp_path: Path,
    segments: Path,
    expected: dict[str, list[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each attempt gets further than the one before, and ends with files that are written and not committed.

    Tasks run in this process: there are a dozen attempts and more, and what is tested is the driver's.
    """
    house = open_warehouse(tmp_path / "lake", settings)
    commit, allowed, kills = StoredTable.commit, [0], 0
    first = random.SystemRandom().randrange(STRIDE)
    print(f"the first one is killed after {first} commits")  # noqa: T201

    def counted(table: StoredTable, *arguments: Any, **options: Any) -> int:
        if allowed[0] == 0:
            raise Killed
        allowed[0] -= 1
        return commit(table, *arguments, **options)

    monkeypatch.setattr(StoredTable, "commit", counted)
    while True:
        allowed[0] = first + kills * STRIDE
        try:
            run(no_spark, house, segments)
            break
        except Killed:
            kills += 1
            left = open_warehouse(tmp_path / "lake", settings)
            behind = {"tables"} if left.current().pending else set()
            assert {check.name for check in wrong(verify(left, None, ()))} == behind
    assert kills > 5
    monkeypatch.setattr(StoredTable, "commit", commit)
    check(house, str(segments), expected)


def test_files_are_merged_after_a_run_was_killed_before_its_release(
    no_spark: SparkSession,
    settings: Settings,
    tmp_path: Path,
    segments: Path,
    expected: dict[str, list[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The newest version of `event` has events that no release names, and merging starts from the newest version.

    A run that follows commits `event` anew in any case. Merged before it, these events would be released, and then once
    more by the run.
    """
    house, landing = open_warehouse(tmp_path / "lake", settings), tmp_path / "landing"
    files = sorted(segments.rglob("*.ndjson.zst"))
    for file in files:
        if file is files[-1]:
            run(no_spark, house, landing)
        copy = landing / file.relative_to(segments)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, copy)

    def killed(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(Releases, "commit", killed)
        with pytest.raises(Killed):
            run(no_spark, house, landing)
    left = open_warehouse(tmp_path / "lake", settings)
    state = left.current()
    assert not state.pending
    assert {file.path for file in left.table("event").files()} > {file.path for file in state.files("event")}
    compact(left, Housekeeping())
    assert wrong(verify(left, None, ())) == []
    run(no_spark, house, landing)
    check(house, str(landing), expected)
