"""Real journals for the simulator: every commit goes to disk, and every rebuild is an opening of the project."""

from tests.ids import SeededIds
from tocsin.core.events import Event, encode_events
from tocsin.core.exchange import Exchange
from tocsin.core.state import IdSource
from tocsin.journal.base import Journal, group_of
from tocsin.journal.changes import ObservedExchange
from tocsin.journal.projection import batch_of
from tocsin.journal.recovery import reopen

__all__ = ["JournalStore"]


class JournalStore:
    """A journal and its tables: the recovery point is written when the world says so."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self.tables = journal.tables()

    def exchange(self, ids: IdSource | None = None) -> Exchange:
        """Read the tables, apply the journal's tail."""
        return reopen(self.journal, self.tables, SeededIds(0) if ids is None else ids)

    def append(self, exchange: Exchange, events: list[Event]) -> None:
        """Commit one group."""
        first_seq = exchange.state.seq - len(events) + 1
        self.journal.append(group_of(first_seq, len(events), events[-1].at, self.journal.epoch, encode_events(events)))

    def project(self, exchange: Exchange) -> None:
        """Write the tables."""
        if not isinstance(exchange, ObservedExchange):
            raise TypeError("only an exchange that was opened from a journal can be projected")
        if exchange.state.has_policy:
            self.tables.write(batch_of(exchange.capture()))

    def close(self) -> None:
        """Let go of the project."""
        self.tables.close()
        self.journal.close()
