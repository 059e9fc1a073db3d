"""Numbered schema changes: SQL files `0001_name.sql` in a package folder, each applied once, in order."""

from functools import cache
from importlib import resources

import msgspec

from tocsin.journal.errors import JournalUnsupported

__all__ = ["Migration", "migrations", "pending"]


class Migration(msgspec.Struct, frozen=True):
    """One step of a schema."""

    number: int
    name: str
    sql: str


@cache
def migrations(package: str, folder: str) -> list[Migration]:
    """Read the steps of a schema once; raise if their numbers do not count from 1 without a gap."""
    files = sorted(
        (file for file in resources.files(package).joinpath(folder).iterdir() if file.name.endswith(".sql")),
        key=lambda file: file.name,
    )
    steps = [Migration(int(file.name[:4]), file.name[5:-4], file.read_text(encoding="utf-8")) for file in files]
    if [step.number for step in steps] != list(range(1, len(steps) + 1)):
        raise JournalUnsupported(f"the migrations in {folder} do not count from 1: {[step.number for step in steps]}")
    return steps


def pending(steps: list[Migration], version: int, what: str) -> list[Migration]:
    """Return the steps that a schema of some version still lacks; refuse one that is newer than this software."""
    if version > len(steps):
        raise JournalUnsupported(
            f"{what} has schema version {version}; this version of Tocsin supports up to {len(steps)}: update Tocsin"
        )
    return steps[version:]
