"""No flipped bit in the header of a stored row makes recovery use other values than those that were written.

SQLite notices most of them, because the lengths of the values no longer add up. It cannot notice one that joins the
type of a null with the type after it: every value from there on is read one column further, and the last one is null.
"""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw
import pytest

from tests.ids import SeededIds
from tests.soak import SOAK
from tests.stores.records import flipped, records
from tests.stores.stores import SqliteStore
from tests.stores.test_checksums import play_everything
from tests.stores.test_recovery import fingerprint
from tocsin.journal.base import Journal
from tocsin.journal.errors import TablesDamaged
from tocsin.journal.recovery import reopen
from tocsin.journal.table_definitions import SEALED
from tocsin.journal.verification import examine_tables

#: `make test` flips one of so many bits, and `make soak` each of them.
STRIDE = 1 if SOAK else 16
#: Rows of a table whose headers are damaged.
ROWS = 6
#: The bit of a type's byte that says that the next byte belongs to it.
CONTINUED = 7


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    """A project with a row of every kind in its tables, which nobody has open."""
    journal = SqliteStore(tmp_path / "project", "FULL").open()
    tables = journal.tables()
    play_everything(journal, tables)
    while tables.index(100):
        pass
    tables.close()
    yield journal
    journal.close()


@pytest.fixture
def file(journal: Journal, tmp_path: Path) -> Path:
    """Its tables."""
    return tmp_path / "project" / "tables.db"


def recovered(journal: Journal) -> bytes:
    """Return the state that the tables give."""
    tables = journal.tables()
    try:
        return fingerprint(reopen(journal, tables, SeededIds(0)).state)
    finally:
        tables.close()


@contextmanager
def joined(file: Path, table: str, column: int) -> Iterator[None]:
    """Join the types of a column and of the next one in the last row in which the column is null."""
    found, data = records(file, table), file.read_bytes()
    place = next(record.types[column] for record in reversed(found) if not data[record.types[column]])
    with flipped(file, place, CONTINUED):
        yield


def test_no_flipped_bit_of_a_header_goes_unnoticed(journal: Journal, file: Path) -> None:
    whole = recovered(journal)
    bits = [
        (at, bit)
        for table in (*SEALED, "standing")
        for record in records(file, table)[:ROWS]
        for at in range(record.begin, record.end)
        for bit in range(8)
    ]
    first, noticed = random.SystemRandom().randrange(STRIDE), 0
    print(f"the first bit is {first}")  # noqa: T201
    for at, bit in bits[first::STRIDE]:
        with flipped(file, at, bit):
            try:
                assert recovered(journal) == whole, f"bit {bit} of byte {at}"
            except TablesDamaged:
                noticed += 1
    assert noticed > len(bits) / STRIDE / 2


def test_a_session_whose_checksum_was_cut_off_is_damage(journal: Journal, file: Path) -> None:
    # `closed_at` is null, and the index that finds open sessions still says so. Recovery took the values of the row,
    # with the checksum as `stale`, for those of a row from before there were checksums.
    with joined(file, "sessions", 6), pytest.raises(TablesDamaged, match=r"sessions, row .*: its checksum is missing"):
        recovered(journal)


def test_a_policy_whose_checksum_was_cut_off_is_damage(journal: Journal, file: Path) -> None:
    # The key of a table with row numbers is stored as null. The policy was the checksum, and the start was refused.
    with joined(file, "policies", 0), pytest.raises(TablesDamaged, match=r"policies, row \d+: its checksum is missing"):
        recovered(journal)


def test_a_position_with_a_value_of_another_type_is_damage(journal: Journal, file: Path) -> None:
    (record,) = records(file, "standing")
    # A long document becomes a number and something shorter. That was a TypeError, and the tables were not rebuilt.
    with flipped(file, record.types[2], CONTINUED), pytest.raises(TablesDamaged, match="values of other types"):
        recovered(journal)


def test_a_position_that_lost_its_document_is_damage(journal: Journal, file: Path) -> None:
    connection = apsw.Connection(str(file))
    connection.execute("UPDATE standing SET document = x''")
    connection.close()
    with pytest.raises(TablesDamaged, match="the checksum of the position of the tables does not match"):
        recovered(journal)


def test_a_backup_is_not_made_of_rows_whose_checksum_was_cut_off(journal: Journal, file: Path) -> None:
    with joined(file, "sessions", 6):
        tables = journal.tables()
        with pytest.raises(TablesDamaged, match=r"sessions, row .*its checksum is missing"):
            tables.back_up(lambda: None)
        assert tables.backed_up_seq() == 0
        tables.close()


def test_a_verification_names_the_row_whose_checksum_was_cut_off(journal: Journal, file: Path) -> None:
    with joined(file, "sessions", 6):
        tables = journal.tables()
        damaged = [problem for found in examine_tables(tables) for problem in found.problems]
        tables.close()
    assert len(damaged) == 1
    assert "its checksum is missing" in damaged[0]
