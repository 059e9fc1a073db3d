"""Renewal of the owner's lease while the hub works.

The event loop starts every renewal, on a thread and a database connection of its own. A process that is stopped, and
one whose event loop hangs, therefore renews nothing, and a standby takes over. The owner itself stops serving before
its lease ends, because it can then no longer know whether it still is the owner.
"""

import asyncio
import logging
from collections.abc import Callable

from tocsin.hub.hosting.worker import Worker
from tocsin.journal.base import Journal
from tocsin.journal.errors import OwnershipLost

__all__ = ["LeaseKeeper"]

_log = logging.getLogger(__name__)


class LeaseKeeper:
    """Renews the lease of one project; does nothing where the journal has none.

    `lapsed` is called when no renewal was possible in time, `renewed` after the first one that is possible again, and
    `lost` when another hub has taken over.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        journal: Journal,
        *,
        lapsed: Callable[[str], None],
        renewed: Callable[[], None],
        lost: Callable[[OwnershipLost], None],
    ) -> None:
        self._loop = loop
        self._journal = journal
        self._on_lapse, self._on_renewal, self._on_loss = lapsed, renewed, lost
        self._worker: Worker | None = None
        self._renewing = False
        self._has_lapsed = False
        self._failure = ""
        self._renewal: asyncio.TimerHandle | None = None
        self._check: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Start renewing."""
        if self._journal.terms is not None:
            self._worker = Worker(f"lease {self._journal.project}", self._loop)
            self._renew()
            self._watch()

    async def close(self) -> None:
        """Stop renewing."""
        for timer in (self._renewal, self._check):
            if timer is not None:
                timer.cancel()
        worker, self._worker = self._worker, None
        if worker is not None:
            await worker.close()

    def _renew(self) -> None:
        terms = self._journal.terms
        if self._worker is None or terms is None:
            return
        self._renewal = self._loop.call_later(terms.renew_s, self._renew)
        if not self._renewing:
            self._renewing = True
            self._worker.start(self._journal.renew, self._done)

    def _done(self, _: None, error: Exception | None) -> None:
        self._renewing = False
        if self._worker is None:
            return
        if isinstance(error, OwnershipLost):
            self._on_loss(error)
        elif error is not None:
            self._failure = str(error)
            _log.warning("the lease of project %s could not be renewed: %s", self._journal.project, error)
        elif self._has_lapsed and self._journal.lease_left_s() > 0:
            self._has_lapsed = False
            self._watch()
            self._on_renewal()

    def _watch(self) -> None:
        """Check again when the lease would end; report it if it has."""
        left_s = self._journal.lease_left_s()
        if left_s > 0:
            self._check = self._loop.call_later(left_s, self._watch)
        elif self._worker is not None:
            self._has_lapsed = True
            self._on_lapse(f"the lease of the project could not be renewed: {self._failure or 'the hub was stopped'}")
