"""The simulator over the real journals: what is rebuilt comes from disk, through tables and tail."""

from pathlib import Path

import pytest

from tests.postgres import Server
from tests.simulation.journals import JournalStore
from tests.simulation.world import World
from tests.soak import scaled
from tests.stores.stores import PostgresStore, SqliteStore, Store

STEPS = scaled(200, 1500)


def run(seed: int, store: Store) -> None:
    stored = JournalStore(store.open())
    try:
        world = World(seed, store=stored)
        for _ in range(STEPS):
            world.step()
        world.finish()
        world.rebuild()
    finally:
        stored.close()


@pytest.mark.parametrize("seed", range(scaled(4, 20)))
def test_every_promise_holds_on_sqlite(seed: int, tmp_path: Path) -> None:
    run(seed, SqliteStore(tmp_path, "FULL"))


@pytest.mark.parametrize("seed", range(scaled(2, 10)))
def test_every_promise_holds_on_postgres(seed: int, postgres: Server) -> None:
    run(seed, PostgresStore(postgres))
