"""Where a simulated project keeps its events: what the world needs of a store, and one in memory."""

from typing import Protocol

from tests.ids import SeededIds
from tocsin.core.events import Event, decode_events, encode_events
from tocsin.core.exchange import Exchange
from tocsin.core.state import IdSource

__all__ = ["MemoryStore", "Store"]


class Store(Protocol):
    """Keeps the events, and makes an exchange out of them again."""

    def exchange(self, ids: IdSource) -> Exchange:
        """Rebuild the exchange from what is stored."""

    def append(self, exchange: Exchange, events: list[Event]) -> None:
        """Make the events of one command durable; the exchange has applied them."""

    def project(self, exchange: Exchange) -> None:
        """Bring the recovery point up to date, where there is one."""

    def close(self) -> None:
        """Let go of everything."""


class MemoryStore:
    """A list of encoded batches."""

    def __init__(self) -> None:
        self.batches: list[bytes] = []

    def exchange(self, ids: IdSource) -> Exchange:
        """Rebuild the exchange from all batches."""
        return self.prefix(len(self.batches), ids)

    def prefix(self, length: int, ids: IdSource | None = None) -> Exchange:
        """Rebuild what the exchange was after some batches."""
        exchange = Exchange(SeededIds(0) if ids is None else ids)
        for batch in self.batches[:length]:
            exchange.replay(decode_events(batch))
        return exchange

    def append(self, exchange: Exchange, events: list[Event]) -> None:
        """Keep a batch."""
        self.batches.append(encode_events(events))

    def project(self, exchange: Exchange) -> None:
        """Do nothing: the batches are all there is."""

    def close(self) -> None:
        """Do nothing."""
