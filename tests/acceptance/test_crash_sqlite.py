"""A hub is killed at random moments and keeps every promise that it made."""

from pathlib import Path

from tests.acceptance.witness import Witness
from tests.soak import within
from tocsin.journal.sqlite import SqliteJournal


def test_a_killed_hub_keeps_its_promises(tmp_path: Path) -> None:
    where, segments = tmp_path / "project", tmp_path / "segments"
    witness = Witness("sqlite", str(where), segments, seed=1)
    for number in within(10, 200, budget_s=420):
        witness.kill_one()
        if number % 5 == 4:
            journal = SqliteJournal(where, "test", checkpoint_bytes=1 << 16)
            witness.hold_to_account(journal)
            journal.close()
    assert witness.sent
    assert witness.acked
