"""A hub is killed at random moments and keeps every promise that it made."""

import os
from pathlib import Path

from tests.acceptance.witness import Witness
from tocsin.journal.sqlite import SqliteJournal

KILLS = 200 if os.environ.get("TOCSIN_SOAK") else 20


def test_a_killed_hub_keeps_its_promises(tmp_path: Path) -> None:
    where, segments = tmp_path / "project", tmp_path / "segments"
    witness = Witness("sqlite", str(where), segments, seed=1)
    for number in range(KILLS):
        witness.kill_one()
        if number % 5 == 4:
            journal = SqliteJournal(where, "test", checkpoint_bytes=1 << 16)
            witness.hold_to_account(journal)
            journal.close()
    assert witness.sent
    assert witness.acked
