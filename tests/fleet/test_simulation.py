"""Fleets in virtual time: hubs join, leave, are killed, hang and return, and every project keeps one hub."""

import pytest

from tests.fleet.simulation import SimulatedFleet, SimulatedHub, remembered_places
from tests.soak import scaled
from tocsin.fleet.placement import place
from tocsin.journal.postgres.ownership import Watch

__all__ = ["remembered_places"]

PROJECTS = scaled(2000, 6000)
HUBS = scaled(6, 12)
CHANGES = scaled(10, 120)
SEEDS = range(scaled(2, 8))
#: Allowance for chance in the shares: aims of the fleet.
SPREAD = 1.25

pytestmark = pytest.mark.usefixtures("remembered_places")


def moved(before: dict[str, str], after: dict[str, str]) -> int:
    return sum(before[project] != after[project] for project in before)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_fleet_that_changes_keeps_one_hub_for_every_project(seed: int) -> None:
    fleet = SimulatedFleet(seed, PROJECTS)
    for _ in range(HUBS):
        fleet.join()
    owners = fleet.settle()
    hung: list[object] = []
    for _ in range(CHANGES):
        working = fleet.working
        kinds = ["join", "leave", "kill", "hang"] if len(working) > HUBS - 2 else ["join"]
        kind = fleet.random.choice(["return"] if len(hung) > 1 else kinds)
        if kind == "join":
            fleet.join()
        elif kind == "return":
            fleet.resume(hung.pop(0))  # type: ignore[arg-type]
        else:
            hub = fleet.random.choice(working)
            if kind == "hang":
                hung.append(hub)
            getattr(fleet, kind)(hub)
        hubs = max(len(working), len(fleet.working))
        before, owners = owners, fleet.settle()
        assert moved(before, owners) <= SPREAD * PROJECTS / hubs, f"{kind}: too many projects have moved"
        assert fleet.most_over_mean(owners) <= SPREAD


@pytest.mark.parametrize("seed", SEEDS)
def test_changes_in_quick_succession_come_to_rest(seed: int) -> None:
    fleet = SimulatedFleet(seed, PROJECTS // 4)
    for _ in range(HUBS):
        fleet.join()
    fleet.settle()
    for _ in range(CHANGES):
        working = fleet.working
        hub = fleet.random.choice(working)
        if len(working) < HUBS - 1:
            fleet.join()
        elif fleet.random.random() < 0.5:
            fleet.leave(hub)
        else:
            fleet.hang(hub)
            for _ in range(fleet.random.randrange(1, 100)):
                fleet.step()
            fleet.resume(hub)
        for _ in range(fleet.random.randrange(1, 8)):
            fleet.step()
    assert fleet.most_over_mean(fleet.settle()) <= 2 * SPREAD  # few projects for so many hubs


def test_a_heavier_hub_has_a_larger_share_and_one_without_weight_waits() -> None:
    fleet = SimulatedFleet(1, PROJECTS)
    light, heavy, idle = fleet.join(1.0), fleet.join(3.0), fleet.join(0.0)
    owners = list(fleet.settle().values())
    assert owners.count(heavy.address) / owners.count(light.address) == pytest.approx(3.0, rel=0.2)
    assert owners.count(idle.address) == 0
    fleet.kill(heavy)
    fleet.leave(light)
    assert set(fleet.settle().values()) == {idle.address}


def test_a_project_that_its_hub_cannot_open_is_found_while_other_hubs_join(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check of the simulation itself: changes that do not concern a project must not hide it."""
    fleet = SimulatedFleet(1, 200)
    first, joining = 4, 40
    addresses = [fleet.join().address for _ in range(first)]
    later = [f"http://hub-{number}" for number in range(first + 1, first + joining + 1)]
    stuck = next(project for project in fleet.projects if place(project, [*addresses, *later]) in addresses)
    acquired = SimulatedHub.acquire

    def acquired_unless_stuck(hub: SimulatedHub, project: str, watch: Watch) -> bool:
        return project != stuck and acquired(hub, project, watch)

    def join_others() -> None:
        for _ in later:
            fleet.join()
            for _ in range(4):
                fleet.step()

    monkeypatch.setattr(SimulatedHub, "acquire", acquired_unless_stuck)
    with pytest.raises(AssertionError, match=f"^{stuck} is without a hub for"):
        join_others()
    assert {hub.address for hub in fleet.hubs} <= {*addresses, *later}
