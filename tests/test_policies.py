"""Policies out of YAML: the packaged defaults, changes on top, and mistakes that are named."""

from pathlib import Path

import pytest

from tocsin.core.errors import PolicyRefused, TocsinError
from tocsin.frames.policy import FramesPolicy
from tocsin.policies import changed_policy, default_policy, differences, frames_policy, load_policy, parse_policy


def test_the_frame_bus_on_its_own_has_the_packaged_numbers() -> None:
    assert frames_policy(default_policy()) == FramesPolicy()


def test_a_project_changes_only_what_it_names(tmp_path: Path) -> None:
    path = tmp_path / "tocsin.yaml"
    path.write_text("frames: {shedding: {high: 0.9}}\naging: {threshold_s: 30}\n", encoding="utf-8")
    policy = load_policy(path)
    assert frames_policy(policy).shedding.high == 0.9
    assert frames_policy(policy).shedding.normal == FramesPolicy().shedding.normal
    assert policy.aging.threshold_s == 30
    assert policy.bucket == default_policy().bucket


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("frames: {sheding: {high: 1}}", "did you mean 'shedding'"),
        ("frames: {shedding: {hihg: 1}}", "did you mean 'high'"),
        ("frames: {shedding: {high: 0.1}}", "fill thresholds"),
        ("frames: {channel: {capacity: 1.5}}", "$.frames.channel.capacity"),
        ("agng: {}", "did you mean 'aging'"),
        ("- a list", "a mapping of sections"),
        ("aging: [", "not YAML"),
    ],
)
def test_a_mistake_is_named(text: str, named: str) -> None:
    with pytest.raises(PolicyRefused) as caught:
        parse_policy(text)
    assert named in caught.value.problem.detail


def test_an_empty_file_changes_nothing() -> None:
    assert parse_policy("") is default_policy()


def test_a_change_keeps_what_it_does_not_name() -> None:
    base = parse_policy("{aging: {threshold_s: 30}, sweeper: {interval_s: 5}}")
    changed = changed_policy(base, {"aging": {"threshold_s": 31}})
    assert (changed.aging.threshold_s, changed.sweeper.interval_s) == (31, 5)
    assert parse_policy("aging: {threshold_s: 31}").sweeper.interval_s == 60, "a whole policy has the defaults"
    assert parse_policy("aging: {threshold_s: 31}", base).sweeper.interval_s == 5


def test_a_change_with_an_unknown_key_is_refused() -> None:
    with pytest.raises(TocsinError, match="threshold_s"):
        changed_policy(parse_policy(""), {"aging": {"treshold_s": 31}})


def test_the_differences_of_two_policies() -> None:
    before, after = {"a": {"x": 1, "y": 2}, "gone": 3}, {"a": {"x": 1, "y": [4]}, "new": "z"}
    found = differences(before, after)
    assert [str(one) for one in found] == ["a.y: 2 → [4]", 'new: null → "z"', "gone: 3 → null"]
    assert differences(after, after) == []


def test_a_difference_is_written_with_plain_numbers_and_units() -> None:
    before = {"wait_s": 60.0, "share": 0.5, "limit_bytes": 10, "on": True, "idle_s": None}
    after = {"wait_s": 31.5, "share": 1.0, "limit_bytes": 20, "on": False, "idle_s": 5.0}
    assert [str(one) for one in differences(before, after)] == [
        "wait_s: 60 s → 31.5 s",
        "share: 0.5 → 1",
        "limit_bytes: 10 bytes → 20 bytes",
        "on: true → false",
        "idle_s: null → 5 s",
    ]
