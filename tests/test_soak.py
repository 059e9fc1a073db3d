"""The length of long tests, and the counts of what they tried."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.statistics import collector, describe_statistics

from tests import soak
from tests.conftest import TRIED


@pytest.mark.parametrize(("share", "cases"), [(0.0, 5), (0.01, 5), (0.1, 20), (1.0, 200)])
def test_the_share_says_how_many_cases(monkeypatch: pytest.MonkeyPatch, share: float, cases: int) -> None:
    monkeypatch.setattr(soak, "SHARE", share)
    monkeypatch.setattr(soak, "SOAK", share > 0)
    assert soak.scaled(5, 200) == cases
    assert len(list(soak.within(5, 200, budget_s=600))) == cases


def test_a_test_ends_when_its_time_is_used_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(soak, "SHARE", 1.0)
    monkeypatch.setattr(soak, "SOAK", True)
    assert len(list(soak.within(5, 200, budget_s=-1))) == 5


def test_only_known_kinds_are_counted() -> None:
    with pytest.raises(KeyError):
        soak.tally("sheep")


def test_the_summary_has_a_line_for_each_kind() -> None:
    lines = soak.summary(Counter(kills=1200))
    assert len(lines) == len(soak.KINDS)
    assert lines[0].split() == ["1,200", "processes", "killed"]


def test_the_inputs_of_a_property_can_be_counted() -> None:
    """Hypothesis does not promise the form of its statistics."""

    @settings(max_examples=7, database=None)
    @given(st.integers())
    def holds(number: int) -> None:
        assert number == number

    noted: list[str] = []
    with collector.with_value(lambda stats: noted.append(describe_statistics(stats))):  # type: ignore[arg-type]
        holds()
    assert sum(int(number) for number in TRIED.findall("".join(noted))) == 7
