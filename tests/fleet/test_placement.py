"""Placement: everyone agrees, few projects move, and nobody has much more than its share."""

from collections import Counter

import pytest

from tocsin.fleet.placement import place, ranked

PROJECTS = [f"project-{number}" for number in range(4000)]


def owners(hubs: dict[str, float]) -> dict[str, str]:
    return {project: place(project, hubs) for project in PROJECTS}


def test_the_order_in_which_hubs_are_known_does_not_matter() -> None:
    hubs = {f"hub-{number}": 1.0 for number in range(7)}
    assert owners(hubs) == owners(dict(reversed(hubs.items())))


@pytest.mark.parametrize("hubs", [2, 5, 20])
def test_the_most_loaded_hub_is_near_the_mean(hubs: int) -> None:
    load = Counter(owners({f"hub-{number}": 1.0 for number in range(hubs)}).values())
    assert max(load.values()) <= 1.25 * len(PROJECTS) / hubs


@pytest.mark.parametrize("hubs", [2, 5, 20])
def test_a_hub_that_joins_takes_its_share_and_nothing_else_moves(hubs: int) -> None:
    before = owners({f"hub-{number}": 1.0 for number in range(hubs)})
    after = owners({f"hub-{number}": 1.0 for number in range(hubs + 1)})
    moved = {project for project in PROJECTS if before[project] != after[project]}
    assert all(after[project] == f"hub-{hubs}" for project in moved)
    assert len(moved) <= 1.25 * len(PROJECTS) / (hubs + 1)


def test_a_hub_that_leaves_gives_only_its_own_projects_away_and_to_all_others() -> None:
    hubs = {f"hub-{number}": 1.0 for number in range(5)}
    before = owners(hubs)
    del hubs["hub-2"]
    after = owners(hubs)
    moved = [project for project in PROJECTS if before[project] != after[project]]
    assert {before[project] for project in moved} == {"hub-2"}
    assert {after[project] for project in moved} == set(hubs)


def test_a_hub_of_double_weight_has_twice_as_many_projects() -> None:
    load = Counter(owners({"small": 1.0, "large": 2.0}).values())
    assert load["large"] / load["small"] == pytest.approx(2.0, rel=0.1)


def test_the_first_in_the_order_is_the_place() -> None:
    hubs = {f"hub-{number}": 1.0 for number in range(9)}
    for project in PROJECTS[:200]:
        order = ranked(project, hubs)
        assert order[0] == place(project, hubs)
        assert sorted(order) == sorted(hubs)
