"""Verification of everything that a project has stored: every group of the journal and every row of the tables.

Unlike a recovery it does not stop at the first damage, and it also reads the rows that only history shows. It changes
nothing and needs no ownership, so it can run beside a hub.
"""

from collections.abc import Iterable, Iterator

import msgspec

from tocsin.journal.base import Group, checked
from tocsin.journal.checksums import FROM_BEFORE, key_of, verifier
from tocsin.journal.columns import Row
from tocsin.journal.errors import JournalDamaged
from tocsin.journal.log import events_of
from tocsin.journal.recovery import snapshot_of
from tocsin.journal.table_definitions import RECOVERED
from tocsin.journal.tables import Tables
from tocsin.journal.token_table import GRANTS, damage_of

__all__ = ["Examined", "examine_journal", "examine_tables", "examine_tokens"]

#: Problems that a report names; the others are counted.
_NAMED_MAX = 100


class Examined(msgspec.Struct):
    """Result of reading one part of what is stored."""

    what: str
    #: Number of groups or rows that were read.
    read: int = 0
    #: Number of those that are older than checksums, so that damage to them may go unnoticed.
    unverified: int = 0
    damaged: int = 0
    #: The damage, one sentence each, up to a limit.
    problems: list[str] = []
    #: What else is worth knowing.
    note: str = ""

    @property
    def good(self) -> bool:
        """Tell whether nothing is damaged."""
        return not self.damaged

    def add(self, problem: str) -> None:
        """Record one damage."""
        self.damaged += 1
        if len(self.problems) < _NAMED_MAX:
            self.problems.append(problem)


def examine_journal(groups: Iterable[Group], pruned_seq: int, pruned_chain: int | None, name: str) -> Examined:
    """Read every group, and go on after a damaged one."""
    found = Examined("journal")
    last_seq, chain = pruned_seq, pruned_chain
    first_seq: int | None = None
    for group in groups:
        found.read += 1
        first_seq = group.first_seq if first_seq is None else first_seq
        found.unverified += group.chain is None
        if group.first_seq != last_seq + 1:
            found.add(f"{name}: events {last_seq + 1} to {group.first_seq - 1} are missing")
            chain = None
        try:
            for sound in checked(iter((group,)), group.first_seq - 1, name, chain):
                events_of(sound)
        except JournalDamaged as error:
            found.add(str(error))
        last_seq, chain = group.last_seq, group.chain
    found.note = f"events {pruned_seq + 1} to {last_seq}" if found.read else f"empty after event {pruned_seq}"
    return found


def examine_tables(tables: Tables) -> Iterator[Examined]:
    """Read every row of every table, and then what a recovery would read."""
    for table in RECOVERED:
        found, verdict = Examined(f"table {table.name}"), verifier(table)
        try:
            for row in tables.rows(table):
                found.read += 1
                wrong = verdict(row)
                if wrong is FROM_BEFORE:
                    found.unverified += 1
                elif wrong is not None:
                    found.add(f"row {key_of(table, row)}: the checksum of {wrong} does not match")
        except JournalDamaged as error:
            found.add(str(error))
        yield found
    whole = Examined("recovery point")
    try:
        snapshot, _ = snapshot_of(tables)
        whole.read = len(snapshot.messages) + len(snapshot.agents) + len(snapshot.sessions)
        whole.note = f"up to event {snapshot.seq}"
    except JournalDamaged as error:
        whole.add(str(error))
    yield whole


def examine_tokens(rows: Iterable[Row]) -> Examined:
    """Read every token."""
    found, mac = Examined("tokens"), GRANTS.names.index("mac")
    without = 0
    for row in rows:
        found.read += 1
        wrong = damage_of(row)
        if wrong is not None:
            found.add(f"token {key_of(GRANTS, row)}: {wrong}")
        without += row[mac] is None
    if without:
        found.note = f"{without} of an earlier version, not presented since"
    return found
