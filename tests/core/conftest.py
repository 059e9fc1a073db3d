"""What every test of the core gets: teams whose journals are replayed afterwards, and how hard Hypothesis tries."""

from collections.abc import Callable, Iterator

import pytest
from hypothesis import settings

from tests.core.driver import Team
from tests.soak import SOAK, scaled
from tocsin.core.policy import Policy

NewTeam = Callable[..., Team]

settings.register_profile("quick", max_examples=60, deadline=None, derandomize=True)
settings.register_profile("soak", max_examples=scaled(60, 1500), deadline=None)
settings.load_profile("soak" if SOAK else "quick")


@pytest.fixture
def new_team() -> Iterator[NewTeam]:
    """Make teams, and check at the end that each one's events add up to its state."""
    teams: list[Team] = []

    def make(policy: Policy | str | None = None) -> Team:
        teams.append(Team(policy))
        return teams[-1]

    yield make
    for team in teams:
        team.check_replay()


@pytest.fixture
def team(new_team: NewTeam) -> Team:
    """Make a team under the default policy: a manager, two who implement, a director and a clone; nobody attached."""
    team = new_team()
    team.register("manager_001", "Manager")
    team.register("impl_001")
    team.register("impl_002")
    team.register("boss", "Director", "director")
    team.register("twin", "Implementation", "clone")
    return team
