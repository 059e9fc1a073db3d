"""Intervals of sequence numbers."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tocsin.pipeline.lake.intervals import count_of, gaps_of, intervals_of, joined, overlap, without

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
    left = sorted(set(first) - set(second))
    assert without(one, two) == intervals_of(np.array(left, dtype=np.int64))
