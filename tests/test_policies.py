"""Policies out of YAML: the packaged defaults, changes on top, and mistakes that are named."""

from pathlib import Path

import pytest

from tocsin.core.errors import PolicyRefused
from tocsin.frames.policy import FramesPolicy
from tocsin.policies import default_policy, frames_policy, load_policy, parse_policy


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
