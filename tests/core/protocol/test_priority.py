"""The one scale and its vocabularies: LIMINAL's formulas with the design's two corrections, and the table of names."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.core.protocol.priority import APM_VOCABULARY, VOCABULARY, Priority, apm_name, category, priority_name
from tocsin.policies import default_policy

INFO, COORDINATE, BLOCKING, CRITICAL, OVERRIDE = Priority

#: Inside, LIMINAL, SPEC-071 category, APM 1.0.0 in and out, token cost.
SCALE = [
    (INFO, 0, "Info", "INFO", "LOW", 1),
    (COORDINATE, 1, "Coordinate", "TASK", "NORMAL", 5),
    (BLOCKING, 2, "Blocking", "ASK", "HIGH", 20),
    (CRITICAL, 3, "Critical", "BLOCKER", "HIGH", 100),
    (OVERRIDE, 4, "DirectorOverride", None, "HIGH", 0),
]


@pytest.mark.parametrize(("level", "number", "liminal", "spec", "apm", "cost"), SCALE)
def test_a_row_of_the_scale(level: Priority, number: int, liminal: str, spec: str | None, apm: str, cost: int) -> None:
    assert int(level) == number
    assert priority_name(level) == liminal
    assert VOCABULARY[liminal] is level
    assert apm_name(level) == apm
    if spec is not None:
        assert category(level) == spec
        assert VOCABULARY[spec] is level
    assert default_policy().bucket.cost[liminal] == cost
    assert default_policy().bucket.costs[level] == cost


def test_an_override_counts_as_a_blocker() -> None:
    assert category(OVERRIDE) == "BLOCKER"


@pytest.mark.parametrize(("name", "level"), [("LOW", INFO), ("NORMAL", COORDINATE), ("HIGH", BLOCKING)])
def test_what_the_old_names_mean_on_arrival(name: str, level: Priority) -> None:
    assert APM_VOCABULARY[name] is VOCABULARY[name] is level


def test_there_are_no_other_names() -> None:
    assert set(APM_VOCABULARY) == {"LOW", "NORMAL", "HIGH"}
    assert set(VOCABULARY) == {
        *("LOW", "NORMAL", "HIGH"),
        *("Info", "Coordinate", "Blocking", "Critical", "DirectorOverride"),
        *("INFO", "TASK", "ASK", "BLOCKER"),
    }


@pytest.mark.parametrize(
    ("level", "levels", "boosted"),
    [
        (INFO, 0, INFO),
        (INFO, 1, COORDINATE),
        (INFO, 2, BLOCKING),
        (INFO, 3, CRITICAL),
        (INFO, 4, CRITICAL),
        (COORDINATE, 1, BLOCKING),
        (COORDINATE, 2, CRITICAL),
        (BLOCKING, 1, CRITICAL),
        (CRITICAL, 1, CRITICAL),
        (CRITICAL, 255, CRITICAL),
        (OVERRIDE, 0, OVERRIDE),
        (OVERRIDE, 1, OVERRIDE),
    ],
)
def test_a_boost(level: Priority, levels: int, boosted: Priority) -> None:
    assert level.boost(levels) is boosted


@given(st.sampled_from(Priority), st.integers(0, 300))
def test_a_boost_never_lowers_and_never_makes_an_override(level: Priority, levels: int) -> None:
    boosted = level.boost(levels)
    assert boosted >= level
    assert boosted is not OVERRIDE or level is OVERRIDE


PREEMPTS = {
    (BLOCKING, INFO),
    (CRITICAL, INFO),
    (CRITICAL, COORDINATE),
    (OVERRIDE, INFO),
    (OVERRIDE, COORDINATE),
    (OVERRIDE, BLOCKING),
    (OVERRIDE, CRITICAL),
    (OVERRIDE, OVERRIDE),
}


@pytest.mark.parametrize("level", Priority)
@pytest.mark.parametrize("other", Priority)
def test_two_levels_higher_preempts_and_an_override_always(level: Priority, other: Priority) -> None:
    assert level.can_preempt(other) is ((level, other) in PREEMPTS)
