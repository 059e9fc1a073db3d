"""The simulator over the real journals: what is rebuilt comes from disk, through tables and tail."""

import os
from pathlib import Path

import pytest

from tests.postgres import Server
from tests.simulation.journals import JournalStore
from tests.simulation.world import World
from tests.stores.stores import PostgresStore, SqliteStore, Store

SOAK = bool(os.environ.get("TOCSIN_SOAK"))
STEPS = 1500 if SOAK else 250


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


@pytest.mark.parametrize("seed", range(60) if SOAK else range(6))
def test_every_promise_holds_on_sqlite(seed: int, tmp_path: Path) -> None:
    run(seed, SqliteStore(tmp_path, "FULL"))


@pytest.mark.parametrize("seed", range(30) if SOAK else range(3))
def test_every_promise_holds_on_postgres(seed: int, postgres: Server) -> None:
    run(seed, PostgresStore(postgres))
