"""Stations of Critical messages: each message is matched with its own commit, and its steps add up."""

import json
from pathlib import Path

import pytest
from bench.stations import STEPS, Recorder, breakdown, steps_of


def test_a_message_has_the_times_of_the_first_commit_after_its_decision(tmp_path: Path) -> None:
    recorder = Recorder()
    recorder.messages = {
        "early": {"read": 1.0, "decided": 1.1, "pushed": 1.9},
        "late": {"read": 1.3, "decided": 1.6, "pushed": 2.9},
        "lost": {"read": 5.0, "decided": 5.1},
    }
    recorder.commits = [[0.5, 0.6, 1.0, 1.1], [1.2, 1.3, 1.7, 1.8], [1.8, 2.0, 2.5, 2.8], [5.2, 5.3]]
    recorder.write(tmp_path / "stations.json")
    found = json.loads((tmp_path / "stations.json").read_text())
    assert {name: times["flushed"] for name, times in found.items()} == {"early": 1.2, "late": 1.8}

    steps = steps_of({"early": [0.9, 2.0], "late": [1.2, 3.0], "unknown": [1.0, 2.0]}, found)
    assert [one["all"] for one in steps] == pytest.approx([1100.0, 1800.0])
    assert [sum(one[step] for step in STEPS) for one in steps] == pytest.approx([1100.0, 1800.0])
    assert steps[1]["flushed"] == pytest.approx(200.0)
    assert "Critical messages: 2" in breakdown(steps)
    assert breakdown([]) == "no Critical message was traced"
