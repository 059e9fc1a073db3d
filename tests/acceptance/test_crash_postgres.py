"""A hub on PostgreSQL is killed at random moments and keeps every promise that it made."""

import secrets
from pathlib import Path

from tests.acceptance.witness import Witness
from tests.postgres import Server
from tests.soak import within
from tocsin.journal.postgres import PostgresJournal


def test_a_killed_hub_keeps_its_promises(postgres: Server, tmp_path: Path) -> None:
    dsn = postgres.database(f"crash_{secrets.token_hex(6)}")
    witness = Witness("postgres", dsn, tmp_path / "segments", seed=2)
    for number in within(5, 50, budget_s=240):
        witness.kill_one()
        if number % 5 == 4:
            journal = PostgresJournal(dsn, "test", wait_s=30)
            witness.hold_to_account(journal)
            journal.close()
    assert witness.sent
    assert witness.acked
