"""Manifests and intervals."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.pipeline.errors import CommitLost, WarehouseDamaged
from tocsin.pipeline.lake.intervals import count_of, gaps_of, intervals_of, joined, overlap
from tocsin.pipeline.lake.manifest import DataFile, Manifest, Manifests

numbers = st.lists(st.integers(1, 60), max_size=40)


@given(numbers)
def test_intervals_hold_exactly_their_numbers(seqs: list[int]) -> None:
    intervals = intervals_of(np.array(seqs, dtype=np.int64))
    assert [n for low, high in intervals for n in range(low, high + 1)] == sorted(set(seqs))
    assert count_of(intervals) == len(set(seqs))
    missing = set(range(1, max(seqs, default=0) + 1)) - set(seqs)
    assert {n for low, high in gaps_of(intervals) for n in range(low, high + 1)} == missing


@given(numbers, numbers)
def test_joined_and_overlapping(first: list[int], second: list[int]) -> None:
    one, two = (intervals_of(np.array(seqs, dtype=np.int64)) for seqs in (first, second))
    assert joined([*two, *one]) == intervals_of(np.array(first + second, dtype=np.int64))
    probe = np.arange(0, 70)
    assert np.flatnonzero(overlap(probe, one)).tolist() == sorted(set(first))


def test_a_version_is_committed_once(tmp_path: Path) -> None:
    manifests = Manifests(tmp_path, keep=10)
    assert manifests.current() == Manifest()
    manifests.commit(Manifest(version=1), [])
    with pytest.raises(CommitLost, match="version 1"):
        manifests.commit(Manifest(version=1, made_as={"a": "b"}), [])
    assert manifests.current().made_as == {}
    assert [path.name for path in (tmp_path / "_manifests").iterdir()] == ["000000000001.json"]


def test_what_is_committed_comes_back(tmp_path: Path) -> None:
    manifests = Manifests(tmp_path, keep=10)
    (tmp_path / "event").mkdir()
    (tmp_path / "event" / "f.parquet").touch()
    file = DataFile("event/f.parquet", "p", "2025-01-01", 3, 10, 1, 3, 99)
    written = Manifest(version=1, tables={"event": [file]}, pending={file.path: ["X"]})
    manifests.commit(written, [file])
    assert manifests.current() == written
    assert manifests.current().rows("event") == 3


def test_a_file_that_is_not_there_is_not_committed(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Manifests(tmp_path, keep=10).commit(Manifest(version=1), [DataFile("gone", "p", None, 1, 1, 0, 0, 0)])
    assert Manifests(tmp_path, keep=10).versions() == []


def test_old_manifests_go(tmp_path: Path) -> None:
    manifests = Manifests(tmp_path, keep=2)
    for version in (1, 2, 3, 4):
        manifests.commit(Manifest(version=version), [])
    assert manifests.versions() == [3, 4]


def test_a_damaged_manifest_is_told(tmp_path: Path) -> None:
    manifests = Manifests(tmp_path, keep=2)
    manifests.commit(Manifest(version=1), [])
    (tmp_path / "_manifests" / "000000000001.json").write_text("{")
    with pytest.raises(WarehouseDamaged, match="000000000001"):
        manifests.current()
