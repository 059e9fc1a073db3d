"""The figures of capacity come from real registrations, a journal that is opened again, and sockets to a real hub."""

from pathlib import Path

import pytest

from bench import capacity


def test_agents_are_registered_asked_and_found_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capacity, "SAMPLES", 50)
    task = (60, str(tmp_path / "project"))
    found = capacity.measure_agents(task)
    assert 0 < found["send_p50_us"] <= found["send_p99_us"]
    assert 0 < found["heartbeat_p50_us"] <= found["heartbeat_p99_us"]
    assert capacity.measure_opening(task)["open_s"] > 0


def test_agents_that_do_not_come_back_are_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capacity, "SAMPLES", 1)
    capacity.measure_agents((5, str(tmp_path / "project")))
    with pytest.raises(SystemExit, match="5 agents of 6 were restored"):
        capacity.measure_opening((6, str(tmp_path / "project")))


async def test_sockets_are_opened_and_kept_alive(tmp_path: Path) -> None:
    found = await capacity.measure_sockets([3, 5], tmp_path, heartbeat_s=0.1)
    assert [*found] == [3, 5]
    assert all(figures["ping_p50_ms"] > 0 for figures in found.values())
