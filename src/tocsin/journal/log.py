"""Reading and writing a journal as a list of events, for simulators and tools."""

from collections.abc import Iterator

import msgspec

from tocsin.core.events import Event, decode_events, encode_events
from tocsin.journal.base import Commit, Group, Journal, group_of
from tocsin.journal.errors import JournalDamaged

__all__ = ["EventLog", "events_of", "tail"]


class EventLog:
    """Appends and reads decoded events."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._next_seq = journal.last_seq() + 1

    def append(self, events: list[Event]) -> Commit:
        """Make events durable in one commit."""
        group = group_of(self._next_seq, len(events), events[-1].at, self._journal.epoch, encode_events(events))
        commit = self._journal.append(group)
        self._next_seq += len(events)
        return commit

    def read(self, after_seq: int = 0) -> Iterator[Event]:
        """Return the events after a sequence number, in order."""
        for _, event in tail(self._journal, after_seq):
            yield event


def tail(journal: Journal, after_seq: int) -> Iterator[tuple[int, Event]]:
    """Yield the events after a sequence number with their numbers, in order."""
    for group in journal.read(after_seq):
        for seq, event in enumerate(events_of(group), group.first_seq):
            if seq > after_seq:
                yield seq, event


def events_of(group: Group) -> list[Event]:
    """Decode a group."""
    where = f"group {group.first_seq} to {group.last_seq}"
    try:
        events = decode_events(group.events)
    except msgspec.DecodeError as error:
        raise JournalDamaged(f"{where}: its events cannot be decoded: {error}") from None
    if len(events) != group.last_seq - group.first_seq + 1:
        raise JournalDamaged(f"{where}: it holds {len(events)} events")
    return events
