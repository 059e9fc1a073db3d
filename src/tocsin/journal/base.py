"""The journal protocol: groups of events in sequence, each appended in one durable commit by the project's owner.

Theory of operation. A group is the encoded batch of the events of one or many commands, with its range of sequence
numbers and a checksum over both. Ranges follow each other without a gap, so a reader can prove that nothing is missing.
The store adds a chain value to each group, which also covers the groups before it.
Each owner that opens a project for writing gets an epoch, higher than any before. Every append carries it, and the
append of an owner that has been replaced is refused. A journal may prune its oldest groups once all projections include
them; `pruned_seq` is the last pruned event. All calls are synchronous and belong to one thread at a time.
"""

import struct
from collections.abc import Iterator
from typing import Protocol

import msgspec

from tocsin.journal.checksums import chained, group_checksum
from tocsin.journal.errors import JournalDamaged, TablesDamaged
from tocsin.journal.tables import Tables
from tocsin.journal.terms import OwnershipTerms

__all__ = ["BUFFERED", "FLUSHED", "REPLICATED", "Commit", "Group", "Journal", "checked", "group_of"]

#: A commit that a power failure could undo, but not a crash of the hub.
BUFFERED = "buffered"
#: A commit that is on disk.
FLUSHED = "flushed"
#: A commit that is on disk and applied on every synchronous standby.
REPLICATED = "replicated"


class Commit(msgspec.Struct, frozen=True):
    """Durability of an appended group."""

    #: `buffered`, `flushed` or `replicated`.
    durability: str
    #: Number of nodes that have it.
    copies: int


class Group(msgspec.Struct, frozen=True):
    """The events of one commit."""

    #: Sequence number of its first event.
    first_seq: int
    #: Sequence number of its last event.
    last_seq: int
    #: When its last event happened, microseconds since the epoch.
    at: int
    #: Epoch of the owner that wrote it.
    epoch: int
    #: The events, encoded.
    events: bytes
    checksum: int
    #: Value over this checksum and the chain value of the group before; null in a group from before there was one.
    chain: int | None = None


class Journal(Protocol):
    """One project's journal, open for writing by its owner."""

    #: The project's name.
    project: str
    #: Number of this owner, counted over all owners of the project.
    epoch: int
    #: Terms of the owner's lease; null where ownership needs no renewal.
    terms: OwnershipTerms | None
    #: Time for one commit, seconds; null is no limit.
    commit_timeout_s: float | None

    def append(self, group: Group) -> Commit:
        """Make a group durable; it must follow the last one."""

    def read(self, after_seq: int, limit: int = 0) -> Iterator[Group]:
        """Return the groups that end after a sequence number, checked and in order; `limit` 0 is all."""

    def last_seq(self) -> int:
        """Return the sequence number of the last event."""

    def last_at(self) -> int:
        """Return when the last event happened; 0 where none has, or none is left."""

    def pruned_seq(self) -> int:
        """Return the sequence number of the last pruned event."""

    def prune(self, upto_seq: int, before_at: int, limit: int) -> int:
        """Delete up to `limit` of the oldest groups that end by a sequence number and a time; return their number."""

    def harden(self) -> None:
        """Make every append so far safe from a power failure."""

    def probe(self) -> Commit:
        """Make a commit without events, to find out whether commits work and how durable they are."""

    def announce(self, seq: int) -> None:
        """Notify other processes that the journal has new events."""

    def recover(self) -> None:
        """Reconnect as the owner after a failed commit."""

    def renew(self) -> None:
        """Renew the owner's lease, on a connection of its own."""

    def lease_left_s(self) -> float:
        """Return for how long the owner may serve without another renewal, seconds."""

    def tables(self) -> Tables:
        """Open the project's tables, on a connection of their own."""

    def reset_tables(self, error: TablesDamaged) -> None:
        """Empty damaged tables, or put a backup in their place; raise if the journal cannot complete them."""

    def close(self) -> None:
        """Close the journal and give up ownership."""


def group_of(first_seq: int, count: int, at: int, epoch: int, events: bytes) -> Group:
    """Make a group, with its checksum."""
    last_seq = first_seq + count - 1
    return Group(first_seq, last_seq, at, epoch, events, group_checksum(first_seq, last_seq, at, epoch, events))


def _is_sound(group: Group) -> bool:
    try:
        return group.checksum == group_checksum(group.first_seq, group.last_seq, group.at, group.epoch, group.events)
    except (TypeError, ValueError, struct.error):  # damage has changed the type of a value
        return False


def checked(groups: Iterator[Group], after_seq: int, name: str, before: int | None = None) -> Iterator[Group]:
    """Yield groups whose checksum is right and that follow each other; raise for the first damaged one.

    `before` is the chain value of the group before the first one; null where it is not known.
    """
    expected: int | None = None
    for group in groups:
        where = f"{name}, group {group.first_seq} to {group.last_seq}"
        if expected is None:
            expected = after_seq + 1
            if group.first_seq > expected:
                raise JournalDamaged(f"{where}: events {expected} to {group.first_seq - 1} before it are missing")
        elif group.first_seq != expected:
            raise JournalDamaged(f"{where}: it should begin with event {expected}")
        if not _is_sound(group):
            raise JournalDamaged(f"{where}: its checksum does not match its content")
        if None not in (before, group.chain) and group.chain != chained(before or 0, group.checksum):
            raise JournalDamaged(f"{where}: it does not continue the group before it; one of the two was replaced")
        yield group
        before = group.chain
        expected = group.last_seq + 1
