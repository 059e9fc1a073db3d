"""Histories for the tests of the pipeline."""

from tests.pipeline.traffic import simulated
from tests.simulation.world import World


def test_a_world_that_is_not_checked_has_the_same_history() -> None:
    """Long enough for states to be rebuilt from a prefix, which draws from the random numbers too."""
    checked = World(41)
    for _ in range(150):
        checked.step()
    _, unchecked = simulated(41, 150)
    assert unchecked.journal.batches == checked.journal.batches
