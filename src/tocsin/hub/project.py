"""The services of one open project that operations use: its host, its history and its polling sessions."""

import asyncio
from typing import TYPE_CHECKING

from tocsin.core.state import ProjectState
from tocsin.hub.clock import Clock
from tocsin.hub.hosting.host import Host
from tocsin.hub.piggyback import Piggyback
from tocsin.hub.reader import Reader

if TYPE_CHECKING:
    from tocsin.hub.service import Hub

__all__ = ["Project"]


class Project:
    """One open project, in a hub or embedded."""

    def __init__(
        self,
        host: Host,
        reader: Reader,
        *,
        page_max: int,
        page_bytes_max: int,
        rows_per_turn: int,
        find_depth: int,
        preview_max: int,
        clock: Clock,
        hub: "Hub | None" = None,
    ) -> None:
        self.host = host
        self.reader = reader
        self.piggyback = Piggyback(host)
        #: Maximum items of a page.
        self.page_max = page_max
        #: Maximum bytes of the messages of a page.
        self.page_bytes_max = page_bytes_max
        #: Rows of the live state that a list examines before the event loop serves others.
        self.rows_per_turn = rows_per_turn
        #: Held while a list examines rows, so that one list at a time does.
        self.listing = asyncio.Lock()
        #: Rows that one search examines.
        self.find_depth = find_depth
        #: Characters of a message's preview in lists.
        self.preview_max = preview_max
        #: The hub that serves it; null on an embedded bus.
        self.hub = hub
        self._clock = clock

    @property
    def state(self) -> ProjectState:
        """Return the live state."""
        return self.host.exchange.state

    def now(self) -> int:
        """Return the time, microseconds since the epoch."""
        return self._clock.now()
