"""The simulator on a disk that fails: nothing confirmed is lost without a word, and no damage is taken for data."""

import random
from pathlib import Path

import apsw
import pytest

from tests.simulation.disk import FAULTS, DiskStore
from tests.simulation.world import ProjectStopped, World
from tests.soak import SOAK, scaled
from tocsin.journal.errors import JournalError

STEPS = scaled(200, 1500)
#: `make test` strikes at one of so many points of a projection, and `make soak` at all of them.
STRIDE = 1 if SOAK else 4


@pytest.mark.parametrize("seed", range(scaled(5, 20)) if SOAK else (1, 4))
def test_every_promise_holds_on_a_failing_disk(seed: int, tmp_path: Path) -> None:
    rng = random.Random(f"disk {seed}")
    store = DiskStore(tmp_path / "project", rng)
    try:
        world = World(seed, store=store)
        store.rate = 0.3
        try:
            for step in range(STEPS):
                world.step()
                if step % 10 == 9:
                    store.flip()
                    world.rebuild()
        except ProjectStopped:
            # A flipped bit of the file was noticed when the journal grew; up to then nothing was lost.
            assert "flipped journal.db" in store.struck
            return
        world.rebuild()
        assert set(FAULTS) <= store.struck.keys()
        assert store.outcomes
    finally:
        store.close()


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("what", ["append", "project"])
def test_a_fault_at_every_point_of_a_write(fault: str, what: str, tmp_path: Path) -> None:
    """Strike at the first write, then at a later one, and so on, until the work has no such point any more."""
    stride = STRIDE if what == "project" else 1
    point = random.SystemRandom().randrange(stride)
    print(f"the first point is {point}")  # noqa: T201
    store = DiskStore(tmp_path / "project", random.Random(f"{fault} {what}"))
    points = 0
    try:
        world = World(3, store=store)
        for _ in range(30):
            world.step()
        while strike(store, world, fault, what, point):
            point += stride
            points += 1
            assert points < 1000
    finally:
        store.close()
    assert points >= (2 if what == "append" else 10 // stride)


def strike(store: DiskStore, world: World, fault: str, what: str, point: int) -> bool:
    """Let a fault strike one commit, or one projection, at some point; tell whether there is such a point."""
    inner = store.inner
    work = getattr(inner, what)
    done: list[bool] = []

    def struck(*arguments: object) -> None:
        delattr(inner, what)
        done.append(True)
        store.strike(fault, point, lambda: work(*arguments))

    setattr(inner, what, struck)
    while not done:
        for _ in range(5 if what == "project" else 1):  # Some are refused, and a projection of nothing has no points.
            world.send()
        if what == "project":
            world.project()
    world.ledger.check_state(world.exchange.state, world.now)
    return store.reached


def test_the_check_notices_a_store_that_forgets(tmp_path: Path) -> None:
    """A check that cannot fail proves nothing: let the store lose its last commit, with the note of it."""
    store = DiskStore(tmp_path / "project", random.Random(1))
    try:
        world = World(3, store=store)
        for _ in range(30):
            world.step()
        store.stop()
        connection = apsw.Connection(str(tmp_path / "project" / "journal.db"))
        connection.execute("DELETE FROM journal WHERE first_seq = (SELECT max(first_seq) FROM journal)")
        connection.close()
        (tmp_path / "project" / "journal.last").unlink()
        with pytest.raises((AssertionError, JournalError)):
            world.rebuild()
    finally:
        store.close()
